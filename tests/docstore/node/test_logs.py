"""What a node says, and that it goes on where that cannot be written."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

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


def test_what_libraries_log_is_in_the_form_of_all_lines() -> None:
    says = "import logging; from docstore.runtime import logs; logs.set_up('json')"
    says += "; logging.getLogger('asyncio').error('a task %s', 'failed')"
    says += "; logging.getLogger('gossip.agent').info('not worth a line')"
    ended = subprocess.run(
        [sys.executable, "-c", says], capture_output=True, check=True, timeout=20
    )  # fmt: skip
    [line] = map(json.loads, ended.stderr.splitlines())
    assert (line["event"], line["level"], line["source"]) == ("a task failed", "error", "asyncio")
