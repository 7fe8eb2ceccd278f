"""Writing: each row once, also when repeated, and each refusal as the options say.

Scenarios A25 to A29.
"""

import json
import random
import shutil
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import LongType, StringType, StructField, StructType

from docstore import pipeline
from docstore.pipeline.bulk_lines import WriteFailed
from docstore.pipeline.options import Options
from docstore.pipeline.sending import Sender
from tests.pipeline.stage import Stage


def numbered(stage: Stage, count: int, **columns: Any) -> Any:
    table = stage.spark.range(count).select(F.format_string("%05d", "id").alias("id"), "id")
    table = table.toDF("name", "n")
    for name, value in columns.items():
        table = table.withColumn(name, F.lit(value))
    return table


def write(stage: Stage, table: Any, **options: Any) -> dict[str, Any]:
    """Write, and return the document of the job."""
    job = pipeline.write(table, stage.url, stage.path, **{"key": "name", **options})
    found: dict[str, Any] = stage.group.json("GET", f"/core/spark/jobs/{job}")
    return found


def versions(stage: Stage) -> int:
    """Return how many versions have ever been made."""
    return int(stage.load(versions="all", includeDeleted="true").count())


MORE = [
    pytest.param(name, marks=pytest.mark.thorough)
    for name in ("patch", "delete", "ignore", "upsert", "replace")
]


@pytest.mark.parametrize("operation", ["insert", *MORE])
def test_a_repeated_job_changes_nothing(stage: Stage, operation: str) -> None:
    stage = Stage.of(stage.spark, stage.cluster, f"{stage.path}-{operation}")
    if operation in ("patch", "replace", "delete"):
        stage.put({f"{n:05d}": {"old": True} for n in range(200)})
    done = write(stage, numbered(stage, 200), operation=operation, job_id=f"again-{operation}")
    assert done["written"] == 200
    before = versions(stage)
    again = write(stage, numbered(stage, 200), operation=operation, job_id=f"again-{operation}")
    assert again["repeated"] == 200
    assert versions(stage) == before
    documents = stage.documents()
    assert len(documents) == (0 if operation == "delete" else 200)
    if operation == "patch":
        assert documents["00007"] == {"old": True, "name": "00007", "n": 7}


@pytest.mark.thorough
def test_a_json_patch_is_applied_once(stage: Stage) -> None:
    names = [f"{n:05d}" for n in range(20)]
    stage.put({name: {"list": [1]} for name in names})
    rows = stage.spark.createDataFrame(
        [(name, '[{"op": "add", "path": "/list/-", "value": 2}]') for name in names],
        "name string, body string",
    )
    for _ in range(2):
        write(stage, rows, operation="jsonPatch", job_id="json-patch")
    assert stage.documents() == {name: {"list": [1, 2]} for name in names}
    with pytest.raises(PySparkException, match="not a JSON array"):
        write(stage, rows.withColumn("body", F.lit("{}")), operation="jsonPatch")


@pytest.mark.thorough
def test_each_operation_respects_existing_documents(stage: Stage) -> None:
    stage.put({"00000": {"old": True}})
    with pytest.raises(PySparkException, match="ALREADY_EXISTS"):
        write(stage, numbered(stage, 3), operation="insert")
    assert write(stage, numbered(stage, 5), operation="ignore")["skipped"] >= 1
    assert stage.documents()["00000"] == {"old": True}
    with pytest.raises(PySparkException, match="412"):
        write(stage, numbered(stage, 10), operation="replace")
    gone = write(stage, numbered(stage, 8), operation="delete")
    assert (gone["written"], gone["skipped"]) == (5, 3)
    assert stage.documents() == {}


@pytest.mark.thorough
def test_a25_a_late_task_of_an_earlier_batch_is_refused(stage: Stage) -> None:
    schema = StructType([StructField("name", StringType()), StructField("n", LongType())])
    options = Options({"url": stage.url, "path": stage.path, "key": "name"})
    early = list(numbered(stage, 50).toArrow().to_batches())
    late = list(numbered(stage, 50).withColumn("n", F.col("n") + 1000).toArrow().to_batches())
    Sender(options, "zombie", 7, schema).send(iter(early))
    Sender(options, "zombie", 8, schema).send(iter(late))
    before = versions(stage)
    with pytest.raises(WriteFailed, match="STALE_BATCH"):
        Sender(options, "zombie", 7, schema).send(iter(early))
    assert versions(stage) == before
    assert stage.documents()["00007"]["n"] == 1007


