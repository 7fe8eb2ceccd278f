"""All reads of one query belong to one cut, in every form and every plan of Spark."""

from typing import Any

import pytest
from pyspark.errors import PySparkException

from docstore import pipeline
from tests.pipeline.stage import Stage

ONE, TWO = {"total": 1}, {"total": 2}


def put(stage: Stage, body: dict[str, Any]) -> None:
    stage.put({str(n): body for n in range(50)})


def totals(rows: Any) -> set[int]:
    return {row["total"] for row in rows.select("total").collect()}


def test_a_relation_reads_the_cut_of_when_it_was_resolved(stage: Stage) -> None:
    put(stage, ONE)
    bare = stage.load()
    typed = stage.load(members="total long", columns="documentSelfLink")
    stage.spark.sql(
        "CREATE OR REPLACE TEMPORARY VIEW resolved USING docstore OPTIONS"
        f" (url '{stage.url}', path '{stage.path}', members 'total long')"
    )
    feed = stage.changes(start="earliest", members="total long")
    put(stage, TWO)
    assert bare.alias("a").join(bare.alias("b"), ["documentSelfLink", "body"]).count() == 50
    assert {row["body"] for row in bare.collect()} == {'{"total":1}'}
    assert totals(typed) == {1}
    sums = "(SELECT sum(total) FROM resolved)"
    row = stage.spark.sql(f"SELECT {sums} a, {sums} b, {sums} c").first()
    assert tuple(row) == (50, 50, 50)
    assert feed.count() == 50
    assert totals(stage.load(members="total long")) == {2}


def test_columns_from_outside_need_a_cut(stage: Stage) -> None:
    put(stage, ONE)
    reader = stage.spark.read.format("docstore").option("url", stage.url).schema("total long")
    for moving in ("latest", "barrier"):
        with pytest.raises(PySparkException, match=r"each scan would read a cut of its own"):
            reader.option("asOf", moving).load(stage.path).collect()
    cut = stage.cut()
    put(stage, TWO)
    assert totals(reader.option("asOf", cut).load(stage.path)) == {1}
    feed = stage.spark.read.format("docstore.changes").option("url", stage.url)
    feed = feed.schema("seq long, total long").option("end", cut)
    with pytest.raises(PySparkException, match=r'option\("start"'):
        feed.load(stage.path).collect()
    held = pipeline.snapshot(stage.url, "from-here", ttl_s=60)
    assert feed.option("start", held).option("end", held).load(stage.path).count() == 0


def test_a_time_that_is_yet_to_come_is_refused_by_every_form(stage: Stage) -> None:
    put(stage, ONE)
    future = "2999-01-01T00:00:00Z"
    with pytest.raises(pipeline.PipelineError, match="is yet to come"):
        pipeline.read(stage.spark, stage.url, stage.path, as_of=future)
    keys = stage.spark.createDataFrame([("1",)], "k string")
    with pytest.raises(pipeline.PipelineError, match="is yet to come"):
        pipeline.lookup(keys, stage.url, stage.path, key="k", as_of=future)
    reader = stage.spark.read.format("docstore").options(url=stage.url, asOf=future)
    with pytest.raises(PySparkException, match="is yet to come"):
        reader.schema("total long").load(stage.path).collect()
    with pytest.raises(PySparkException, match="is yet to come"):
        stage.load(asOf=future)


def test_a_table_of_the_catalog_is_refused_in_one_line(stage: Stage) -> None:
    using = f"USING docstore OPTIONS (url '{stage.url}', path '{stage.path}')"
    with pytest.raises(PySparkException, match="use CREATE TEMPORARY VIEW"):
        stage.spark.sql(f"CREATE TABLE kept {using}")
    # Spark makes one with columns by itself, and asks the format when the table is used.
    stage.spark.sql(f"CREATE TABLE kept (documentSelfLink string) {using}")
    for use in ("SELECT * FROM kept", "INSERT INTO kept VALUES ('a')"):
        with pytest.raises(PySparkException, match="use CREATE TEMPORARY VIEW"):
            stage.spark.sql(use).collect()
    stage.spark.sql("DROP TABLE kept")
