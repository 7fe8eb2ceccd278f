"""Aggregates as text: their names, their types, and refusals."""

import pytest

from docstore.errors import BadRequest
from docstore.query.aggregates import TERMS_MAX, grouping_of


@pytest.mark.parametrize(
    ("aggregates", "group_by", "columns"),
    [
        ("count", "", {"count": "bigint"}),
        ("COUNT(*), Sum(total)", "", {"count": "bigint", "sum(total)": "double"}),
        ("", "kind", {"kind": "string"}),
        ("count(a.b[2])", "`a b`.c", {"a b.c": "string", "count(a.b[2])": "bigint"}),
        ("sum(cast(n as bigint)) as n", "cast(y as bigint)", {"y": "bigint", "n": "bigint"}),
        ("max(documentVersion)", "documentOwner",
         {"documentOwner": "string", "max(documentVersion)": "bigint"}),
        ("avg(documentVersion), min(documentSelfLink)", "",
         {"avg(documentVersion)": "double", "min(documentSelfLink)": "string"}),
        ("min(cast(documentVersion as string)) as `a-b`", "", {"a-b": "string"}),
        ("count(cast(x as boolean))", "cast", {"cast": "string", "count(x)": "bigint"}),
    ],
)  # fmt: skip
def test_names_and_types(aggregates: str, group_by: str, columns: dict[str, str]) -> None:
    grouping = grouping_of(aggregates, group_by)
    assert grouping is not None
    assert dict(grouping.columns) == columns


def test_nothing_is_nothing() -> None:
    assert grouping_of(" ", "") is None


@pytest.mark.parametrize(
    ("aggregates", "group_by"),
    [
        ("mean(n)", ""), ("sum", ""), ("sum()", ""), ("sum(*)", ""), ("sum(n", ""), ("sum(n))", ""),
        ("count(*) count(*)", ""), ("sum(n) as", ""), ("sum(n) as 'x'", ""), ("sum(n), sum(n)", ""),
        ("sum(cast(n as date))", ""), ("sum(cast(n))", ""), ("sum(cast(n as string))", ""),
        ("max(cast(n as boolean))", ""), ("sum(documentSelfLink)", ""),
        ("count", "cast(documentOwner as bigint)"), ("count", "kind as count"), ("count", "1"),
        ("count", "kind year"), ("count(x); drop table history", ""),
        ("max(documentUpdateTime)", ""), ("sum(deleted)", ""), ("count", "body"),
        (", ".join(f"sum(n{number})" for number in range(TERMS_MAX + 1)), ""),
    ],
)  # fmt: skip
def test_a_malformed_aggregate_or_group_is_refused(aggregates: str, group_by: str) -> None:
    with pytest.raises(BadRequest):
        grouping_of(aggregates, group_by)
