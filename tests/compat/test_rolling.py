"""Three nodes are brought from an earlier version to this one, one by one, under load.

The earlier one is what stood in the history before nodes of two versions could speak with each
other: protocol 5. What clients want done meanwhile is done, all of it, once.
"""

import asyncio
import io
import re
import subprocess
import sys
import tarfile
import urllib.request
from importlib.util import find_spec
from pathlib import Path

import orjson
import pytest

from docstore.client import Client
from docstore.client.local import LocalCluster, LocalNode
from tests.source import ROOT

PROTOCOL_5 = "b240784"
PRESENT = ("-m", "docstore")
STOP_S = 20.0
AT_LEAST = 20
"""Of each kind of request while a node is away."""
RUN = "import sys; sys.path.insert(0, {!r}); from docstore.__main__ import main; sys.exit(main())"


@pytest.fixture
def earlier(tmp_path: Path) -> tuple[str, ...]:
    """Return the command that runs a node of protocol 5."""
    assert find_spec("greenlet"), "which nodes import no more, but these do"
    asked = ["git", "-C", str(ROOT), "archive", PROTOCOL_5, "docstore", "gossip"]
    found = subprocess.run(asked, capture_output=True, check=False)
    if found.returncode:
        pytest.skip(f"the history of this checkout does not go back to {PROTOCOL_5}")
    with tarfile.open(fileobj=io.BytesIO(found.stdout)) as archive:
        archive.extractall(tmp_path / "earlier", filter="data")
    return ("-c", RUN.format(str(tmp_path / "earlier")))


class Load:
    """Clients that write and read documents and produce records, one after the other."""

    def __init__(self, urls: list[str]) -> None:
        self._urls = urls
        self.written = self.produced = 0
        self.is_over = False

    async def documents(self) -> None:
        """Write a document, read it, and so on; whatever fails ends the test."""
        async with Client(self._urls) as client:
            while not self.is_over:
                link = f"/notes/{self.written % 50}"
                put = await client.put(link, {"n": self.written})
                got = await client.get(link)
                assert got.value["n"] == self.written
                assert got.version == put.version
                self.written += 1

    async def records(self) -> None:
        """Produce record after record, each acknowledged before the next."""
        async with Client(self._urls) as client, client.producer("flights") as producer:
            while not self.is_over:
                await (await producer.send(f"k{self.produced % 7}", {"n": self.produced}))
                self.produced += 1

    async def until_busy(self) -> None:
        """Return when some more of both has been done."""
        written, produced = self.written, self.produced
        async with asyncio.timeout(60):
            while min(self.written - written, self.produced - produced) < AT_LEAST:
                await asyncio.sleep(0.02)


def restart(cluster: LocalCluster, node: LocalNode, command: tuple[str, ...]) -> None:
    """Stop a node gently, and start it in another version."""
    assert node.process is not None
    node.process.terminate()
    assert node.process.wait(STOP_S) == 0
    node.process, node.command = None, command
    cluster.start(node)
    cluster.wait_ready()


def refused(node: LocalNode) -> int:
    """Return how often others did not know the protocol that a node proposed."""
    with urllib.request.urlopen(f"{node.url}/metrics", timeout=5) as page:
        text = page.read().decode()
    found = re.search(r"^docstore_peer_dials_refused_total (\d+)", text, re.MULTILINE)
    return int(found[1]) if found else 0


async def consumed(urls: list[str]) -> list[int]:
    """Return the numbers of all records, over both partitions."""
    numbers: list[int] = []
    async with Client(urls) as client:
        for partition in (0, 1):
            path = f"/core/streams/flights/partitions/{partition}/records?from=beginning"
            headers = {"Accept": "application/json"}
            _, _, page = await client.request("GET", path, b"", headers)
            numbers += [each["value"]["n"] for each in orjson.loads(page)["records"]]
    return numbers


@pytest.mark.thorough
async def test_a_rolling_upgrade_fails_no_request_and_closes_the_way_back(
    tmp_path: Path, earlier: tuple[str, ...]
) -> None:
    cluster = LocalCluster(3, tmp_path / "group", ["--slots", "16"])
    for node in cluster.nodes:
        node.command = earlier
    with cluster:
        load = Load(cluster.urls)
        async with Client(cluster.urls) as client:
            await client.declare("/notes")
            topic = orjson.dumps({"name": "flights", "partitions": 2, "replicationFactor": 3})
            headers = {"Content-Type": "application/json", "Prefer": "wait=20"}
            await client.request("POST", "/core/streams", topic, headers)
        async with asyncio.TaskGroup() as group:
            group.create_task(load.documents())
            group.create_task(load.records())
            await load.until_busy()
            for node in cluster.nodes:
                await asyncio.to_thread(restart, cluster, node, PRESENT)
                if node is cluster.nodes[0]:  # Beside two earlier ones.
                    assert await asyncio.to_thread(refused, node) >= 2
                await load.until_busy()
            load.is_over = True
        numbers = await consumed(cluster.urls)
        assert sorted(numbers) == list(range(load.produced))
        async with Client(cluster.urls) as client:
            for number in range(min(50, load.written)):
                last = max(n for n in range(number, load.written, 50))
                assert (await client.get(f"/notes/{number}")).value["n"] == last
    logs = [(node.data / "log.txt").read_text() for node in cluster.nodes]
    assert not [line for each in logs for line in each.splitlines() if '"alarm"' in line]
    back = [sys.executable, *earlier, "serve", "--insecure", "--data", str(cluster.nodes[0].data)]
    ended = await asyncio.to_thread(
        subprocess.run, back, capture_output=True, text=True, check=False, timeout=60
    )
    assert ended.returncode != 0
    assert "format" in ended.stderr + ended.stdout
