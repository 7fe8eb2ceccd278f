"""Factories as tables (scenarios A1 to A14), with all partitions, copies and options."""

import json
from dataclasses import replace
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812

from docstore import pipeline
from docstore.pipeline import scanning
from docstore.pipeline.aggregating import totals_of
from docstore.pipeline.group_client import Unreachable
from docstore.pipeline.jobs.contents import digest
from docstore.query.aggregates import grouping_of
from tests.docstore.query import table
from tests.docstore.watching import until
from tests.pipeline.stage import Stage


def put_numbers(stage: Stage, count: int) -> None:
    for first in range(0, count, 2000):
        numbers = range(first, min(first + 2000, count))
        stage.put({f"{n:06d}": {"n": n, "even": n % 2 == 0, "at": {"city": f"c{n % 7}"},
                                "tags": [f"t{n % 3}"]} for n in numbers})  # fmt: skip


def test_a01_a_format_is_found_without_a_call(stage: Stage) -> None:
    put_numbers(stage, 10)
    plain = stage.spark.newSession()
    table = plain.read.format("docstore").option("url", stage.url).load(stage.path)
    assert table.count() == 10
    assert plain.read.format("docstore.admin").option("url", stage.url).load("nodes").count() == 3


@pytest.fixture(scope="module")
def thousands(spark: Any, cluster: Any) -> Stage:
    stage = Stage.of(spark, cluster, "/thousands")
    put_numbers(stage, 6000)
    stage.delete(f"{n:06d}" for n in range(0, 6000, 10))
    return stage


@pytest.mark.parametrize(
    ("read_from", "partitions"),
    [
        ("nearest", 1), ("owner", 4), ("replica", 4),
        *(pytest.param(*each, marks=pytest.mark.thorough) for each in
          (("owner", 64), ("replica", 1))),
        *(pytest.param(*each, marks=pytest.mark.slow) for each in
          (("nearest", 4), ("nearest", 64), ("owner", 1), ("replica", 64))),
    ],
)  # fmt: skip
def test_a03_counts_and_contents_are_equal_however_read(
    thousands: Stage, read_from: str, partitions: int
) -> None:
    table = thousands.load(partitions=partitions, readFrom=read_from)
    found = digest(table)
    assert found == digest(thousands.load())
    assert found["rows"] == 5400


def test_a05_the_past_is_as_it_was(stage: Stage) -> None:
    """By a token, by a name and by a time."""
    tokens: list[tuple[str, dict[str, Any]]] = []
    model: dict[str, Any] = {}
    for turn in range(4):
        changed = {f"{n}": {"turn": turn, "n": n} for n in range(turn, 40, turn + 1)}
        stage.put(changed)
        model |= changed
        gone = [name for name in (str(turn), str(turn + 20)) if name in model]
        stage.delete(gone)
        model = {name: body for name, body in model.items() if name not in gone}
        tokens.append((stage.cut(), dict(model)))
    pipeline.snapshot(stage.url, "a05", ttl_s=60)
    stage.put({"0": {"turn": 9}})
    for token, wanted in tokens:
        assert stage.documents(asOf=token) == wanted
    assert stage.documents(asOf="a05") == tokens[-1][1]
    assert stage.documents(asOf="barrier") == stage.documents()
    times = stage.load(versions="all", includeDeleted="true").select("documentUpdateTime")
    last = times.agg(F.max(F.unix_micros("documentUpdateTime"))).first()[0]
    assert stage.documents(asOf=str(last - 1)) == tokens[-1][1]
    pipeline.drop_snapshot(stage.url, "a05")
    with pytest.raises(PySparkException, match="neither a time nor the name of a snapshot"):
        stage.documents(asOf="a05")


