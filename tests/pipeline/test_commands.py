"""Commands of `docstore spark` that fail: exit code 1 and one line on standard error.

They run in this process, in the session that all tests share. `test_errors.py` starts processes of
their own, since Java writes messages while it starts.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from docstore.client.local import LocalCluster
from docstore.pipeline.__main__ import app
from tests.pipeline.forgetful import forgetful
from tests.pipeline.stage import Stage
from tests.pipeline.test_faults import BreakingProxy

Captured = pytest.CaptureFixture[str]


def ran(capfd: Captured, *asked: str) -> tuple[int, str, list[str]]:
    """Return the exit code, standard output, and standard error without the job's progress."""
    capfd.readouterr()
    with pytest.raises(SystemExit) as end:
        app(list(asked), prog_name="docstore spark")
    output = capfd.readouterr()
    lines = [line for line in output.err.splitlines() if not line.startswith(f"{asked[0]}: ")]
    code = end.value.code
    assert isinstance(code, int)
    return code, output.out, lines


def refused(capfd: Captured, *asked: str) -> str:
    """Return the one line that a command fails with."""
    code, out, lines = ran(capfd, *asked)
    assert (code, out) == (1, "")
    assert len(lines) == 1, lines
    assert lines[0].startswith("docstore: ")
    return lines[0]


def any_of(count: int) -> str:
    """Return a condition of `count` alternatives."""
    return " or ".join(f"n={n}" for n in range(count))


def test_every_command_takes_json() -> None:
    for name, command in get_command(app).commands.items():  # type: ignore[attr-defined]
        assert command.hidden or any("--json" in each.opts for each in command.params), name


@pytest.fixture
def files(stage: Stage, tmp_path: Path, capfd: Captured) -> Path:
    """A directory with a file of films, and an export that lacks a part."""
    (tmp_path / "films.ndjson").write_text('{"title": "Heat", "year": 1995}\n')
    (tmp_path / "expires.ndjson").write_text('{"documentExpirationTimeMicros": "soon"}\n')
    stage.put({"a": {"n": 1}, "b": {"n": 2}})
    code, out, lines = ran(
        capfd, "export", stage.path, "--to", str(tmp_path / "out"), "--url", stage.url
    )
    assert (code, json.loads(out)["rows"], lines) == (0, 2, [])
    shutil.copytree(tmp_path / "out", tmp_path / "whole")
    next((tmp_path / "out").glob("part-*.parquet")).unlink()
    return tmp_path


