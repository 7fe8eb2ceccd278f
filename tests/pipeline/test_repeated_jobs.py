"""A job with a repeated id changes no row of the first run, or is refused."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812

from docstore import pipeline
from docstore.client.local import LocalCluster
from docstore.pipeline.options import Options
from docstore.pipeline.writing import leave_job
from tests.pipeline.stage import Stage
from tests.pipeline.test_writing import numbered, versions, write

CALM = """
from docstore.service import UNCHANGED, Service

class Calm(Service):
    path = "/calm"
    methods = ("POST", "PUT", "DELETE")

    def on_put(self, state, body, request):
        return UNCHANGED if state.get("n") == body["n"] else body
"""
FIVE, THREE = ([f"{n:05d}" for n in range(count)] for count in (5, 3))


@pytest.mark.thorough
@pytest.mark.parametrize("commit", ["staged", "direct"])
def test_an_overwrite_is_repeated_with_the_same_rows_or_refused(stage: Stage, commit: str) -> None:
    stage = Stage.of(stage.spark, stage.cluster, f"{stage.path}-{commit}")
    job = f"five-{commit}"
    write(stage, numbered(stage, 5), mode="overwrite", commit=commit, job_id=job)
    with pytest.raises(PySparkException, match=r"JOB_USED.*another jobId, or a later batchId"):
        write(stage, numbered(stage, 3), mode="overwrite", commit=commit, job_id=job)
    before = versions(stage)
    again = write(stage, numbered(stage, 5), mode="overwrite", commit=commit, job_id=job)
    assert (again["state"], again["repeated"], versions(stage)) == ("COMMITTED", 5, before)
    write(stage, numbered(stage, 3), mode="overwrite", commit=commit, job_id=job, batchId=1)
    assert sorted(stage.documents()) == THREE
    with pytest.raises(PySparkException, match="STALE_BATCH"):
        write(stage, numbered(stage, 5), mode="overwrite", commit=commit, job_id=job)


@pytest.mark.thorough
def test_an_overwrite_whose_id_has_written_rows_before_has_all_of_its_own(stage: Stage) -> None:
    write(stage, numbered(stage, 5), job_id="mixed")
    write(stage, numbered(stage, 3), mode="overwrite", job_id="mixed")
    assert sorted(stage.documents()) == THREE
    page = {"state": "RUNNING", "batch": 0, "before": stage.cut()}
    leave_job(Options({"url": stage.url, "path": stage.path}), "begun", page)
    with pytest.raises(PySparkException, match=r"JOB_USED: the rows that batch"):
        write(stage, numbered(stage, 5), mode="overwrite", commit="direct", job_id="begun")
    write(stage, numbered(stage, 5), mode="overwrite", job_id="begun")
    assert sorted(stage.documents()) == FIVE


@pytest.mark.thorough
def test_a_repetition_with_other_values_is_refused_unless_kept(stage: Stage) -> None:
    write(stage, numbered(stage, 3, at=1), job_id="ingest")
    late = numbered(stage, 5, at=2)
    with pytest.raises(PySparkException, match=r"DUPLICATE_KEY.*sequenceBy.*onRepeat=keep"):
        write(stage, late, job_id="ingest")
    done = write(stage, late, job_id="ingest", onRepeat="keep")
    assert done.get("written", 0) + done["repeated"] == 5
    assert [stage.documents()[name]["at"] for name in THREE] == [1] * 3
    assert sorted(stage.documents()) == FIVE


def test_a_row_that_is_refused_in_the_commit_undoes_all_others(stage: Stage) -> None:
    stage.put({"00000": {"old": 0}, "00002": {"old": 2}})
    asked = {"commit": "staged", "job_id": "undone"}
    with pytest.raises(PySparkException, match=r"412.*2 rows that were written have been undone"):
        write(stage, numbered(stage, 3), operation="replace", **asked)
    assert stage.documents() == {"00000": {"old": 0}, "00002": {"old": 2}}
    assert stage.group.json("GET", "/core/spark/jobs/undone")["undone"] == 2
    with pytest.raises(PySparkException, match=r"ALREADY_EXISTS.*1 rows that were written"):
        write(stage, numbered(stage, 3), operation="insert", commit="staged")
    assert sorted(stage.documents()) == ["00000", "00002"]
    stage.put({"00001": {"old": 1}})
    done = write(stage, numbered(stage, 3), operation="replace", **asked)
    assert (done["state"], done["written"]) == ("COMMITTED", 3)
    assert [body["n"] for _, body in sorted(stage.documents().items())] == [0, 1, 2]


@pytest.mark.parametrize("commit", ["staged", pytest.param("direct", marks=pytest.mark.thorough)])
def test_an_overwrite_removes_no_document_that_a_row_names(stage: Stage, commit: str) -> None:
    """Whether the row is refused or changes nothing: its document has the version from before."""
    stage = Stage.of(stage.spark, stage.cluster, f"{stage.path}-{commit}")
    stage.put({name: {"old": True} for name in FIVE})
    some = numbered(stage, 3).selectExpr("name", "if(n = 1, '{no json', '{}') body")
    asked = {"mode": "overwrite", "commit": commit, "onError": "skip", "onConflict": "skip"}
    done = write(stage, some, **asked)
    assert (done["written"], done["conflicted"], done["removed"]) == (2, 1, 2)
    assert stage.documents() == {"00000": {}, "00001": {"old": True}, "00002": {}}
    done = write(stage, numbered(stage, 2), operation="ignore", **asked)
    assert (done["skipped"], done["removed"]) == (2, 1)
    assert stage.documents() == {"00000": {}, "00001": {"old": True}}


def test_an_overwrite_keeps_documents_that_a_handler_leaves_unchanged(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "calm_here.py").write_text(CALM)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with LocalCluster(1, tmp_path / "node", ("--service", "calm_here:Calm")) as cluster:
        stage = Stage(spark, cluster, "/calm")
        stage.put({name: {"n": int(name)} for name in FIVE})
        done = write(stage, numbered(stage, 3), mode="overwrite")
        assert (done["written"], done["removed"]) == (3, 2)
        assert sorted(stage.documents()) == THREE


@pytest.mark.thorough  # Two runs of a stream.
def test_a_stream_whose_rows_differ_each_time_is_restarted(stage: Stage, tmp_path: Path) -> None:
    stage.put({str(n): {"n": n} for n in range(20)})
    copy = Stage.of(stage.spark, stage.cluster, f"{stage.path}-copy")
    for _ in range(2):
        feed = pipeline.changes(stage.spark, stage.url, stage.path, start="earliest")
        name = F.element_at(F.split("documentSelfLink", "/"), -1)
        rows = feed.select(name.alias("name"), F.rand().alias("mark"))
        writer = rows.writeStream.format("docstore").options(
            url=stage.url, key="name", path=copy.path, onRepeat="keep", jobId="marks",
            checkpointLocation=str(tmp_path / "checkpoint"),
        )  # fmt: skip
        query = writer.trigger(availableNow=True).start()
        assert query.awaitTermination(60)
        assert query.recentProgress[0]["numInputRows"] == 20
        # As if the query had died before it could note that its batch was through.
        shutil.rmtree(tmp_path / "checkpoint" / "commits")
    assert versions(copy) == len(copy.documents()) == 20
