"""Overwrites by a condition: other documents stay, and two cuts see all of it or nothing."""

from typing import Any

import pytest
from pyspark.errors import PySparkException

from docstore import pipeline
from tests.pipeline.stage import Stage
from tests.pipeline.test_writing import write

DAY = "day = 2 and tags/any(t: t eq 'x')"


def rows(stage: Stage, *bodies: tuple[str, int]) -> Any:
    made = [(name, day, ["x", "y"]) for name, day in bodies]
    return stage.spark.createDataFrame(made, "name string, day int, tags array<string>")


def body(name: str, day: int) -> dict[str, Any]:
    return {"name": name, "day": day, "tags": ["x", "y"]}


@pytest.fixture
def days(stage: Stage) -> Stage:
    stage.put({f"{day}-{n}": body(f"{day}-{n}", day) for day in (1, 2, 3) for n in range(4)})
    stage.put({"other": {"day": 2, "tags": []}, "odd": {"day": "2"}})
    return stage


def test_only_documents_that_fulfil_it_are_replaced(days: Stage) -> None:
    before = days.documents()
    asked: dict[str, Any] = {
        "mode": "overwrite",
        "replaceWhere": DAY,
        "job_id": f"{days.path[1:]}-a",
    }
    page = write(days, rows(days, ("2-0", 2), ("2-new", 2)), **asked)
    assert (page["written"], page["removed"]) == (2, 3)
    wanted = {name: each for name, each in before.items() if not name.startswith("2-")}
    wanted |= {name: body(name, 2) for name in ("2-0", "2-new")}
    assert days.documents() == wanted
    days.put({"2-0": {"day": 2, "theirs": True}})
    assert days.documents(asOf=page["before"]) == before
    assert days.documents(asOf=page["after"]) == wanted
    name = f"{days.path[1:]}-current"
    for cut, found in (("before", before), ("after", wanted)):
        pipeline.snapshot(days.url, name, as_of=page[cut], ttl_s=60)
        assert days.documents(asOf=name) == found
    again = write(days, rows(days, ("2-new", 2), ("2-0", 2)), **asked)
    assert (again.get("written", 0), again["repeated"]) == (0, 2)
    with pytest.raises(PySparkException, match=r"JOB_USED.*by another replaceWhere"):
        write(days, rows(days, ("2-0", 2)), **asked | {"replaceWhere": "day = 2"})


def test_a_row_outside_is_refused_before_anything_changes(days: Stage) -> None:
    before = days.documents()
    outside = rows(days, ("2-0", 2), ("3-0", 3))
    asked: dict[str, Any] = {"mode": "overwrite", "replaceWhere": DAY}
    with pytest.raises(PySparkException, match=r"3-0: 400 .*does not fulfil replaceWhere"):
        write(days, outside, **asked)
    assert days.documents() == before
    page = write(days, outside, onError="skip", **asked)
    assert (page["written"], page["conflicted"], page["removed"]) == (1, 1, 3)
    assert days.documents()["3-0"] == body("3-0", 3)
    write(days, outside.limit(0), **asked)
    assert sorted(days.documents()) == sorted(n for n in before if not n.startswith("2-"))


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"replaceWhere": "day ="}, "replaceWhere: the end at 5"),
        ({"replaceWhere": "slot = 1"}, "replaceWhere: slot is set by the store"),
        ({"replaceWhere": DAY, "operation": "patch"}, "rows that are whole documents"),
        ({"replaceWhere": DAY, "mode": "append"}, "leave replaceWhere out"),
    ],
)
def test_an_impossible_replacement_is_refused(
    days: Stage, options: dict[str, str], why: str
) -> None:
    with pytest.raises(PySparkException, match=why):
        write(days, rows(days, ("2-0", 2)), **{"mode": "overwrite", **options})


def test_a_refused_row_of_the_commit_restores_the_documents(days: Stage) -> None:
    before = days.documents()
    asked: dict[str, Any] = {"mode": "overwrite", "replaceWhere": DAY, "operation": "insert"}
    with pytest.raises(PySparkException, match="have been undone"):
        write(days, rows(days, ("2-9", 2), ("2-0", 2)), **asked)
    assert days.documents() == before