@pytest.mark.thorough
def test_a25_a_task_that_runs_again_in_another_order_writes_nothing_twice(stage: Stage) -> None:
    """The first attempt of every task fails after its rows were sent."""
    marks = Path("/tmp") / f"marks-{random.randrange(1 << 60)}"
    marks.mkdir()
    rows = numbered(stage, 2000).repartition(4)

    def fails_once(batches: Any) -> Any:
        from pyspark import TaskContext

        mark = marks / str(TaskContext.get().partitionId())
        again = mark.exists()
        found = list(batches)
        random.shuffle(found)
        yield from found
        mark.touch()
        if not again:
            raise RuntimeError("after the last row")

    broken = rows.mapInArrow(fails_once, rows.schema)
    done = write(stage, broken, job_id="shuffled", ordered=False)
    assert done["written"] + done.get("repeated", 0) == 2000
    assert versions(stage) == 2000
    shutil.rmtree(marks)


SKIPPING = [pytest.param(then, marks=pytest.mark.thorough) for then in ("skip", "deadletter")]


@pytest.mark.parametrize("then", ["fail", *SKIPPING])
def test_a26_a_foreign_update_in_between_is_a_conflict(stage: Stage, then: str) -> None:
    stage = Stage.of(stage.spark, stage.cluster, f"{stage.path}-{then}")
    stage.put({f"{n:05d}": {"n": n} for n in range(20)})
    read = stage.load().selectExpr("documentSelfLink", "documentVersion", "body").cache()
    assert read.count() == 20
    stage.put({"00003": {"n": "theirs"}, "00004": {"n": "theirs"}})
    changed = read.withColumn("body", F.lit('{"n": "ours"}'))
    options = {"key": "documentSelfLink", "operation": "append_version", "onConflict": then}
    if then == "fail":
        with pytest.raises(PySparkException, match="VERSION_CONFLICT"):
            write(stage, changed, **options)
        return
    done = write(stage, changed, **options)
    assert done["written"] == 18
    assert done["conflicted" if then == "skip" else "dead"] == 2
    found = [body["n"] for body in stage.documents().values()]
    assert (found.count("ours"), found.count("theirs")) == (18, 2)
    if then == "deadletter":
        letters = stage.spark.read.format("docstore.admin").option("url", stage.url)
        mine = letters.load("deadletters").filter(F.col("link").startswith(stage.path + "/"))
        assert sorted(row["link"][-5:] for row in mine.collect()) == ["00003", "00004"]


@pytest.mark.thorough
def test_a27_two_rows_with_one_key_need_a_sequence(stage: Stage) -> None:
    double = numbered(stage, 10, at=1).unionByName(numbered(stage, 10, at=2))
    with pytest.raises(PySparkException, match="DUPLICATE_KEY"):
        write(stage, double)
    for seed in range(3):
        shuffled = double.orderBy(F.rand(seed))
        write(stage, shuffled, sequenceBy="at", ordered=False, job_id=f"sequence-{seed}")
    newest = numbered(stage, 10, at=3).unionByName(numbered(stage, 10, at=2))
    write(stage, newest, sequenceBy="at")
    assert {key: body["n"] for key, body in stage.documents().items()} == {
        f"{n:05d}": n for n in range(10)
    }


def test_a29_bad_rows_are_kept_apart_once_and_too_many_fail_the_job(stage: Stage) -> None:
    bodies = F.when(F.col("n") % 100 == 0, F.lit("{no json")).otherwise(F.lit('{"a": 1}'))
    table = numbered(stage, 1000).select("name", bodies.alias("body"))
    for _ in range(2):
        done = write(stage, table, onError="deadletter", job_id="bad-rows")
        assert done["dead"] == 10
    letters = stage.spark.read.format("docstore.admin").option("url", stage.url)
    assert letters.load("deadletters").filter("job = 'bad-rows'").count() == 10
    assert len(stage.documents()) == 990
    with pytest.raises(PySparkException, match="more than maxErrors=5 rows were refused"):
        write(stage, table, onError="skip", maxErrors=5, job_id="too-bad")


def test_a_body_cannot_be_more_than_a_body(stage: Stage) -> None:
    evil = '{"a": 1}, "op": "DELETE", "x": {"b": 2}'
    table = numbered(stage, 1).select("name", F.lit(evil).alias("body"))
    done = write(stage, table, onError="skip")
    assert done["conflicted"] == 1
    pretty = numbered(stage, 1).select("name", F.lit('{"a":\n 1,\n "b": [1,\n2]}').alias("body"))
    write(stage, pretty)
    assert stage.documents() == {"00000": {"a": 1, "b": [1, 2]}}


