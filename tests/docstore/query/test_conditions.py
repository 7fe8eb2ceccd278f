"""Conditions: SQL and Python agree with their meaning; refusals name the position."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from docstore.errors import BadRequest
from docstore.query.condition import Condition
from docstore.query.parser import (
    ARRAYS_MAX,
    CLAUSES_MAX,
    DEPTH_MAX,
    PATTERN_MAX,
    STARS_MAX,
    parse,
)
from docstore.query.tokens import TEXT_MAX
from tests.docstore.query.conditions import CONDITIONS, TESTS, Said, starless
from tests.docstore.query.documents import (
    CHARACTERS,
    TEXTS,
    Document,
    Table,
    compares,
    documents,
    is_alike,
    member,
    quoted,
)


@pytest.fixture(scope="module")
def table() -> Iterator[Table]:
    table = Table(documents())
    yield table
    table.close()


def both(table: Table, condition: Condition) -> set[int]:
    """Return the documents that a condition finds, which SQL and Python must agree on."""
    found = table.found(condition.sql, condition.parameters)
    rows = enumerate({"body": each} for each in table.documents)
    assert found == {n for n, row in rows if condition.predicate.holds(row) is True}
    return found


def check(table: Table, said: Said) -> None:
    wanted = {n for n, document in enumerate(table.documents) if said.holds(document) is True}
    assert both(table, parse(said.text)) == wanted, said.text


@given(CONDITIONS)
def test_a_condition_finds_the_matching_documents(table: Table, said: Said) -> None:
    check(table, said)


@pytest.mark.slow
@settings(max_examples=3_000, suppress_health_check=list(HealthCheck), deadline=None)
@given(CONDITIONS)
def test_thousands_of_conditions_find_the_matching_documents(table: Table, said: Said) -> None:
    check(table, said)


def injections() -> Iterator[tuple[str, Callable[[Document], bool]]]:
    """Yield filters with texts that mean something to SQL, JSON paths, GLOB or the grammar."""
    for text in [*TEXTS, "') OR ('1'='1", "x' UNION SELECT 1 --", "}", "{{}}", "{value}"]:
        literal = quoted(text)
        yield f"s eq {quoted(starless(text))}", lambda d, t=text: member(d, ["s"]) == t
        yield f"s ne {quoted(starless(text))}", lambda d, t=text: member(d, ["s"]) != t
        yield f"s in ({literal}, 7)", lambda d, t=text: compares(member(d, ["s"]), "eq", t)
        for name, function in TESTS.items():
            yield f"{name}(s,{literal})", lambda d, f=function, t=text: is_text(d.get("s"), f, t)
        yield f"a/b le {literal}", lambda d, t=text: compares(member(d, ["a", "b"]), "le", t)
        if "`" not in text and text:
            yield (
                f"`{text}` eq 1 or n eq 2",
                lambda d, t=text: compares(d.get(t), "eq", 1) or compares(d.get("n"), "eq", 2),
            )


def is_text(value: Any, function: Callable[[str, str], bool], literal: str) -> bool:
    return isinstance(value, str) and function(value, literal)


def test_no_text_is_more_than_a_text(table: Table) -> None:
    tried = [*injections()]
    assert len(tried) >= 200
    for text, holds in tried:
        wanted = {n for n, document in enumerate(table.documents) if holds(document)}
        assert both(table, parse(text)) == wanted, text
    dated = parse("`{value}` ge 2026-11-20")
    assert dated.sql.count("?") == len(dated.parameters)


REFUSED = [
    ("", 0), ("n", 1), ("n eq", 4), ("eq 1", 3), ("n eq 1 and", 10), ("n eq 1 2", 7),
    ("(n eq 1", 7), ("n eq 1)", 6), ("n in ()", 6), ("n in (1", 7), ("n =", 3), ("= 1", 0),
    ("n eq 'open", 5), ("' OR 1=1 --", 0), ("n gt null", 5), ("startswith(n,5)", 13),
    ("startswith(n 'a')", 13), ("n/any(x: y eq 1)", 9), ("n/none(x: x eq 1)", 2),
    ("n/any(x: x eq 1", 15), ("n/any(x x eq 1)", 8), ("n/any()", 6), ("n ? 1", 2),
    ("n; drop table h", 1), ("name eq 'x' or slot eq '5'", 15), ("contains(slot,'1')", 0),
    ("deleted eq 1", 0), ("documentUpdateTime gt 5", 0), ("n eq 99999999999999999999", 5),
    ("documentOwner/any(x: x eq 1)", 0), ("documentOwner gt 2026-11-20", 0),
    ("documentVersion gt 2026-11-20", 0), ("s ge 2026-02-30", 5), ("s ge 2026-11-20T19:00", 5),
    ("length(s) eq '5'", 0), ("length(slot) eq 5", 0), ("length(s) eq null", 0), ("sum(n) eq 5", 0),
    ("tolower(s) eq 5", 0), ("tolower(tolower(s)) eq 'x'", 15), ("tolower(s) contains 'x'", 0),
    ("s eq '" + "*a" * (STARS_MAX + 1) + "'", 0), ("s eq '*" + "a" * PATTERN_MAX + "'", 0),
    ("t/any(x: " + "x eq 1 or " * CLAUSES_MAX + "x eq 1)", 9 + 10 * CLAUSES_MAX),
    ("(" * (DEPTH_MAX + 1) + "n eq 1" + ")" * (DEPTH_MAX + 1), DEPTH_MAX + 1),
    ("not " * (DEPTH_MAX + 1) + "n eq 1", 4 * (DEPTH_MAX + 1)),
    ("x" + "/any(x: x" * (ARRAYS_MAX + 1) + " eq 1" + ")" * (ARRAYS_MAX + 1), 2 + 9 * ARRAYS_MAX),
    ("(a+)+$", 2), ("n eq 1 or or n eq 2", 10),
    ("n like 'a_%'", 7), ("n like 'abc'", 7), ("n like '%'  '", 12), ("n is 1", 5),
    ("n between 1", 11), ("n not 1", 6), ("select = (select 1)", 9),
    ("documentOwner contains 'a'", 0),
    ('n."a" = 1', 2), ("n[x] = 1", 2), ("not", 3), ("n = null", 4), ("n[4294967296] = 1", 2),
    (f"n[{'9' * 5_000}] = 1", 2), (f"n = {'9' * 5_000}", 4),
    ("slot = '562'", 0), ("deleted = 1", 0),
    ("seq like '1%'", 0), ("documentUpdateTime > '2026-11-20'", 0), ("documentUpdateTime > 5", 0),
    ("documentUpdateTimeMicros > '2026-11-20T19:00:00Z'", 0), ("documentOwner in ('a', 1)", 0),
    ("n = \uff11", 4), ("n[\uff11] = 1", 2), ("n = 1.\uff10", 6), ("n = 'a\0b'", 6),
    ("n = '\ud800'", 5), ("n in (1) 2", 9),
]  # fmt: skip


@pytest.mark.parametrize(("text", "at"), REFUSED)
def test_a_malformed_condition_is_refused_with_the_position(text: str, at: int) -> None:
    with pytest.raises(BadRequest, match=rf"^where: .* at {at}\b"):
        parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "body eq 'x'", "before is null", "documentKind = 'x'", "`documentKind` = 'x'",
        "`é`/`é`/`é`/`é` eq 1", "n = 1 " + " " * TEXT_MAX,
        "not (n eq 9 or " * 12 + "n lt 9" + ")" * 12, "n eq 1 or " * 10_000 + "n eq 1",
        " or ".join(["`é`.`é`.`é` = 1"] * 800), " or ".join(["n ge 2026-11-20"] * 800),
    ],
)  # fmt: skip
def test_a_forbidden_or_too_large_filter_is_refused(text: str) -> None:
    with pytest.raises(BadRequest, match=r"^\$filter: "):
        parse(text, "$filter")


@given(st.text(max_size=60))
def test_any_text_is_a_condition_or_refused(text: str) -> None:
    try:
        condition = parse(text)
    except BadRequest:
        return
    assert condition.sql.count("?") == len(condition.parameters)


@given(st.text(CHARACTERS, max_size=20), st.text(CHARACTERS, max_size=20))
def test_texts_are_never_part_of_the_statement(value: str, other: str) -> None:
    said = [text.replace("'", "''") for text in (value, other)]
    condition = parse(f"a.b = '{said[0]}' or c in ('{said[1]}', 1, true)")
    assert value in condition.parameters
    assert other in condition.parameters


@pytest.mark.parametrize(
    ("text", "links", "prefix"),
    [
        ("documentSelfLink = '/a/1'", {"/a/1"}, ""),
        ("documentSelfLink eq '/a/1'", {"/a/1"}, ""),
        ("documentSelfLink in ('/a/1', '/a/2') and n = 1", {"/a/1", "/a/2"}, ""),
        ("documentSelfLink = '/a/1' or documentSelfLink eq '/a/2'", {"/a/1", "/a/2"}, ""),
        ("documentSelfLink = '/a/1' or n = 1", None, ""),
        ("documentSelfLink = '/a/1' and documentSelfLink = '/a/2'", set(), ""),
        ("not documentSelfLink = '/a/1'", None, ""),
        ("not (documentSelfLink eq '/a/1')", None, ""),
        ("documentSelfLink ne '/a/1'", None, ""),
        ("documentSelfLink not in ('/a/1')", None, ""),
        ("tolower(documentSelfLink) eq '/a/1'", None, ""),
        ("tags/any(t: t eq '/a/1')", None, ""),
        ("documentSelfLink like '/a/12%' or documentSelfLink like '/a/13%'", None, "/a/1"),
        ("documentSelfLink like '/a/%' and documentSelfLink like '/a/13%'", None, "/a/13"),
        ("not documentSelfLink like '/a/%'", None, ""),
        ("documentSelfLink like '/a/%' or n = 1", None, ""),
        ("startswith(documentSelfLink,'/a/1')", None, "/a/1"),
        ("startswith(documentSelfLink,'/a/1') eq false", None, ""),
        ("endswith(documentSelfLink,'/a/1')", None, ""),
        ("documentSelfLink eq '/a/1*'", None, "/a/1"),
        ("documentSelfLink eq '/a/1*2'", None, "/a/1"),
        ("documentSelfLink eq '/a/1**'", {"/a/1*"}, ""),
    ],
)
def test_a_condition_limits_links_and_prefix(
    text: str, links: set[str] | None, prefix: str
) -> None:
    condition = parse(text)
    assert condition.links == (None if links is None else frozenset(links))
    assert condition.prefix == prefix


LARGEST = [
    " or ".join(["n eq 1"] * 1_600),
    " and ".join(["not (s ne 'x')"] * 800),
    "n in (" + ", ".join(map(str, range(2500))) + ")",
    "(" * DEPTH_MAX + "n eq 1" + ")" * DEPTH_MAX,
    "not " * DEPTH_MAX + "n eq 1",
    "s eq '" + "*x" * (STARS_MAX - 1) + "*'",
    "not (n eq 9 or " * 4 + "`é`/`é`/`é` ne 'x*y*z'" + ")" * 4,
    "cast/any(x: " + " or ".join(["x/name eq 'x*y'"] * CLAUSES_MAX) + ")",
    "tags" + "/any(x: x" * ARRAYS_MAX + " ge 2026-11-20" + ")" * ARRAYS_MAX,
    "`é`/`é`/`é`" + "/all(x: x/`é`/`é`/`é`" * 2 + " eq 1" + ")" * 2,
]


@pytest.mark.parametrize("text", LARGEST)
def test_the_largest_conditions_are_carried_out(table: Table, text: str) -> None:
    both(table, parse(text))


def test_a_condition_looks_at_each_element_once() -> None:
    """Count the steps for 20,000 elements: one pass, not 400,000,000 comparisons."""
    table = Table([{"t": [{"u": [{"n": n}]} for n in range(20_000)]}])
    clauses = " and ".join(["y/n ne -1"] * 20)
    condition = parse(f"t/all(x: x/u/any(y: {clauses}))")
    table.steps_left = 500 * 20_000
    assert table.found(condition.sql, condition.parameters) == {0}
    with pytest.raises(BadRequest, match="the element x, or a member of it"):
        parse("t/all(x: t/any(y: x/u eq 1))")
    table.close()


def test_types_are_not_mixed(table: Table) -> None:
    assert is_alike(True, True)
    assert not is_alike(1, True)
    found = both(table, parse("s eq true"))
    assert {table.documents[n].get("s") is True for n in found} == {True}


def test_columns_are_read_from_a_row() -> None:
    row: dict[str, Any] = {
        "documentSelfLink": "/a/1", "documentVersion": 3, "documentEpoch": 1, "documentOwner": "n1",
        "documentUpdateTimeMicros": 1_795_201_200_000_000, "documentUpdateAction": "PUT",
        "slot": 7, "seq": 9, "deleted": False, "digest": "AB",
        "body": json.loads('{"documentExpirationTimeMicros": 1795201200000000, "slot": 1}'),
    }  # fmt: skip
    for text in (
        "documentUpdateTime eq 2026-11-20T19:00:00Z",
        "documentUpdateTime <= '2026-11-20T19:00:00Z'",
        "documentExpirationTime ge 2026-11-20", "deleted eq false", "slot = 7 and `slot` = 1",
        "startswith(tolower(documentOwner),'n')", "length(documentSelfLink) = 4",
        "slot is not null",
    ):  # fmt: skip
        assert parse(text).predicate.holds(row) is True, text
    tombstone = {**row, "body": None, "deleted": True}
    assert parse("deleted = true and documentExpirationTime is null").predicate.holds(tombstone)
    assert parse("n = 1").predicate.holds(tombstone) is None
