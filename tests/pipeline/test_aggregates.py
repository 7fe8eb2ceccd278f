"""Aggregates by the nodes equal Spark's over the same rows, and cost less."""

from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812

from docstore import pipeline
from docstore.pipeline import aggregating
from docstore.pipeline.options import Options
from docstore.query.aggregates import grouping_of
from tests.pipeline.stage import Stage
from tests.pipeline.test_reading import put_numbers

ASKED = "count(*) as documents, sum(cast(n as bigint)) as total, min(n) as least, avg(n) as mean"


@pytest.fixture(scope="module")
def numbers(spark: Any, cluster: Any) -> Stage:
    stage = Stage.of(spark, cluster, "/aggregated")
    put_numbers(stage, 6000)
    stage.delete(f"{n:06d}" for n in range(0, 6000, 10))
    return stage


def sorted_rows(table: Any) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in table.collect())


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("partitions", "where"),
    [
        (7, "n < 4000 and even = true"),
        (1, ""),
        (7, ""),
        (1, "n < 4000 and even = true"),
    ],
)
def test_they_equal_sparks_own(numbers: Stage, partitions: int, where: str) -> None:
    schema = "n long, even boolean, at struct<city: string>"
    reader = numbers.spark.read.format("docstore").option("url", numbers.url)
    rows = reader.options(where=where, members=schema).load(numbers.path)
    wanted = rows.groupBy("at.city", "even").agg(
        F.count("*"), F.sum("n"), F.min("n").cast("double"), F.avg("n")
    )
    found = pipeline.aggregate(
        numbers.spark, numbers.url, numbers.path, ASKED, where=where, partitions=partitions,
        group_by="at.city as city, cast(even as boolean) as even",
    )  # fmt: skip
    assert dict(found.dtypes) == {
        "city": "string", "even": "boolean", "documents": "bigint", "total": "bigint",
        "least": "double", "mean": "double",
    }  # fmt: skip
    assert sorted_rows(found) == sorted_rows(wanted)


def test_only_results_are_sent(numbers: Stage) -> None:
    before = numbers.metric("docstore_scan_bytes_total")
    table = numbers.load(aggregates="count(*)", groupBy="at.city")
    assert sorted_rows(table)[0] == ("c0", sum(1 for n in range(6000) if n % 10 and n % 7 == 0))
    assert 0 < numbers.metric("docstore_scan_bytes_total") - before < 20_000


def test_a_cut_is_pinned(stage: Stage) -> None:
    stage.put({str(n): {"n": n} for n in range(50)})
    table = pipeline.aggregate(stage.spark, stage.url, stage.path)
    stage.put({str(n): {"n": n} for n in range(70)})
    assert table.first()["count"] == 50
    assert pipeline.aggregate(stage.spark, stage.url, stage.path).first()["count"] == 70
    cut = pipeline.cut_of(table)
    past = pipeline.aggregate(stage.spark, stage.url, stage.path, "max(n) as n", as_of=cut)
    assert past.first()["n"] == 49.0


def test_nothing_has_one_row_and_no_group(stage: Stage) -> None:
    asked = {"aggregates": "count(*), sum(n)"}
    assert sorted_rows(stage.load(**asked)) == [(0, None)]
    assert sorted_rows(stage.load(**asked, groupBy="kind")) == []
    nowhere = stage.load(**asked, where="documentSelfLink = '/elsewhere/a'")
    assert sorted_rows(nowhere) == [(0, None)]


def test_they_are_a_table_of_sql(numbers: Stage) -> None:
    numbers.spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW cities USING docstore OPTIONS (url '{numbers.url}',"
        f" path '{numbers.path}', groupBy 'at.city as city', aggregates 'count(*) as n')"
    )
    row = numbers.spark.sql("SELECT count(*) AS cities, sum(n) AS n FROM cities").first()
    assert (row["cities"], row["n"]) == (7, 5400)


def test_impossible_aggregates_are_refused_at_load(numbers: Stage) -> None:
    with pytest.raises(PySparkException, match="one of count, sum, min, max, avg"):
        numbers.load(aggregates="median(n)")
    with pytest.raises(PySparkException, match="leave `columns` out"):
        numbers.load(aggregates="count", columns="body")
    reader = numbers.spark.read.format("docstore").option("url", numbers.url)
    other = reader.option("aggregates", "count").schema("n long").load(numbers.path)
    with pytest.raises(PySparkException, match="the columns of these aggregates must be"):
        other.collect()


def test_too_many_groups_are_refused(numbers: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aggregating, "GROUPS_MAX", 1000)
    grouping = grouping_of("", "documentSelfLink")
    assert grouping is not None
    given = {"url": numbers.url, "path": numbers.path, "groupby": "documentSelfLink"}
    own = aggregating.schema_of(grouping)
    reader = aggregating.AggregateReader(Options(given), grouping, own)
    (partition,) = reader.partitions()
    with pytest.raises(aggregating.TooManyGroups, match="more than 1000 groups"):
        list(reader.read(partition))
