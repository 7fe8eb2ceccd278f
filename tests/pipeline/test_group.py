"""The HTTP client without Spark: it keeps connections, and asks nodes only."""

import subprocess
import sys

import pytest

from docstore.client.local import LocalCluster
from docstore.pipeline.group_client import GroupClient, NoNode
from tests.docstore.cli.test_foreign_servers import serving

SCRIPT = """
import sys
from docstore.pipeline.group_client import GroupClient
for _ in range(2):
    assert GroupClient(sys.argv[1:]).json("GET", "/core/spark/plan")["ends"]
"""


def test_a_process_ends_without_a_word_about_what_it_kept_open(cluster: LocalCluster) -> None:
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
    """What it answered was looked into: a KeyError."""
    answer = b"HTTP/1.1 " + head + b"Connection: close\r\nContent-Length: 2\r\n\r\n{}"
    with serving(answer) as url, pytest.raises(NoNode) as raised:
        GroupClient([url]).json("GET", "/core/spark/plan?asOf=latest")
    said = f"what answers at {url} is no node: it answers GET /core/spark/plan with {met}"
    assert str(raised.value) == said
