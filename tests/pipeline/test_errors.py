"""Errors are one line, on the command line with an exit code."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException

from docstore import pipeline
from docstore.client.local import LocalCluster
from docstore.errors import BadRequest
from docstore.pipeline import (
    bulk_lines,
    feeding,
    fetching,
    record_columns,
    sessions,
    topics,
)
from docstore.pipeline.aggregating import TooManyGroups
from docstore.pipeline.bodies import Malformed
from docstore.pipeline.columns import schema_of
from docstore.pipeline.errors import line_of
from docstore.pipeline.group_client import (
    BadUrl,
    GroupClient,
    GroupError,
    Incomplete,
    Unreachable,
)
from docstore.pipeline.jobs.importing import NotTheSame
from docstore.pipeline.jobs.work import Work
from docstore.pipeline.options import Options
from tests.pipeline.stage import Stage

OURS = (
    feeding.TrimmedFeed, GroupError, Incomplete, bulk_lines.RowRefused, NotTheSame,
    TooManyGroups, Malformed, sessions.JavaMissing, fetching.RecordsLost, record_columns.NotText,
    topics.NoLeader,
)  # fmt: skip

FRAME = 'Traceback (most recent call last):\n  File "a.py", line 1, in b\n    raise it\n'
WRAPPED = {
    f"[PYTHON_DATA_SOURCE_ERROR] Failed to create an instance: {FRAME}"
    "ValueError: docstore: there is no option 'colums'\n SQLSTATE: 38000": (
        "there is no option 'colums'"
    ),
    f"Job aborted: org.apache.spark.api.python.PythonException: {FRAME}"
    "docstore.pipeline.group_client.GroupError: http://n1:1: 410 gone: slot 5\n\n\tat java.x(Y)": (
        "http://n1:1: 410 gone: slot 5"
    ),
    f"{FRAME}KeyError: 1\n\nDuring handling of that, another exception occurred:\n\n{FRAME}"
    "OverflowError: a does not fit\n": "OverflowError: a does not fit",
    f"[STREAM_FAILED] Query terminated: {FRAME}"
    "pyspark.errors.exceptions.captured.ParseException: \n[PARSE_SYNTAX_ERROR] Syntax error at"
    " or near 'd'. SQLSTATE: 42601 (line 1, pos 16)\n\n== SQL ==\nselect\n": (
        "[PARSE_SYNTAX_ERROR] Syntax error at or near 'd'. (line 1, pos 16)"
    ),
    "[PATH_NOT_FOUND] Path does not exist: file:/x. SQLSTATE: 42K03": (
        "[PATH_NOT_FOUND] Path does not exist: file:/x."
    ),
    "Job aborted due to stage failure: Task 0 in stage 38.0 failed 3 times, most recent failure:"
    " Lost task 0.2 in stage 38.0 (TID 31) (192.0.2.2 executor driver): java.io.IOException: Mkdirs"
    " failed to create file:/proc/x (exists=false)\n\tat org.apache.x(Y.scala:3)": (
        "Mkdirs failed to create file:/proc/x (exists=false)"
    ),
    "An error occurred while calling None.JavaSparkContext.\n: org.apache.spark.SparkException:"
    " Could not parse Master URL: 'foo'\n\tat org.apache.x(Y.scala:3)": (
        "Could not parse Master URL: 'foo'"
    ),
}


@pytest.mark.parametrize(("text", "line"), WRAPPED.items(), ids=range(len(WRAPPED)))
def test_the_first_message_is_found_inside_those_of_spark(text: str, line: str) -> None:
    assert line_of(PySparkException(message=text)) == line


def test_an_error_of_ours_has_one_root_and_one_line() -> None:
    assert all(issubclass(each, pipeline.PipelineError) for each in OURS)
    assert line_of(BadRequest("where:\n  no")) == "where: no"
    assert line_of(NotTheSame()) == "NotTheSame"
    assert len(line_of(ValueError("x" * 5000))) == 1000


@pytest.mark.parametrize("url", ["n1:8001", "", "ftp://n1", "http://", "http://n1:http"])
def test_a_malformed_url_is_refused(url: str) -> None:
    with pytest.raises(BadUrl, match="the URL of a node must be"):
        GroupClient([url])


@pytest.mark.parametrize("url", ["http://n1:8001/a", "http://n1:8001?a=1", "http://n1#a"])
def test_a_node_url_with_more_than_host_and_port_is_refused(url: str) -> None:
    with pytest.raises(BadUrl, match="the URL of a node must be"):
        GroupClient([url])


def test_a_password_in_a_url_is_refused_and_not_shown() -> None:
    with pytest.raises(BadUrl, match=r"'http://\*\*\*@n1:8001'.* no user or password") as seen:
        assert Options({"url": "http://n2:8001,http://me:s3cret@n1:8001"}).urls
    assert "s3cret" not in str(seen.value)


def test_a_malformed_url_is_refused_in_options() -> None:
    with pytest.raises(BadUrl, match="got 'n1:8001'"):
        assert Options({"url": "http://n1:8001, n1:8001"}).urls


def test_a_connection_that_is_refused_names_the_node() -> None:
    with pytest.raises(Unreachable, match=r"^http://127\.0\.0\.1:1: Connection refused$"):
        GroupClient(["http://127.0.0.1:1/"], retries=0).plan()


def test_a_column_named_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="the column 'slot' is named twice"):
        schema_of(["slot", "seq", "slot"])


@pytest.mark.parametrize("master", ["foo", "local[", "local[x]", "spark://", "mesos://a", ""])
def test_a_master_that_is_none_is_refused_before_java_starts(master: str) -> None:
    with pytest.raises(sessions.BadMaster, match="the master must be one that Spark knows"):
        sessions.insist_on_master(master)


@pytest.mark.parametrize(
    "master", ["local", "local[*]", "local[2,3]", "local-cluster[2,1,1024]", "spark://h:7077",
               "yarn", "k8s://https://h:443", "sc://h"],
)  # fmt: skip
def test_a_master_that_is_one_is_left_to_spark(master: str) -> None:
    sessions.insist_on_master(master)


def test_a_setting_of_a_session_is_spark_s_own_with_its_first_word_and_without(spark: Any) -> None:
    for name, value in (("spark_sql_shuffle_partitions", 3), ("sql_shuffle_partitions", 5)):
        sessions.session("local[2,3]", "tests", **{name: value})
        assert spark.conf.get("spark.sql.shuffle.partitions") == str(value)
    sessions.session("local[2,3]", "tests")
    with pytest.raises(sessions.NotSet, match=r"executor.memory is already .* Spark session"):
        sessions.session("local[2,3]", "tests", executor_memory="77m")


def test_a_python_for_workers_has_to_be_one(tmp_path: Path) -> None:
    sessions.insist_on_python(sys.executable)
    with pytest.raises(sessions.PythonMissing, match="which is not an installed program"):
        sessions.insist_on_python(str(tmp_path / "none"))
    other = tmp_path / "python"
    other.write_text("#!/bin/sh\necho 2.7\n")
    other.chmod(0o755)
    with pytest.raises(sessions.PythonMissing, match=r"whose version is 2\.7; it must be 3"):
        sessions.insist_on_python(str(other))


def ran(*asked: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "docstore", "spark", *asked]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300,
                          env=os.environ | environment)  # fmt: skip


@pytest.mark.parametrize(
    ("options", "environment", "said"),
    [
        (["--master", "foo"], {}, "got 'foo'"),
        (["--url", "n1:8001"], {}, "got 'n1:8001'"),
        ([], {"PYSPARK_PYTHON": "/nothere/python"}, "which is not an installed program"),
    ],
)
def test_the_command_prints_one_line_before_spark_starts(
    options: list[str], environment: dict[str, str], said: str
) -> None:
    done = ran("balance", *options, **environment)
    assert done.returncode == 1
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("docstore: ")
    assert said in line


def test_a_job_whose_failure_cannot_be_stored_reports_its_own_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pinned: it reported that its document could not be written, not the cause of its failure."""
    with LocalCluster(1) as cluster:

        def job(work: Work) -> dict[str, Any]:
            monkeypatch.setenv("DOCSTORE_TOKEN", "nö token")
            raise ValueError("row 7 has no id")

        no_spark: Any = None
        with pytest.raises(ValueError, match="row 7 has no id"):
            Work(no_spark, cluster.urls[0], "import").run(job)
    assert "still says RUNNING" in capsys.readouterr().err


@pytest.mark.thorough
def test_in_a_session_the_same_line_comes_first(stage: Stage) -> None:
    stage.put({"a": {"n": 1}})
    rows: Any = stage.spark.createDataFrame([("a", 2)], "name string, n long")
    with pytest.raises(pipeline.PipelineError, match=r"^docstore: ALREADY_EXISTS|^ALREADY") as seen:
        pipeline.write(rows, stage.url, stage.path, key="name", operation="insert")
    assert len(str(seen.value).splitlines()) == 1
    with pytest.raises(pipeline.PipelineError, match="there is no option 'colums'"):
        pipeline.read(stage.spark, stage.url, stage.path, colums="body")
