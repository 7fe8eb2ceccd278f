"""Rows are written below the path of the write, whichever links they have."""

from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql.types import StringType, StructField, StructType

from docstore import pipeline
from docstore.pipeline.bulk_lines import BulkLines
from docstore.pipeline.options import Options
from docstore.pipeline.writing import TableWriter
from tests.pipeline.stage import Stage

SCHEMA = StructType([StructField("key", StringType()), StructField("body", StringType())])


def lines(key: str, **options: str) -> Any:
    """Return the line of a row with this key, written to /best."""
    given = {"path": "/best", "key": "key", **{k.lower(): v for k, v in options.items()}}
    batch = pa.RecordBatch.from_pydict({"key": [key], "body": ["{}"]})
    (line,) = BulkLines(Options(given), SCHEMA, 64).of(batch, "job", 0)
    return line


@pytest.mark.parametrize("key", ["one", "/best/one"])
@pytest.mark.parametrize("links", ["refuse", "move", "follow"])
def test_ids_and_links_below_the_path_go_there(key: str, links: str) -> None:
    line = lines(key, foreignLinks=links)
    assert (line.link, line.wrong) == ("/best/one", "")


@pytest.mark.parametrize(
    "key", ["/films/one", "/best/old/one", "old/one", "/bestest/one", "/best", "/best/", "/one"]
)
@pytest.mark.parametrize("operation", ["upsert", "delete"])
def test_a_link_that_is_not_directly_below_the_path_is_refused(key: str, operation: str) -> None:
    line = lines(key, operation=operation)
    assert "foreignLinks" in line.wrong
    assert "/best" in line.wrong


@pytest.mark.parametrize("links", ["refuse", "move"])
def test_an_id_with_a_slash_is_refused_and_never_cut(links: str) -> None:
    line = lines("2025/01/01", foreignLinks=links)
    assert "2025/01/01 is an id with a slash" in line.wrong


@pytest.mark.parametrize("key", ["/films/one", "/best/old/one"])
def test_foreign_links_are_moved_if_asked(key: str) -> None:
    line = lines(key, foreignLinks="move")
    assert (line.link, line.wrong) == ("/best/one", "")


def test_foreign_links_are_followed_if_asked() -> None:
    assert lines("/films/one", foreignLinks="follow").link == "/films/one"


def test_an_overwrite_follows_no_links() -> None:
    options = Options({"path": "/best", "key": "key", "foreignlinks": "follow"})
    with pytest.raises(ValueError, match="foreignLinks"):
        TableWriter(options, SCHEMA, overwrite=True)


@pytest.mark.thorough
def test_rows_of_another_factory_leave_it_as_it_was(stage: Stage) -> None:
    films = {f"{n:03d}": {"n": n} for n in range(40)}
    stage.put(films)
    best = Stage.of(stage.spark, stage.cluster, f"{stage.path}-best")
    best.put({"old": {"n": -1}})
    before = stage.cut()
    rows = pipeline.read(stage.spark, stage.url, stage.path, where="n < 10").select(
        "documentSelfLink", "body"
    )
    for mode in ("append", "overwrite"):
        with pytest.raises(PySparkException, match="foreignLinks"):
            pipeline.write(rows, stage.url, best.path, mode=mode)
    assert best.documents() == {"old": {"n": -1}}
    pipeline.write(rows, stage.url, best.path, mode="overwrite", foreignLinks="move")
    assert best.documents() == {name: body for name, body in films.items() if body["n"] < 10}
    changed = stage.spark.read.format("docstore.changes").options(
        url=stage.url, start=before, end="latest"
    )
    assert changed.load(stage.path).count() == 0