Asked = Callable[[str, Path], list[str]]
VIEW = ("--into", "/view", "--keys", "n", "--schema", "n long")
WRONG: dict[str, tuple[Asked, str]] = {
    "a file that is not there": (
        lambda path, _: ["import", "/nowhere.ndjson", "--into", path], "/nowhere.ndjson",
    ),
    "a directory that is not there": (
        lambda path, _: ["restore", "/nowhere", "--into", path], "/nowhere has no manifest",
    ),
    "a file of Arrow that is not there": (
        lambda path, _: ["import", "/nowhere.arrow", "--into", path], "/nowhere.arrow",
    ),
    "a misspelt id": (
        lambda path, files: ["import", f"{files}/films.ndjson", "--into", path, "--id", "titel"],
        "line 1: the row has no titel",
    ),
    "another export than its manifest says": (
        lambda path, files: ["import", f"{files}/out", "--into", path],
        "does not match its manifest",
    ),
    "a target that is there": (
        lambda path, files: ["export", path, "--to", f"{files}/out"],
        "it is there already; name a directory that is not, or remove this one",
    ),
    "a view in no SQL": (
        lambda path, files: ["matview", path, *VIEW, "--rows", "SELEC n FROM documents",
                             "--checkpoint", f"{files}/one"], "SELEC",
    ),
    "a view of a column that is not there": (
        lambda path, files: ["matview", path, *VIEW, "--rows", "SELECT m FROM documents",
                             "--checkpoint", f"{files}/two"], "`m`",
    ),
    "a row that the service refuses": (
        lambda path, files: ["import", f"{files}/expires.ndjson", "--into", path],
        "documentExpirationTimeMicros must be microseconds since 1970",
    ),
    "a column that is named twice": (
        lambda path, files: ["matview", path, *VIEW, "--rows", "SELECT n, n FROM documents",
                             "--checkpoint", f"{files}/three"], "The column `n` already exists",
    ),
    "a member that is named twice": (
        lambda path, files: ["import", f"{files}/films.ndjson", "--into", path,
                             "--schema", "year long, year long"], "`year`. It appears 2 times",
    ),
    "a condition that is too long": (
        lambda path, files: ["export", path, "--to", f"{files}/new", "--where", any_of(5000)],
        "where: must have at most 16384 characters",
    ),
    "a feed of no node": (
        lambda path, files: ["restore", f"{files}/whole", "--into", path, "--feed-url", "n1:8001"],
        "got 'n1:8001'",
    ),
    "a condition that is none": (
        lambda path, files: ["export", path, "--to", f"{files}/new", "--where", "n ="], "where",
    ),
    "a factory that is not there": (
        lambda path, files: ["export", "/never", "--to", f"{files}/new"], "there is no factory",
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    "some", [slice(1), pytest.param(slice(1, None), marks=pytest.mark.thorough)], ids=["1", "rest"]
)
def test_an_error_of_a_command_is_one_line(
    stage: Stage, files: Path, capfd: Captured, some: slice
) -> None:
    for what, (asked, said) in list(WRONG.items())[some]:
        line = refused(capfd, *asked(stage.path, files), "--url", stage.url)
        assert said in line, f"{what}: {line}"
    assert stage.documents() == {"a": {"n": 1}, "b": {"n": 2}}


def test_a_condition_of_very_many_alternatives_is_carried_out(
    stage: Stage, tmp_path: Path, capfd: Captured
) -> None:
    stage.put({"a": {"n": 1}, "b": {"n": 1199}, "c": {"n": 1200}})
    code, out, _ = ran(capfd, "export", stage.path, "--to", str(tmp_path / "new"), "--where",
                       any_of(1200), "--url", stage.url)  # fmt: skip
    assert (code, json.loads(out)["rows"]) == (0, 2)


@pytest.mark.thorough  # It waits until history is trimmed.
def test_a_feed_whose_beginning_is_gone_is_one_line(
    spark: Any, tmp_path: Path, capfd: Captured
) -> None:
    with forgetful(tmp_path) as cluster:
        stage, out = Stage.of(spark, cluster, "/trimmed"), str(tmp_path / "out")
        stage.put({str(n): {"turn": -1} for n in range(50)})
        assert ran(capfd, "export", stage.path, "--to", out, "--url", stage.url)[0] == 0
        for turn in range(5):
            stage.put({str(n): {"turn": turn} for n in range(50)})
        cluster.until_trimmed(150)
        line = refused(capfd, "restore", out, "--into", "/back", "--feed-url", stage.url,
                       "--url", stage.url)  # fmt: skip
        assert "the feed's oldest changes have been deleted" in line


@pytest.mark.thorough  # A task goes round the copies for seconds, three times.
def test_an_answer_that_is_cut_off_is_one_line(spark: Any, tmp_path: Path, capfd: Captured) -> None:
    cluster = LocalCluster(1, tmp_path)
    [node] = cluster.nodes
    proxy = BreakingProxy(node.url, 200_000, 1 << 30)
    node.flags = (*node.flags, "--advertise", proxy.url.removeprefix("http://"), "--slots", "16")
    with cluster:
        stage = Stage.of(spark, cluster, "/long")
        stage.put({str(n): {"text": "x" * 10_000} for n in range(100)})
        line = refused(capfd, "export", stage.path, "--to", str(tmp_path / "out"),
                       "--url", proxy.url)  # fmt: skip
    proxy.close()
    assert proxy.broken >= 2
    assert f"{proxy.url}: the answer was cut off" in line
