"""The result of a condition on a stored document agrees with a GET of it."""

import json as standard
from collections.abc import Iterator, Sequence
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from docstore.model import json
from docstore.query.aggregates import grouping_of
from docstore.query.ordering import TEXT_CHARACTERS, parse_order
from docstore.query.parser import parse
from tests.docstore.query.documents import CHARACTERS, Table, compares, member, quoted
from tests.docstore.query.test_ordering import compared

ODD = st.sampled_from(list("\x01\x7f\"\\/'`.[]$#%*?{}:, é\u2028\uffff😀"))
TEXTS = st.text(CHARACTERS | ODD, max_size=8)
NAMES = TEXTS.filter(lambda name: name and "`" not in name)
SCALARS = st.one_of(
    st.none(), st.booleans(), TEXTS, st.floats(allow_nan=False, allow_infinity=False),
    st.integers(-(2**63), 2**63 - 1), st.sampled_from([-0.0, 2**53 + 1, float(2**63), 5e-324]),
)  # fmt: skip
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, min_size=1, max_size=3)
    ),
    max_leaves=6,
)
SPELLINGS = st.sampled_from([{}, {"ensure_ascii": False}, {"indent": 1}])


def ways(value: Any, behind: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield the paths of all values inside a value."""
    if behind:
        yield behind
    inside = value.items() if isinstance(value, dict) else ()
    inside = enumerate(value) if isinstance(value, list) and behind else inside
    for step, each in inside:
        yield from ways(each, (*behind, step))


def spelt(path: Sequence[str | int]) -> str:
    names = [f"[{step}]" if isinstance(step, int) else f".`{step}`" for step in path]
    return "".join(names).removeprefix(".")


def literal(value: Any) -> str:
    if isinstance(value, str):
        return quoted(value.replace("*", "**"))
    return standard.dumps(value)


@st.composite
def questions(draw: st.DrawFn) -> tuple[bytes, Sequence[str | int], str, Any]:
    """Draw a document as it is stored, a path, an operator, and what to compare with."""
    document = draw(st.dictionaries(NAMES, VALUES, min_size=1, max_size=4))
    path = draw(st.sampled_from(sorted(ways(document), key=repr)))
    value = member(document, path)
    wanted = draw(st.just(value) | SCALARS)
    if wanted is None or isinstance(wanted, list | dict):
        wanted = draw(TEXTS)
    operator = draw(st.sampled_from(["eq", "ne", "gt", "ge", "lt", "le"]))
    return standard.dumps(document, **draw(SPELLINGS)).encode(), path, operator, wanted


def odd_names(path: Sequence[str | int]) -> int:
    return sum(isinstance(step, str) for step in path)


@given(questions())
@example((b'{"a":"x\\u0001y"}', ["a"], "eq", "x\x01y"))
def test_a_comparison_agrees_with_a_get(
    asked: tuple[bytes, Sequence[str | int], str, Any],
) -> None:
    raw, path, operator, wanted = asked
    if odd_names(path) > 3:
        return
    shown = json.parse(raw)
    for stored in (raw, json.dump(shown)):
        table = Table([])
        table.put(stored)
        value = member(shown, path)
        plain = isinstance(wanted, str) and operator not in ("eq", "ne")
        said = f"{spelt(path)} {operator} {quoted(wanted) if plain else literal(wanted)}"
        condition = parse(said)
        is_found = bool(table.found(condition.sql, condition.parameters))
        assert is_found == compares(value, operator, wanted), said
        inside = parse(f"{spelt(path)}/any(x: x eq {literal(wanted)})")
        is_inside = isinstance(value, list) and any(compares(x, "eq", wanted) for x in value)
        assert bool(table.found(inside.sql, inside.parameters)) == is_inside
        table.close()


@given(VALUES, VALUES)
def test_orders_and_groups_agree_with_a_get(one: Any, other: Any) -> None:
    table = Table([])
    for value in (one, other):
        table.put(json.dump({"v": value}))
    order, grouping = parse_order("v"), grouping_of("count(*)", "v")
    sql = f"SELECT {order.columns} FROM h ORDER BY {order.terms}"
    numbers = [int(row[-3].removeprefix("/a/")) for row in table.rows(sql, order.parameters)]
    cut = [each[:TEXT_CHARACTERS] if isinstance(each, str) else each for each in (one, other)]
    assert numbers == ([1, 0] if compared(*cut) > 0 else [0, 1])
    assert grouping is not None
    [key] = grouping.values
    keys = {row[0] for row in table.rows(f"SELECT {key.sql} FROM h", key.parameters)}
    texts = {each for each in (one, other) if isinstance(each, str)}
    assert texts <= keys
    table.close()
