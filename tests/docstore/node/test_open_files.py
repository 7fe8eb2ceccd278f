"""Files that a process may have open: clients never get the last of them."""

import json
import resource
import subprocess
import sys
from contextlib import ExitStack, closing
from http.client import HTTPConnection
from pathlib import Path

import pytest

from docstore.client import LocalCluster
from docstore.model.limits import Limits
from docstore.node.open_files import OWN, fitting

SAYS = """
import json, resource
from docstore.model.limits import Limits
from docstore.runtime import logs
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


def test_a_sufficient_bound_stays() -> None:
    high = 1_000 + OWN + 5
    assert started_with(high, high) == (1_000, (high, high), [])


@pytest.mark.parametrize(("hard", "connections"), [(1_024, 768), (300, 150)])
def test_under_a_low_hard_bound_there_are_fewer_connections(hard: int, connections: int) -> None:
    left, bounds, log = started_with(min(hard, 256), hard)
    assert (left, bounds) == (connections, (hard, hard))
    [line] = log
    assert line["level"] == "warning"
    assert (line["connections"], line["files"], line["files_needed"]) == (connections, hard, 1_256)


def test_a_node_without_files_for_clients_keeps_serving(tmp_path: Path) -> None:
    """Connections above the limit get 503; open ones, and the disk, are served."""
    cluster = LocalCluster(1, tmp_path)
    [node] = cluster.nodes
    node.process = subprocess.Popen(
        [sys.executable, "-m", "docstore", "serve", "--data", str(tmp_path / "n1"),
         "--listen", node.url.removeprefix("http://")],
        preexec_fn=lambda: resource.setrlimit(  # noqa: PLW1509 - there are no threads here
            resource.RLIMIT_NOFILE, (200, 200)
        ),
        stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    with ExitStack() as stack:
        stack.callback(cluster.stop)
        cluster.wait_ready()
        address = ("127.0.0.1", int(node.url.rpartition(":")[2]))
        clients = [stack.enter_context(closing(HTTPConnection(*address))) for _ in range(100)]
        for each in clients:
            each.connect()
        statuses = [_status(each, "GET", "/health/ready") for each in clients]
        # The one that waited for it to be ready may be there still.
        assert statuses.count(200) in (99, 100)
        assert set(statuses) <= {200, 503}
        for _ in range(200):
            with closing(HTTPConnection(*address)) as late:
                assert _status(late, "GET", "/health/ready") == 503
        declared = b'{"path": "/t"}'
        assert _status(clients[0], "POST", "/core/factories", declared) == 201
        assert _status(clients[0], "PUT", "/t/a", b"{}") == 201


def _status(client: HTTPConnection, method: str, path: str, body: bytes | None = None) -> int:
    client.request(method, path, body, {"Content-Type": "application/json"} if body else {})
    with client.getresponse() as answer:
        answer.read()
        return answer.status


def test_limits_stay_unchanged_on_a_machine_without_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY,) * 2)
    monkeypatch.delattr(resource, "setrlimit")
    assert fitting(Limits()) == Limits()
