"""The HTTP client without Spark: it keeps connections, and asks nodes only."""

import subprocess
import sys

import pytest

from docstore.client.local import LocalCluster
from docstore.pipeline.group_client import (
    FOREIGN_HOST,
    NOT_DONE,
    REPEATABLE,
    GroupClient,
    GroupError,
    NoNode,
    Unreachable,
    in_turn,
)
from tests.docstore.cli.test_foreign_servers import serving

SCRIPT = """
import sys
from docstore.pipeline.group_client import GroupClient
for _ in range(2):
    assert GroupClient(sys.argv[1:]).json("GET", "/core/spark/plan")["ends"]
"""


def test_a_process_with_open_connections_ends_silently(cluster: LocalCluster) -> None:
    asked = [sys.executable, "-W", "error", "-c", SCRIPT, *cluster.urls]
    done = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("head", "met"),
    [
        (b"200 OK\r\nContent-Type: application/json\r\n", "200, application/json"),
        (b"404 Not Found\r\nContent-Type: text/html\r\n", "404, text/html"),
        (b"302 Found\r\nLocation: http://elsewhere/\r\n", "302, to http://elsewhere/"),
    ],
)
def test_another_server_is_not_taken_for_a_node(head: bytes, met: str) -> None:
    """Pinned: its answer was read as a node's, with a KeyError."""
    answer = b"HTTP/1.1 " + head + b"Connection: close\r\nContent-Length: 2\r\n\r\n{}"
    with serving(answer) as url, pytest.raises(NoNode) as raised:
        GroupClient([url]).json("GET", "/core/spark/plan?asOf=latest")
    said = f"the server at {url} is not a docstore node: it answers"
    said += f" GET /core/spark/plan with {met}; give the URL of a node"
    assert str(raised.value) == said


@pytest.mark.parametrize(
    ("status", "any_request", "named_write"),
    [
        (421, True, True), (425, True, True), (429, True, True), (503, True, True),
        (504, False, True), (404, False, False), (409, False, False), (500, False, False),
    ],
)  # fmt: skip
def test_a_refusal_is_retried_at_the_next_node_if_that_does_no_harm(
    status: int, any_request: bool, named_write: bool
) -> None:
    def ask(url: str) -> str:
        if url == "first":
            raise GroupError(status, "", "", url)
        return url

    for statuses, is_retried in ((NOT_DONE, any_request), (REPEATABLE, named_write)):
        if is_retried:
            assert in_turn(["first", "second"], 0, ask, statuses) == "second"
        else:
            with pytest.raises(GroupError, match=f"^first: {status}"):
                in_turn(["first", "second"], 0, ask, statuses)


def test_a_request_is_tried_at_each_node_in_each_round_and_fails_with_the_last_error() -> None:
    asked: list[str] = []

    def ask(url: str) -> str:
        asked.append(url)
        raise Unreachable(f"{url}: attempt {len(asked)}")

    with pytest.raises(Unreachable, match="second: attempt 4"):
        in_turn(["first", "second"], 1, ask)
    assert asked == ["first", "second"] * 2


def test_a_final_code_ends_the_attempts() -> None:
    def ask(url: str) -> str:
        raise GroupError(421, FOREIGN_HOST, "", url)

    with pytest.raises(GroupError, match=r"^first: 421"):
        in_turn(["first", "second"], 0, ask, final=FOREIGN_HOST)
