"""Files that a process may have open: clients never get the last of them."""

import json
import resource
import subprocess
import sys

import pytest

from docstore.limits import Limits
from docstore.node.open_files import OWN, fitting

SAYS = """
import json, resource
from docstore.limits import Limits
from docstore.node import logs
from docstore.node.open_files import fitting
logs.set_up("json")
limits = fitting(Limits(connections_max=1_000, body_bytes_max=7))
assert limits.body_bytes_max == 7
print(json.dumps([limits.connections_max, resource.getrlimit(resource.RLIMIT_NOFILE)]))
"""


def started_with(soft: int, hard: int) -> tuple[int, tuple[int, int], list[dict[str, object]]]:
    """Return how many connections are left under these bounds, the bounds then, and the log."""
    ended = subprocess.run(
        [sys.executable, "-c", SAYS],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard)),
        capture_output=True, check=True, timeout=20,
    )  # fmt: skip
    connections, bounds = json.loads(ended.stdout)
    return connections, tuple(bounds), [json.loads(line) for line in ended.stderr.splitlines()]


def test_the_soft_bound_is_raised_as_far_as_is_needed() -> None:
    needed = 1_000 + OWN
    assert started_with(200, needed + 10) == (1_000, (needed, needed + 10), [])


def test_one_that_is_high_enough_stays() -> None:
    high = 1_000 + OWN + 5
    assert started_with(high, high) == (1_000, (high, high), [])


@pytest.mark.parametrize(("hard", "connections"), [(1_024, 768), (300, 150)])
def test_under_a_low_hard_bound_there_are_fewer_connections(hard: int, connections: int) -> None:
    left, bounds, log = started_with(min(hard, 256), hard)
    assert (left, bounds) == (connections, (hard, hard))
    [line] = log
    assert line["level"] == "warning"
    assert (line["connections"], line["files"], line["files_needed"]) == (connections, hard, 1_256)


def test_nothing_is_asked_for_where_there_is_no_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY,) * 2)
    monkeypatch.delattr(resource, "setrlimit")
    assert fitting(Limits()) == Limits()
