"""Aggregates of pages, put together, against a model: every cut, every page size, the same."""

import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from docstore.errors import BadRequest
from docstore.query.aggregates import Totals, grouping_of
from tests.docstore.reads.scans.copies import Copy

FUNCTIONS = (
    "count(*), count(m) as held, sum(cast(m as bigint)) as whole, sum(m), min(m), max(m), avg(m),"
    " min(cast(m as string)) as least, max(documentVersion) as newest"
)
ODD = [1, -3, 2.5, 1e300, True, False, None, "x", "10", "é", "", [1, 2], {"a": 1}, 1 << 62, 1 << 70]


@pytest.fixture(params=range(3))
def copy(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Copy]:
    copy = Copy(tmp_path / "docstore.db", request.param)
    copy.state = lambda rng: {"n": rng.randrange(3), "m": rng.choice(ODD[:10])}
    copy.write(200)
    yield copy
    copy.close()


def totals(copy: Copy, aggregates: str, group_by: str, rows: int, **asked: Any) -> list[Any]:
    """Return the results from pages of `rows` documents, merged from two sets of totals."""
    grouping = grouping_of(aggregates, group_by)
    assert grouping is not None
    halves = Totals(grouping), Totals(grouping)
    after: list[Any] | None = [-1, "", -1]
    pages = 0
    while after is not None:
        question = {"prefix": "/a/", **asked, "aggregates": aggregates, "groupBy": group_by,
                    "columns": [], "format": "ndjson", "compression": "", "rows": rows,
                    "after": after, "schema": False, "skipped": False,
                    "damages": 0}  # fmt: skip
        fields, payload = copy.pages.answer(question)
        assert "error" not in fields, fields
        for line in bytes(payload).splitlines():
            halves[pages % 2].add(json.loads(line))
        after, pages = fields["next"], pages + 1
    halves[0].merge(halves[1])
    return sorted(halves[0].rows(), key=repr)


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def in_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return {1e300: "1.0e+300"}.get(value) or json.dumps(value, separators=(",", ":"))


def results(bodies: list[dict[str, Any]]) -> tuple[Any, ...]:
    """Return the values of FUNCTIONS for some documents, computed in Python."""
    held = [body["m"] for body in bodies if body["m"] is not None]
    numbers = [float(each) for each in held if is_number(each)]
    whole = [each for each in held if is_number(each) and isinstance(each, int)]
    return (
        len(bodies), len(held), sum(whole) if whole else None,
        pytest.approx(sum(numbers)) if numbers else None, min(numbers, default=None),
        max(numbers, default=None),
        pytest.approx(sum(numbers) / len(numbers)) if numbers else None,
        min(map(in_text, held), default=None),
        max((body["version"] for body in bodies), default=None),
    )  # fmt: skip


@pytest.mark.parametrize("rows", [1, 7, 1000])
@pytest.mark.parametrize("versions", ["latest", "all"])
def test_aggregates_match_the_rows_at_any_cut(copy: Copy, rows: int, versions: str) -> None:
    for share in (0.0, 0.4, 1.0):
        spans = [(slot, 0, int(end * share)) for slot, end in copy.ends.items()]
        asked = {"cut": [[slot, until] for slot, _, until in spans], "versions": versions}
        found = copy.expected(spans, is_log=False, latest=versions == "latest", deleted=False)
        groups = defaultdict(list)
        for row in found:
            body = row["body"] | {"version": row["documentVersion"]}
            groups[str(body["n"])].append(body)
        wanted = sorted(((key, *results(bodies)) for key, bodies in groups.items()), key=repr)
        assert totals(copy, FUNCTIONS, "n", rows, **asked) == wanted
        everything = [body for bodies in groups.values() for body in bodies]
        assert totals(copy, FUNCTIONS, "", rows, **asked) == [results(everything)]


def test_aggregates_cover_only_rows_of_the_condition(copy: Copy) -> None:
    asked = {"cut": [[slot, end] for slot, end in copy.ends.items()]}
    where = "n >= 1 and documentSelfLink like '/a/1%'"
    counted = totals(copy, "count(*)", "documentSelfLink", 5, where=where, **asked)
    spans = [(slot, 0, end) for slot, end in copy.ends.items()]
    rows = copy.expected(spans, is_log=False, latest=True, deleted=False)
    links = [row["documentSelfLink"] for row in rows if row["body"]["n"] >= 1]
    assert counted == sorted((link, 1) for link in links if link.startswith("/a/1"))


def test_a_value_has_one_type_and_all_else_is_null(tmp_path: Path) -> None:
    copy = Copy(tmp_path / "docstore.db", 1)
    values = iter(ODD)
    copy.state = lambda _: {"m": next(values)}
    copy.write_links([f"/a/{number}" for number in range(len(ODD))])
    cut = {"cut": [[slot, end] for slot, end in copy.ends.items()]}

    def keys(type_: str) -> dict[Any, int]:
        found = totals(copy, "count", f"cast(m as {type_})", 100, **cut)
        return {key: count for key, count in found if key is not None}

    assert keys("bigint") == {1: 1, -3: 1, 1 << 62: 1}
    assert keys("double") == {1.0: 1, -3.0: 1, 2.5: 1, 1e300: 1, 2.0**62: 1, 2.0**70: 1}
    assert keys("boolean") == {True: 1, False: 1}
    texts = keys("string")
    assert {"1", "-3", "2.5", "true", "false", "x", "10", "é", "", "[1,2]", '{"a":1}'} <= set(texts)
    assert sum(texts.values()) == len(ODD) - 1
    copy.close()


def test_a_sum_beyond_64_bits_is_refused_and_never_wrong(tmp_path: Path) -> None:
    copy = Copy(tmp_path / "docstore.db", 1)
    copy.state = lambda _: {"m": 1 << 62}
    copy.write_links([f"/a/{number}" for number in range(8)])
    cut = {"cut": [[slot, end] for slot, end in copy.ends.items()]}
    with pytest.raises(OverflowError, match=r"sum\(m\) must fit into 64 bits"):
        totals(copy, "sum(cast(m as bigint))", "", 1, **cut)  # In the sum of the pages.
    with pytest.raises(BadRequest, match="to double"):
        totals(copy, "sum(cast(m as bigint))", "", 1000, **cut)  # In a page.
    assert totals(copy, "sum(m)", "", 3, **cut) == [(8 * 2.0**62,)]
    copy.close()
