"""The log of a node, and a node that goes on when its log cannot be written."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from docstore import __version__
from docstore.client.local import LocalCluster, LocalNode


@pytest.fixture
def unheard(tmp_path: Path) -> Iterator[tuple[LocalCluster, LocalNode]]:
    """A node of its own whose output goes to a device without room."""
    cluster = LocalCluster(1, tmp_path)
    [node] = cluster.nodes
    with Path("/dev/full").open("wb") as full:
        node.process = subprocess.Popen(
            [
                sys.executable, "-m", "docstore", "serve", "--data", str(tmp_path / "n1"),
                "--listen", node.url.removeprefix("http://"),
            ],
            stdin=subprocess.DEVNULL, stdout=full, stderr=full,
        )  # fmt: skip
    yield cluster, node
    if node.process is not None:
        cluster.kill(node)


def test_a_node_serves_with_nowhere_to_write_its_log(
    unheard: tuple[LocalCluster, LocalNode],
) -> None:
    cluster, node = unheard
    assert node.process is not None
    cluster.wait_ready()
    node.process.terminate()
    assert node.process.wait(15) == 0
    node.process = None


def test_a_line_that_cannot_be_written_is_dropped() -> None:
    says = "import structlog, sys; from docstore.runtime import logs; logs.set_up('json')"
    says += "; structlog.get_logger().warning('the disk is full'); print('so', flush=True)"
    with Path("/dev/full").open("wb") as full:
        ended = subprocess.run(
            [sys.executable, "-c", says], stdout=full, stderr=full, check=False, timeout=20
        )
    assert ended.returncode == 0


def test_each_line_names_its_node() -> None:
    says = "import logging, structlog; from docstore.runtime import logs"
    says += "; logs.set_up('json', 'info', 'a-1'); structlog.get_logger().info('ours')"
    says += "; logging.getLogger('asyncio').error('of a library')"
    ended = subprocess.run(
        [sys.executable, "-c", says], capture_output=True, check=True, timeout=20
    )  # fmt: skip
    lines = [json.loads(line) for line in ended.stderr.splitlines()]
    assert [(line["node"], line["event"]) for line in lines] == [
        ("a-1", "ours"), ("a-1", "of a library")
    ]  # fmt: skip


def _logged(says: str) -> list[dict[str, Any]]:
    """Return the lines of a process that logs as JSON."""
    begins = "import logging, structlog, threading, warnings; from docstore.runtime import logs"
    ended = subprocess.run(
        [sys.executable, "-c", f"{begins}\nlogs.set_up('json')\n{says}"],
        capture_output=True, check=False, timeout=20,
    )  # fmt: skip
    return [json.loads(line) for line in ended.stderr.splitlines()]


def test_log_lines_of_libraries_have_the_common_form() -> None:
    line, other = _logged(
        "logging.getLogger('asyncio').error('a task %s', 'failed')\n"
        "logging.getLogger('gossip.agent').info('not worth a line')\n"
        "logging.getLogger('gossip').warning('a thing', extra={'member': 'n2'})"
    )
    assert (line["event"], line["message"]) == ("a task %s", "a task failed")
    assert (line["level"], line["source"]) == ("error", "asyncio")
    assert (other["event"], other["member"]) == ("a thing", "n2")


def test_uncaught_exceptions_and_warnings_have_the_common_form() -> None:
    lines = _logged(
        "def fail(): raise ValueError('of a thread')\n"
        "class Failing:\n    def __del__(self): raise ValueError('of a finalizer')\n"
        "thread = threading.Thread(target=fail); thread.start(); thread.join()\n"
        "Failing()\n"
        "warnings.warn('of Python')\n"
        "raise ValueError('of the process')"
    )
    assert [line["event"] for line in lines] == [
        "a thread failed", "an exception is ignored", "a warning of Python",
        "an exception ends this process",
    ]  # fmt: skip
    assert [line.get("text") or line["exception"].rpartition(": ")[2] for line in lines] == [
        "of a thread", "of a finalizer", "of Python", "of the process"
    ]  # fmt: skip


def test_a_node_logs_its_start_and_its_end(tmp_path: Path) -> None:
    with LocalCluster(1, tmp_path, ["--log", "json", "--slots", "4"]) as cluster:
        [node] = cluster.nodes
        assert node.process is not None
        node.process.terminate()
        assert node.process.wait(30) == 0
    lines = (tmp_path / "n1" / "log.txt").read_text("utf-8").splitlines()
    entries = [json.loads(line) for line in lines if not line.startswith("docstore n1 serves at ")]
    found = {line["event"]: line for line in entries}
    assert [each for each in found if each.startswith("this node ")] == [
        "this node has started", "this node serves", "this node stops", "this node has stopped"
    ]  # fmt: skip
    started = found["this node has started"]
    assert (started["version"], started["settings"]["slots"]) == (__version__, "4")
    assert found["this node stops"]["reason"] == "SIGTERM"