CONDITIONS = {
    "n < 100 or n >= 5900": "n < 100 or n >= 5900",
    "not (n > 50)": "not (n > 50)",
    "n in (1, 2, 3, 77777)": "n in (1, 2, 3, 77777)",
    "at.city = 'c3' and even = true": "at.city = 'c3' and even",
    "documentSelfLink like '/thousands/0001%'": "documentSelfLink like '/thousands/0001%'",
    "n between 10 and 20": "n between 10 and 20",
    "missing is null and n < 5": "n < 5",
    "missing = 1 or n = 7": "n = 7",
    "not (missing = 1)": "false",
    "tags contains 't1' and n < 30": "array_contains(tags, 't1') and n < 30",
    "documentSelfLink in ('/thousands/000001', '/thousands/000002')": "n in (1, 2)",
}


@pytest.mark.parametrize("where", CONDITIONS)
def test_a09_conditions_find_the_rows_of_a_spark_filter(thousands: Stage, where: str) -> None:
    members = "n long, even boolean, tags array<string>, at struct<city:string>"
    reader = thousands.spark.read.format("docstore").options(url=thousands.url, members=members)
    theirs = reader.load(thousands.path).filter(CONDITIONS[where]).select("n")
    before = thousands.metric("docstore_scan_rows_total")
    ours = reader.option("where", where).load(thousands.path).select("n")
    found = sorted(row[0] for row in ours.collect())
    sent = thousands.metric("docstore_scan_rows_total") - before
    assert found == sorted(row[0] for row in theirs.collect())
    assert sent == len(found)  # The others have not left their node.


@pytest.mark.parametrize("where", ["n <", "n = 1 n", "n ~ 2", "like 'a%'", "n like '%a'", "(n = 1"])
def test_a09_a_malformed_condition_is_refused_at_load(thousands: Stage, where: str) -> None:
    with pytest.raises(PySparkException, match="where"):
        thousands.load(where=where)


@pytest.mark.parametrize(
    "step", [30, pytest.param(1, marks=pytest.mark.thorough)], ids=["some", "all"]
)
def test_tables_and_feeds_find_the_documents_of_the_page_of_conditions(
    stage: Stage, step: int
) -> None:
    """The factory is not that of the page, which has documents of another test."""
    if not stage.documents():
        films = table.documents()
        stage.put({link.removeprefix("/films/"): each for link, each in films.items()})
        until(lambda: stage.changes(start="earliest", end="latest").count() >= len(films))
    for line in table.LINES[::step]:
        where = line.condition.replace(f"'{table.FACTORY}/", f"'{stage.path}/")
        snapshot = stage.load(where=where)
        feed = stage.changes(start="earliest", end="latest", where=where)
        for rows in (snapshot, feed):
            links = [row[0] for row in rows.select("documentSelfLink").collect()]
            names = sorted(link.removeprefix(f"{stage.path}/") for link in links)
            assert names == line.names, where


def test_a10_two_columns_cost_two_columns(thousands: Stage) -> None:
    before = thousands.metric("docstore_scan_bytes_total")
    full = thousands.load().count()
    middle = thousands.metric("docstore_scan_bytes_total")
    narrow = thousands.load(columns="documentVersion,slot")
    assert narrow.columns == ["documentVersion", "slot"]
    assert len(narrow.collect()) == full
    after = thousands.metric("docstore_scan_bytes_total")
    assert (after - middle) * 2 < middle - before
    reader = thousands.spark.read.format("docstore").option("url", thousands.url)
    reader = reader.option("asOf", thousands.cut())
    turned = reader.schema("n long, documentSelfLink string").load(thousands.path)
    assert turned.filter("n = 11").first()[:] == (11, f"{thousands.path}/000011")


ODD = {
    "fits": '{"n":1,"s":"a"}',
    "missing": '{"s":"b"}',
    "text": '{"n":"1","s":"c"}',
    "flag": '{"n":true,"s":"d"}',
    "precise": '{"n":2,"s":"e","x":1.10,"y":1e2}',
}


