"""Filters against what they mean in plain Python, and what is refused, and where."""

from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docstore.errors import BadRequest
from docstore.query.filter import CLAUSES_MAX, DEPTH_MAX, PATTERN_MAX, STARS_MAX, parse_filter
from docstore.query.tokens import TEXT_MAX
from tests.docstore.query.documents import (
    NUMBERS,
    TEXTS,
    Document,
    Path,
    Table,
    compares,
    documents,
    is_alike,
    member,
    quoted,
)


class Said(NamedTuple):
    """A filter as text, and what it means."""

    text: str
    holds: Callable[[Document], bool]


PATHS: dict[str, Path] = {
    "n": ["n"], "s": ["s"], "a/b": ["a", "b"], "a.b": ["a", "b"], "`é`": ["é"], "tags": ["tags"],
    "tags[1]": ["tags", 1], "missing": ["missing"], "a/`b`": ["a", "b"],
}  # fmt: skip
FUNCTIONS: dict[str, Callable[[str, str], bool]] = {
    "startswith": str.startswith, "endswith": str.endswith, "contains": str.__contains__,
}  # fmt: skip


@pytest.fixture(scope="module")
def table() -> Iterator[Table]:
    table = Table(documents())
    yield table
    table.close()


def spelt(literal: Any) -> str:
    if isinstance(literal, str):
        return quoted(literal)
    return {True: "true", False: "false"}[literal] if isinstance(literal, bool) else repr(literal)


def starless(text: str) -> str:
    """Return a text for eq and ne, in which its stars are stars."""
    return text.replace("*", "**")


paths = st.sampled_from(sorted(PATHS))
literals = st.sampled_from([*NUMBERS, *TEXTS, True, False])


@st.composite
def comparisons(draw: st.DrawFn) -> Said:
    path, literal = draw(paths), draw(literals)
    operator = draw(st.sampled_from(["eq", "ne", "gt", "ge", "lt", "le"]))
    is_equality = operator in ("eq", "ne") and isinstance(literal, str)
    text = spelt(starless(literal) if is_equality else literal)
    return Said(
        f"{path} {operator} {text}",
        lambda document: compares(member(document, PATHS[path]), operator, literal),
    )


@st.composite
def functions(draw: st.DrawFn) -> Said:
    path, name, literal = draw(paths), draw(st.sampled_from(sorted(FUNCTIONS))), draw(
        st.sampled_from(TEXTS)
    )  # fmt: skip
    wanted = draw(st.sampled_from(["", " eq true", " eq false"]))

    def holds(document: Document) -> bool:
        value = member(document, PATHS[path])
        found = isinstance(value, str) and FUNCTIONS[name](value, literal)
        return found != (wanted == " eq false")

    return Said(f"{name}({path},{spelt(literal)}){wanted}", holds)


@st.composite
def nulls(draw: st.DrawFn) -> Said:
    path, operator = draw(paths), draw(st.sampled_from(["eq", "ne"]))
    return Said(
        f"{path} {operator} null",
        lambda document: (member(document, PATHS[path]) is None) == (operator == "eq"),
    )


@st.composite
def lists(draw: st.DrawFn) -> Said:
    path, chosen = draw(paths), draw(st.lists(literals, min_size=1, max_size=4))
    return Said(
        f"{path} in ({', '.join(map(spelt, chosen))})",
        lambda document: any(compares(member(document, PATHS[path]), "eq", x) for x in chosen),
    )


@st.composite
def elements(draw: st.DrawFn) -> Said:
    operator, literal = draw(st.sampled_from(["eq", "gt", "ge", "lt", "le"])), draw(literals)

    def holds(document: Document) -> bool:
        value = member(document, ["tags"])
        return isinstance(value, list) and any(compares(x, operator, literal) for x in value)

    is_equality = operator == "eq" and isinstance(literal, str)
    text = spelt(starless(literal) if is_equality else literal)
    return Said(f"tags/any(t: t {operator} {text})", holds)


