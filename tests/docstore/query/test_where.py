"""Conditions: what they say of links, and what is refused. What they find is in scans/."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docstore.errors import BadRequest
from docstore.query.tokens import TEXT_MAX
from docstore.query.where import DEPTH_MAX, parse
from tests.docstore.query.documents import CHARACTERS


@pytest.mark.parametrize(
    ("text", "links", "prefix"),
    [
        ("documentSelfLink = '/a/1'", {"/a/1"}, ""),
        ("documentSelfLink in ('/a/1', '/a/2') and n = 1", {"/a/1", "/a/2"}, ""),
        ("documentSelfLink = '/a/1' or documentSelfLink = '/a/2'", {"/a/1", "/a/2"}, ""),
        ("documentSelfLink = '/a/1' or n = 1", None, ""),
        ("documentSelfLink = '/a/1' and documentSelfLink = '/a/2'", set(), ""),
        ("not documentSelfLink = '/a/1'", None, ""),
        ("documentSelfLink like '/a/12%' or documentSelfLink like '/a/13%'", None, "/a/1"),
        ("documentSelfLink like '/a/%' and documentSelfLink like '/a/13%'", None, "/a/13"),
        ("not documentSelfLink like '/a/%'", None, ""),
        ("documentSelfLink like '/a/%' or n = 1", None, ""),
    ],
)
def test_what_a_condition_says_of_links(text: str, links: set[str] | None, prefix: str) -> None:
    condition = parse(text)
    assert condition.links == (None if links is None else frozenset(links))
    assert condition.prefix == prefix


@pytest.mark.parametrize(
    "text",
    [
        "", "n", "n =", "= 1", "n = 1 and", "n = 1 2", "(n = 1", "n = 1)", "n in ()", "n in (1",
        "n like 'a_%'", "n like 'abc'", "n like '%'  '", "n = 'open", "n is 1", "n between 1",
        "n ? 1", "n = 99999999999999999999", "select = (select 1)", "documentOwner contains 'a'",
        'n."a" = 1', "`é`.`é`.`é`.`é` = 1", "n[x] = 1", "not", "n = null", "n; drop table history",
        "n[4294967296] = 1", f"n[{'9' * 5_000}] = 1", f"n = {'9' * 5_000}",
        "slot = '562'", "deleted = 1", "seq like '1%'", "documentUpdateTime > '2026-11-20'",
        "documentUpdateTime > 5", "documentUpdateTimeMicros > '2026-11-20T19:00:00Z'",
        "body = 'x'", "before is null", "documentKind = 'x'", "`documentKind` = 'x'",
        "documentOwner in ('a', 1)", "not (n = 9 or " * 12 + "n < 9" + ")" * 12,
        "(" * (DEPTH_MAX + 2) + "n = 1" + ")" * (DEPTH_MAX + 2), "n = 1 " + " " * TEXT_MAX,
        " or ".join(["`é`.`é`.`é` = 1"] * 800),
        "n = \uff11", "n[\uff11] = 1", "n = 1.\uff10", "n = 'a\0b'", "n = '\ud800'",
    ],
)  # fmt: skip
def test_what_is_not_understood_is_refused(text: str) -> None:
    with pytest.raises(BadRequest):
        parse(text)


@given(st.text(max_size=60))
def test_any_text_is_a_condition_or_refused(text: str) -> None:
    try:
        condition = parse(text)
    except BadRequest:
        return
    assert condition.sql.count("?") == len(condition.parameters)


@given(st.text(CHARACTERS, max_size=20), st.text(CHARACTERS, max_size=20))
def test_texts_are_never_part_of_the_statement(value: str, other: str) -> None:
    quoted = [text.replace("'", "''") for text in (value, other)]
    condition = parse(f"a.b = '{quoted[0]}' or c in ('{quoted[1]}', 1, true)")
    assert value in condition.parameters
    assert other in condition.parameters
