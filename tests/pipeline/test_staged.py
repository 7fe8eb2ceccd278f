"""Staged writes (`commit=staged`): all of a job's rows, or none."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import LongType, StringType, StructField, StructType

from docstore import pipeline
from docstore.client.local import LocalCluster
from docstore.pipeline import staged
from docstore.pipeline.bulk_lines import WriteFailed
from docstore.pipeline.options import Options
from docstore.pipeline.writing import TableWriter, job_of
from tests.docstore.watching import start_all
from tests.pipeline.stage import Stage
from tests.pipeline.test_writing import numbered, versions, write

SCHEMA = StructType([StructField("name", StringType()), StructField("n", LongType())])


@pytest.fixture(scope="module")
def fragile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A group with nodes to kill."""
    with LocalCluster(3, tmp_path_factory.mktemp("fragile")) as cluster:
        yield cluster


@pytest.fixture
def own(spark: Any, fragile: LocalCluster, request: pytest.FixtureRequest) -> Stage:
    """A factory for one test in that group, once all nodes serve."""
    start_all(fragile)
    return Stage.of(spark, fragile, "/" + request.node.name.replace("_", "-"))


def waiting(stage: Stage, job: str) -> list[dict[str, Any]]:
    """Return the parts of a job that wait on any node."""
    found: list[dict[str, Any]] = []
    for node in stage.cluster.nodes:
        if node.process is not None:
            with stage.group.open("GET", node.url, staged.PATH) as answer:
                found += json.load(answer)["parts"]
    return [part for part in found if part["job"] == job]


def writer(stage: Stage, **options: str) -> TableWriter:
    given = {"url": stage.url, "path": stage.path, "key": "name", "commit": "staged", **options}
    return TableWriter(Options({k.lower(): v for k, v in given.items()}), SCHEMA, overwrite=False)


def test_a_job_that_fails_has_changed_nothing(stage: Stage) -> None:
    stage.put({"00000": {"old": True}})
    rows = numbered(stage, 2000).repartition(4)
    broken = rows.withColumn(
        "n", F.when(F.col("n") == 1999, F.raise_error(F.lit("broken"))).otherwise(F.col("n"))
    )
    with pytest.raises(PySparkException, match="broken"):
        write(stage, broken, commit="staged", job_id="half", ordered=False)
    assert stage.documents() == {"00000": {"old": True}}
    assert stage.group.json("GET", "/core/spark/jobs/half")["state"] == "ABORTED"
    # A task that ran when others failed may still bring its part: the job ignores it.
    done = write(stage, rows, commit="staged", job_id="half", ordered=False)
    assert (done["written"], len(stage.documents())) == (2000, 2000)


@pytest.mark.thorough
def test_a_repeated_staged_job_changes_nothing(stage: Stage) -> None:
    for count in ("written", "repeated"):
        done = write(stage, numbered(stage, 2000), commit="staged", job_id="staged-again")
        assert (done["state"], done[count]) == ("COMMITTED", 2000)
        assert versions(stage) == 2000
    assert stage.documents()["01999"] == {"name": "01999", "n": 1999}
    assert waiting(stage, "staged-again") == []


@pytest.mark.thorough
def test_refused_rows_are_counted_or_fail_the_commit(stage: Stage) -> None:
    stage.put({"00001": {"old": True}})
    rows = numbered(stage, 3)
    with pytest.raises(PySparkException, match="ALREADY_EXISTS"):
        write(stage, rows, operation="insert", commit="staged", job_id="refused")
    assert stage.group.json("GET", "/core/spark/jobs/refused")["state"] == "ABORTED"
    assert waiting(stage, "refused") == []
    assert stage.documents() == {"00001": {"old": True}}
    done = write(stage, numbered(stage, 9), operation="insert", commit="staged", onConflict="skip")
    assert done["conflicted"] >= 1
    assert done["written"] + done["conflicted"] == 9
    with pytest.raises(PySparkException, match="commit=direct"):
        write(stage, rows, onError="deadletter", commit="staged")


@pytest.mark.thorough
def test_a_node_that_is_lost_before_the_commit_does_no_harm(own: Stage) -> None:
    job = writer(own, jobId="lost-node")
    message = job.write(iter(numbered(own, 500).toArrow().to_batches()))
    [part] = message.parts  # type: ignore[attr-defined]
    assert len(part.urls) == 2
    assert len(waiting(own, "lost-node")) == 2
    assert own.documents() == {}
    lost = next(node for node in own.cluster.nodes if node.url == part.urls[0])
    own.cluster.kill(lost)
    job.commit([message])
    assert len(own.documents()) == 500
    own.cluster.start(lost)
    own.cluster.wait_ready()
    assert len(waiting(own, "lost-node")) == 1  # For a day.


def test_a_commit_that_was_left_in_the_middle_is_finished(
    own: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = writer(own, jobId="left")
    message = job.write(iter(numbered(own, 500).toArrow().to_batches()))

    def dies(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as driver:
        driver.setattr(staged, "commit", dies)
        with pytest.raises(KeyboardInterrupt):
            job.commit([message])
    job.abort([message])  # The call that Spark makes if it survives.
    assert job_of(Options({"url": own.url}), "left")["state"] == "COMMITTING"
    command = [sys.executable, "-m", "docstore", "spark", "finish", "left", "--url", own.url]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=180)
    assert json.loads(done.stdout)["written"] == 500
    assert len(own.documents()) == 500
    assert waiting(own, "left") == []
    with pytest.raises(ValueError, match="COMMITTED"):
        pipeline.finish(own.url, "left")


def test_a_part_that_two_nodes_cannot_take_fails_the_task(own: Stage) -> None:
    job = writer(own, timeoutMs="2000", jobId="alone")
    for node in own.cluster.nodes[1:]:
        own.cluster.kill(node)
    with pytest.raises(WriteFailed, match="on 1 nodes, not on 2"):
        job.write(iter(numbered(own, 5).toArrow().to_batches()))
    assert waiting(own, "alone") == []


@pytest.mark.thorough
def test_a_stream_stages_each_batch(stage: Stage, tmp_path: Path) -> None:
    stage.put({str(n): {"n": n} for n in range(100)})
    copy = Stage.of(stage.spark, stage.cluster, f"{stage.path}-copy")
    for turn in range(2):
        stage.put({str(n): {"n": n, "turn": turn} for n in range(turn, 100, 3)})
        feed = pipeline.changes(stage.spark, stage.url, stage.path, start="earliest")
        name = F.element_at(F.split("documentSelfLink", "/"), -1)
        rows = feed.select(name.alias("name"), "body", F.col("documentVersion").alias("at"))
        query = rows.writeStream.format("docstore").options(
            url=stage.url, key="name", sequenceBy="at", path=copy.path, commit="staged",
            jobId="staged-stream", checkpointLocation=str(tmp_path / "checkpoint"),
        )  # fmt: skip
        assert query.trigger(availableNow=True).start().awaitTermination(60)
        assert copy.documents() == stage.documents()
    assert waiting(stage, "staged-stream") == []