@st.composite
def wildcards(draw: st.DrawFn) -> Said:
    path = draw(paths)
    pieces = draw(st.lists(st.sampled_from(["", *TEXTS]), min_size=2, max_size=4))
    operator = draw(st.sampled_from(["eq", "ne"]))
    # Two stars that are meant as one must not stand behind one that stands for anything.
    text = "*".join(starless(each) if not each.startswith("*") else "q" for each in pieces)
    meant = ["q" if each.startswith("*") else each for each in pieces]
    pattern = "*".join("".join(f"[{c}]" if c in "*?[" else c for c in each) for each in meant)

    def holds(document: Document) -> bool:
        value = member(document, PATHS[path])
        return (isinstance(value, str) and fnmatchcase(value, pattern)) == (operator == "eq")

    def has_one(document: Document) -> bool:
        values = member(document, ["tags"])
        texts = [x for x in values if isinstance(x, str)] if isinstance(values, list) else []
        return any(fnmatchcase(each, pattern) for each in texts)

    if draw(st.booleans()):
        return Said(f"tags/any(t: t eq {quoted(text)})", has_one)
    return Said(f"{path} {operator} {quoted(text)}", holds)


clauses = st.one_of(comparisons(), functions(), nulls(), lists(), elements(), wildcards())


def joined(inner: st.SearchStrategy[Said]) -> st.SearchStrategy[Said]:
    def both(pair: tuple[Said, Said]) -> Said:
        one, other = pair
        return Said(f"({one.text}) and {other.text}", lambda d: one.holds(d) and other.holds(d))

    def either(pair: tuple[Said, Said]) -> Said:
        one, other = pair
        return Said(f"({one.text} or ({other.text}))", lambda d: one.holds(d) or other.holds(d))

    def neither(one: Said) -> Said:
        return Said(f"not ({one.text})", lambda d: not one.holds(d))

    pairs = st.tuples(inner, inner)
    # Without brackets around it, what stands right of `and` must bind as tightly.
    tight = st.tuples(inner, clauses)
    return st.one_of(tight.map(both), pairs.map(either), inner.map(neither))


@given(st.recursive(clauses, joined, max_leaves=6))
def test_a_filter_finds_what_it_says(table: Table, said: Said) -> None:
    condition = parse_filter(said.text)
    wanted = {n for n, document in enumerate(table.documents) if said.holds(document)}
    assert table.found(condition.sql, condition.parameters) == wanted, said.text


def injections() -> Iterator[tuple[str, Callable[[Document], bool]]]:
    """Yield filters with texts that mean something to SQL, JSON paths, GLOB or the grammar."""
    for text in [*TEXTS, "') OR ('1'='1", "x' UNION SELECT 1 --", "}", "{{}}"]:
        literal = quoted(text)
        yield f"s eq {quoted(starless(text))}", lambda d, t=text: member(d, ["s"]) == t
        yield f"s ne {quoted(starless(text))}", lambda d, t=text: member(d, ["s"]) != t
        yield f"s in ({literal}, 7)", lambda d, t=text: compares(member(d, ["s"]), "eq", t)
        for name, function in FUNCTIONS.items():
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
        condition = parse_filter(text)
        wanted = {n for n, document in enumerate(table.documents) if holds(document)}
        assert table.found(condition.sql, condition.parameters) == wanted, text


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("", 0), ("n", 1), ("n eq", 4), ("eq 1", 3), ("n eq 1 and", 10), ("n eq 1 2", 7),
        ("(n eq 1", 7), ("n eq 1)", 6), ("n in ()", 6), ("n in (1", 7), ("n = 1", 2),
        ("n eq 'open", 5), ("' OR 1=1 --", 0), ("n gt null", 2), ("startswith(n,5)", 13),
        ("startswith(n 'a')", 13), ("length(s) eq 5", 0), ("n/any(x: y eq 1)", 9),
        ("n/any(x: x ne 1)", 11), ("n/all(x: x eq 1)", 2), ("n ? 1", 2), ("n; drop table h", 1),
        ("name eq 'x' or slot eq '5'", 15), ("contains(slot,'1')", 0), ("deleted eq 1", 0),
        ("documentUpdateTime gt 5", 0), ("n eq 99999999999999999999", 5),
        ("documentOwner/any(x: x eq 1)", 0),
        ("s eq '" + "*a" * (STARS_MAX + 1) + "'", 0), ("s eq '*" + "a" * PATTERN_MAX + "'", 0),
        ("n eq 1 or " * CLAUSES_MAX + "n eq 1", 10 * CLAUSES_MAX),
        ("(" * (DEPTH_MAX + 1) + "n eq 1" + ")" * (DEPTH_MAX + 1), DEPTH_MAX + 1),
        ("not " * (DEPTH_MAX + 1) + "n eq 1", 4 * (DEPTH_MAX + 1)),
        ("(a+)+$", 2), ("n eq 1 or or n eq 2", 10),
    ],
)  # fmt: skip
def test_what_is_not_understood_is_refused_and_said_where(text: str, at: int) -> None:
    with pytest.raises(BadRequest, match=rf"^\$filter: .* at {at}\b"):
        parse_filter(text)


