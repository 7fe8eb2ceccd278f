"""Real nodes looked at from outside: their pages, counters, memory; and how to spoil their disk."""

import json
import os
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from docstore.client.local import LocalCluster, LocalNode

POLL_S = 0.05


def page_of(url: str, headers: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return a JSON page, that of a refusal as well; {} when no node answers."""
    try:
        asked = urllib.request.Request(url, headers=dict(headers or {}))
        with urllib.request.urlopen(asked, timeout=5) as answer:
            return dict(json.load(answer))
    except urllib.error.HTTPError as error:
        return dict(json.load(error))
    except (OSError, ValueError):
        return {}


def until(condition: Callable[[], object], timeout_s: float = 15.0) -> None:
    """Return when the condition holds; fail when it does not in time."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(POLL_S)


def start_all(group: LocalCluster) -> None:
    """Start every node that does not run; return when all of them serve."""
    for node in group.nodes:
        if node.process is None:
            group.start(node)
    group.wait_ready()


def metrics(node: LocalNode) -> dict[str, float]:
    """Return the node's counters without labels."""
    with urllib.request.urlopen(f"{node.url}/metrics", timeout=5) as answer:
        lines = answer.read().decode().splitlines()
    samples = [line.split() for line in lines if not line.startswith("#") and "{" not in line]
    return {name: float(value) for name, value in samples}


def resident_bytes(pid: int) -> int:
    """Return the resident memory of a process by the kernel's count."""
    pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def disk_fault(node: LocalNode, fault: str) -> Iterator[None]:
    """Let every sync of a running node's disk suffer `fault`, as strace spells it."""
    assert node.process is not None
    # The journal writes and syncs in one call.
    calls = "fdatasync,fsync,pwritev2"
    inject = ["-e", f"trace={calls}", "-e", f"inject={calls}:{fault}"]
    tracer = subprocess.Popen(
        ["strace", "-f", "-p", str(node.process.pid), *inject],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    try:
        assert tracer.stderr is not None
        assert b"attached" in tracer.stderr.readline()
        yield
    finally:
        tracer.terminate()
        tracer.communicate()
