"""Orders against a comparison in plain Python; places; refusals."""

from collections.abc import Iterator
from functools import cmp_to_key
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docstore.errors import BadRequest
from docstore.query.ordering import (
    KEYS_MAX,
    TEXT_CHARACTERS,
    Found,
    Order,
    Place,
    is_place,
    parse_order,
    place_of,
)
from tests.docstore.query.documents import Document, Path, Table, documents, member

PATHS: dict[str, Path] = {"n": ["n"], "s": ["s"], "a/b": ["a", "b"], "`é`": ["é"], "m": ["m"]}


@pytest.fixture(scope="module")
def table() -> Iterator[Table]:
    table = Table(documents())
    yield table
    table.close()


def compared(one: Any, other: Any) -> int:
    """Say which of two values comes first: -1, 0 or 1."""
    kinds = [_kind(each) for each in (one, other)]
    if kinds[0] != kinds[1] or kinds[0] in (0, 1, 2, 5):
        return (kinds[0] > kinds[1]) - (kinds[0] < kinds[1])
    return (one > other) - (one < other)


def _kind(value: Any) -> int:
    if isinstance(value, bool):
        return 2 if value else 1
    if value is None:
        return 0
    return 3 if isinstance(value, int | float) else 4 if isinstance(value, str) else 5


def expected(made: list[Document], terms: list[tuple[str, bool]]) -> list[int]:
    """Return the numbers of documents in an order."""

    def compare(one: int, other: int) -> int:
        for name, descending in terms:
            found = compared(member(made[one], PATHS[name]), member(made[other], PATHS[name]))
            if found:
                return -found if descending else found
        return one - other

    return sorted(range(len(made)), key=cmp_to_key(compare))


def rows(table: Table, order: Order, after: Place | None, limit: int) -> list[Found]:
    behind, parameters = order.behind(after) if after is not None else ("1", ())
    sql = (
        f"SELECT * FROM (SELECT {order.columns} FROM h) WHERE {behind}"
        f" ORDER BY {order.terms} LIMIT {limit}"
    )
    return table.rows(sql, (*order.parameters, *parameters))


def numbers(found: list[Found]) -> list[int]:
    return [int(row[-3].removeprefix("/a/")) for row in found]


terms = st.lists(
    st.tuples(st.sampled_from(sorted(PATHS)), st.booleans()), max_size=KEYS_MAX,
    unique_by=lambda term: term[0],
)  # fmt: skip


@given(terms, st.integers(1, 20), st.randoms(use_true_random=False))
def test_pages_and_merged_rows_are_in_order(
    table: Table, chosen: list[tuple[str, bool]], limit: int, rng: Any
) -> None:
    text = ", ".join(f"{name}{' desc' if descending else ''}" for name, descending in chosen)
    order = parse_order(text)
    wanted = expected(table.documents, chosen)  # type: ignore[arg-type]
    found: list[Found] = []
    while len(page := rows(table, order, place_of(found[-1]) if found else None, limit)) == limit:
        found += page
    found += page
    assert numbers(found) == wanted
    rng.shuffle(found)
    order.sort(found)
    assert numbers(found) == wanted


@pytest.mark.parametrize(
    ("text", "is_by_link", "keys"),
    [
        ("", True, 0), ("documentSelfLink", True, 0), ("documentSelfLink asc", True, 0),
        ("documentSelfLink desc", False, 1), ("n, documentSelfLink", False, 1),
        ("n desc,documentVersion asc , a.b DESC", False, 3), ("desc desc", False, 1),
    ],
)  # fmt: skip
def test_an_order_parses_to_its_keys(text: str, is_by_link: bool, keys: int) -> None:
    order = parse_order(text)
    assert (order.is_by_link, len(order.keys)) == (is_by_link, keys)


@pytest.mark.parametrize(
    "text",
    ["n m", "n,", ",n", "n desc asc", "1", "'n'", "n;", "body", "documentKind", "n/", "a[x]",
     ", ".join("nmabc"), "rand()", "n desc; drop table h"],
)  # fmt: skip
def test_a_malformed_order_is_refused(text: str) -> None:
    with pytest.raises(BadRequest, match=r"^\$orderby: "):
        parse_order(text)


@pytest.mark.parametrize(
    ("value", "is_fit"),
    [
        ([3, 0.5, "/a/1", 0], True), ([4, "x", "/a/1", 2**63 - 1], True), (None, False),
        ([], False), (["/a/1", 0], False), ([3, 1, "/a/1"], False), ([3, 1, 1, 1], False),
        ([3, 2**63, "/a/1", 0], False), ([3, None, "/a/1", 0], False), ([3, [], "/a/1", 0], False),
        ([True, 1, "/a/1", 0], False), ("", False), ([3, 1, "/a/1", "0"], False), ({"a": 1}, False),
    ],
)  # fmt: skip
def test_a_place_needs_values_of_the_right_types(value: Any, is_fit: bool) -> None:
    assert is_place(parse_order("n"), value) is is_fit


def test_long_texts_are_ordered_by_their_beginning() -> None:
    made = [{"n": "x" * TEXT_CHARACTERS + end} for end in ("b", "a")] + [{"n": "x"}]
    table = Table(made)
    assert numbers(rows(table, parse_order("n"), None, 9)) == [2, 0, 1]
    table.close()


@given(st.text(max_size=40))
def test_any_text_is_an_order_or_refused(table: Table, text: str) -> None:
    try:
        order = parse_order(text)
    except BadRequest:
        return
    assert order.columns.count("?") == len(order.parameters)