@pytest.mark.parametrize(
    "text",
    ["body eq 'x'", "documentKind eq 'x'", "`é`/`é`/`é`/`é` eq 1", "n eq 1 " + " " * TEXT_MAX,
     "not (n eq 9 or " * 12 + "n lt 9" + ")" * 12, "n eq 1 or " * 10_000 + "n eq 1"],
)  # fmt: skip
def test_what_is_too_much_is_refused(text: str) -> None:
    with pytest.raises(BadRequest):
        parse_filter(text)


@given(st.text(max_size=60))
def test_any_text_is_a_filter_or_refused(table: Table, text: str) -> None:
    try:
        condition = parse_filter(text)
    except BadRequest:
        return
    assert condition.sql.count("?") == len(condition.parameters)


@pytest.mark.parametrize(
    ("text", "links", "prefix"),
    [
        ("documentSelfLink eq '/a/1'", {"/a/1"}, ""),
        ("documentSelfLink in ('/a/1','/a/2') and n eq 1", {"/a/1", "/a/2"}, ""),
        ("documentSelfLink eq '/a/1' or n eq 1", None, ""),
        ("not (documentSelfLink eq '/a/1')", None, ""),
        ("documentSelfLink ne '/a/1'", None, ""),
        ("startswith(documentSelfLink,'/a/1')", None, "/a/1"),
        ("startswith(documentSelfLink,'/a/1') eq false", None, ""),
        ("documentSelfLink eq '/a/1*'", None, "/a/1"),
        ("documentSelfLink eq '/a/1*2'", None, "/a/1"),
        ("documentSelfLink eq '/a/1**'", {"/a/1*"}, ""),
    ],
)
def test_what_a_filter_says_of_links(text: str, links: set[str] | None, prefix: str) -> None:
    condition = parse_filter(text)
    assert condition.links == (None if links is None else frozenset(links))
    assert condition.prefix == prefix


def test_the_largest_filters_are_carried_out(table: Table) -> None:
    for text in (
        " or ".join(["n eq 1"] * CLAUSES_MAX),
        " and ".join(["not (s ne 'x')"] * CLAUSES_MAX),
        "n in (" + ", ".join(map(str, range(2500))) + ")",
        "(" * DEPTH_MAX + "n eq 1" + ")" * DEPTH_MAX,
        "not " * DEPTH_MAX + "n eq 1",
        "s eq '" + "*x" * (STARS_MAX - 1) + "*'",
        "not (n eq 9 or " * 4 + "`é`/`é`/`é` ne 'x*y*z'" + ")" * 4,
    ):
        condition = parse_filter(text)
        table.found(condition.sql, condition.parameters)


def test_types_are_not_mixed(table: Table) -> None:
    assert is_alike(True, True)
    assert not is_alike(1, True)
    condition = parse_filter("s eq true")
    found = table.found(condition.sql, condition.parameters)
    assert {table.documents[n].get("s") is True for n in found} == {True}