def test_a11_each_mode_does_as_it_says(stage: Stage) -> None:
    stage.put({name: json.loads(body) for name, body in ODD.items()})
    reader = stage.spark.read.format("docstore").options(url=stage.url, asOf=stage.cut())
    schema = "documentSelfLink string, n long, s string, _corrupt_record string"
    rows = {
        row[0].rpartition("/")[2]: row[1:]
        for row in reader.schema(schema).load(stage.path).collect()
    }
    assert rows["fits"] == (1, "a", None)
    assert rows["missing"] == (None, "b", None)
    assert rows["text"][:2] == (None, None)
    assert json.loads(rows["text"][2]) == json.loads(ODD["text"])
    assert rows["flag"][0] is None
    dropping = reader.option("parseMode", "DROPMALFORMED").schema("documentSelfLink string, n long")
    assert {row[0].rpartition("/")[2] for row in dropping.load(stage.path).collect()} == {
        "fits", "missing", "precise",
    }  # fmt: skip
    with pytest.raises(PySparkException, match="does not fit"):
        reader.option("parseMode", "FAILFAST").schema("n long").load(stage.path).collect()


def test_a11_a_string_is_the_very_bytes(stage: Stage) -> None:
    body = b'{"x": 1.10, "big": 12345678901234567, "uni": "\\u00e9"}'
    group = stage.group
    with group.open("PUT", group.urls[0], f"{stage.path}/a", body):
        pass
    assert stage.load().first()["body"].encode() == body


@pytest.mark.thorough
def test_a11_a_schema_from_a_sample(stage: Stage) -> None:
    stage.put({"a": {"n": 1, "m": None, "x": [1, 2.5]}, "b": {"n": 2, "m": True, "y": {"z": "t"}}})
    table = pipeline.read(stage.spark, stage.url, stage.path, body_as="struct",
                          schema_hints="n double", columns=["documentSelfLink"])  # fmt: skip
    kinds = dict(table.dtypes)
    assert kinds == {"documentSelfLink": "string", "n": "double", "m": "boolean",
                     "x": "array<double>", "y": "struct<z:string>"}  # fmt: skip
    assert sorted(row["n"] for row in table.collect()) == [1.0, 2.0]
    variant = pipeline.read(stage.spark, stage.url, stage.path, body_as="variant")
    found = variant.selectExpr("variant_get(body, '$.n', 'int') AS n").collect()
    assert sorted(row["n"] for row in found) == [1, 2]


def test_a_member_of_several_types_is_a_string_beside_others_that_keep_theirs(
    stage: Stage,
) -> None:
    values: list[Any] = [1, "1", [1], {"k": 1}, True, 0.5, None, "text"]
    stage.put({str(n): {"mixed": each, "n": n} for n, each in enumerate(values)})
    table = pipeline.read(stage.spark, stage.url, stage.path, body_as="struct",
                          columns=["slot"])  # fmt: skip
    assert dict(table.dtypes) == {"slot": "bigint", "mixed": "string", "n": "bigint"}
    found = {row["n"]: row["mixed"] for row in table.collect()}
    said = ["1", "1", "[1]", '{"k":1}', "true", "0.5", None, "text"]
    assert found == dict(enumerate(said))


@pytest.mark.thorough
def test_a_member_that_is_called_as_a_column_of_the_store_is_never_mistaken_for_it(
    stage: Stage,
) -> None:
    stage.put({"a": {"slot": False, "body": "text", "n": 1}})
    for names in ("slot boolean", "slot bigint", "body string"):
        with pytest.raises(PySparkException, match="is a column of the store's own"):
            stage.load(columns="documentSelfLink", members=names).collect()
        with pytest.raises(PySparkException, match="is a column of the store's own"):
            stage.changes(columns="documentSelfLink", members=names).collect()
    reader = stage.spark.read.format("docstore").options(url=stage.url, asOf=stage.cut())
    for schema, own in (("slot boolean", "bigint"), ("n long, body struct<k: long>", "string")):
        with pytest.raises(PySparkException, match=f"of the store's own, which is {own}"):
            reader.schema(schema).load(stage.path).collect()
    asked: dict[str, Any] = {"body_as": "struct", "columns": ["documentSelfLink"]}
    with pytest.raises(pipeline.PipelineError, match="'body' is a column of the store's own"):
        pipeline.read(stage.spark, stage.url, stage.path, **asked)
    stage.put({"a": {"n": 1}})
    assert pipeline.read(stage.spark, stage.url, stage.path, **asked).first()["n"] == 1
    with pytest.raises(pipeline.PipelineError, match="'slot' is a column of the store's own"):
        pipeline.read(stage.spark, stage.url, stage.path, schema_hints="slot boolean", **asked)