@pytest.mark.thorough
def test_overwriting_leaves_no_empty_moment_and_no_foreign_change(stage: Stage) -> None:
    stage.put({f"{n:05d}": {"n": n} for n in range(50)})
    stage.put({"theirs": {"n": 0}})
    write(stage, numbered(stage, 20), mode="overwrite")
    assert sorted(stage.documents()) == [f"{n:05d}" for n in range(20)]
    table = numbered(stage, 1)
    with pytest.raises(PySparkException, match="Append"):
        table.write.format("docstore").option("url", stage.url).save(stage.path)


@pytest.mark.thorough
@pytest.mark.parametrize("commit", ["staged", "direct"])
def test_an_overwrite_of_which_every_row_is_refused_removes_nothing(
    stage: Stage, commit: str
) -> None:
    stage = Stage.of(stage.spark, stage.cluster, f"{stage.path}-{commit}")
    stage.put({"old": {"n": 1}})
    broken = numbered(stage, 5).select("name", F.lit("{no json").alias("body"))
    asked: dict[str, Any] = {"mode": "overwrite", "commit": commit, "onError": "skip"}
    job = f"all-refused-{commit}"
    with pytest.raises(PySparkException, match="all 5 rows were refused"):
        write(stage, broken, job_id=job, **asked)
    assert stage.documents() == {"old": {"n": 1}}
    assert stage.group.json("GET", f"/core/spark/jobs/{job}")["state"] == "ABORTED"
    some = broken.unionByName(numbered(stage, 1).selectExpr("'good' name", "'{}' body"))
    done = write(stage, some, **asked)
    assert (done["written"], done["conflicted"], done["removed"]) == (1, 5, 1)
    write(stage, some.limit(0), **asked)
    assert stage.documents() == {}


def test_a_row_without_a_key_is_skipped_where_errors_are(stage: Stage) -> None:
    table = numbered(stage, 3).withColumn("name", F.expr("if(n = 1, null, name)"))
    with pytest.raises(PySparkException, match="'name' is null or empty in a row"):
        write(stage, table)
    done = write(stage, table, onError="skip")
    assert (done["written"] + done.get("repeated", 0), done["conflicted"]) == (2, 1)


@pytest.mark.thorough
def test_a_repeated_overwrite_keeps_its_documents(stage: Stage) -> None:
    stage.put({f"old-{n}": {"n": n} for n in range(50)})
    broken = numbered(stage, 200).withColumn(
        "n", F.when(F.col("n") == 199, F.raise_error(F.lit("broken"))).otherwise(F.col("n"))
    )
    with pytest.raises(PySparkException, match="broken"):
        write(stage, broken, mode="overwrite", job_id="over", ordered=False, batchRows=10)
    assert sorted(stage.documents()) == sorted(f"old-{n}" for n in range(50))
    for _ in range(3):
        write(stage, numbered(stage, 200), mode="overwrite", job_id="over")
        assert sorted(stage.documents()) == [f"{n:05d}" for n in range(200)]


@pytest.mark.thorough  # Each restart of the stream is a job of its own.
def test_a_stream_writes_each_batch_once(stage: Stage, tmp_path: Path) -> None:
    stage.put({str(n): {"n": n} for n in range(100)})
    copy = Stage.of(stage.spark, stage.cluster, f"{stage.path}-copy")
    for turn in range(2):  # From the beginning, and from where the first one ended.
        stage.put({str(n): {"n": n, "turn": turn} for n in range(turn, 100, 3)})
        feed = pipeline.changes(stage.spark, stage.url, stage.path, start="earliest")
        name = F.element_at(F.split("documentSelfLink", "/"), -1)
        rows = feed.select(name.alias("name"), "body", F.col("documentVersion").alias("at"))
        writer = rows.writeStream.format("docstore").options(
            url=stage.url, key="name", sequenceBy="at", path=copy.path,
            checkpointLocation=str(tmp_path / "checkpoint"),
        )  # fmt: skip
        assert writer.trigger(availableNow=True).start().awaitTermination(60)
        assert copy.documents() == stage.documents()
    # The checkpoint is lost: all batches come again, and change nothing.
    page = stage.group.json("GET", f"/core/spark/jobs/stream-{quote(quote(copy.path, safe=''))}")
    assert json.loads(json.dumps(page))["state"] == "RUNNING"