def test_a13_nothing_left_is_no_rows(thousands: Stage) -> None:
    assert thousands.load(where="documentSelfLink = '/elsewhere/a'").count() == 0
    empty = Stage.of(thousands.spark, thousands.cluster, "/empty")
    assert empty.load().count() == 0


def test_a14_a_few_rows_cost_a_few(thousands: Stage) -> None:
    before = thousands.metric("docstore_scan_rows_total")
    assert len(thousands.load(partitions=4).limit(10).collect()) == 10
    assert thousands.metric("docstore_scan_rows_total") - before < 3000


def test_a_misspelt_option_is_an_error_that_knows_better(stage: Stage) -> None:
    with pytest.raises(PySparkException, match="did you mean 'columns'"):
        stage.load(colums="documentSelfLink")
    with pytest.raises(PySparkException, match="there is no column 'name'"):
        stage.load(columns="name")
    with pytest.raises(PySparkException, match="url"):
        stage.spark.read.format("docstore").load("/a").count()


def test_lookup_asks_for_the_keys_it_has(thousands: Stage) -> None:
    keys = thousands.spark.createDataFrame([("000001",), ("000010",), ("none",)], "k string")
    before = thousands.metric("docstore_scan_rows_total")
    rows = pipeline.lookup(keys, thousands.url, thousands.path, key="k").collect()
    found = {row["k"]: row["lookupBody"] for row in rows}
    assert json.loads(found["000001"])["n"] == 1
    assert found["000010"] is None  # It was deleted.
    assert found["none"] is None
    assert thousands.metric("docstore_scan_rows_total") - before == 1


def test_small_tables_of_the_group(thousands: Stage) -> None:
    reader = thousands.spark.read.format("docstore.admin").option("url", thousands.url)
    counts = {row["path"]: row["documents"] for row in reader.load("counts").collect()}
    assert counts[thousands.path] == 5400
    slots = reader.load("slots").agg(F.count("*"), F.sum("n")).first()
    assert slots[0] == 1024
    assert reader.load("ring").count() == 3 * 1024
    digests = reader.load("digests").groupBy("slot").agg(F.countDistinct("digest").alias("kinds"))
    assert digests.filter("kinds > 1").count() == 0


def test_rows_at_an_advertised_address_out_of_reach_are_read_at_a_given_one(stage: Stage) -> None:
    stage.put({str(n): {"n": n} for n in range(50)})
    ends = stage.group.plan()["ends"]
    share = scanning.ScanShare(
        tuple((slot, n) for slot, n in enumerate(ends) if n),
        (scanning.ScanNode("http://127.0.0.1:1"),),
        {"prefix": stage.path + "/", "columns": ["documentSelfLink"]},
        urls=tuple(stage.group.urls),
        retries=0,
    )
    assert sum(batch.num_rows for batch in scanning.batches(share)) == 50
    grouping = grouping_of("count(*)", "")
    assert grouping is not None
    asked = {"prefix": stage.path + "/", "aggregates": "count(*)", "groupBy": ""}
    assert totals_of(grouping, replace(share, request=asked)).documents == 50
    with pytest.raises(Unreachable, match=r"http://127.0.0.1:1: .*serve --advertise.*option url"):
        list(scanning.batches(replace(share, urls=())))
