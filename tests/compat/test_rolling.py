"""Three nodes are upgraded to a made-up next version, one by one, under load.

Clients write and read documents and produce records meanwhile: all of it is done, once.
"""

import asyncio
import json
import re
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from docstore.client import Client
from docstore.client.local import LocalCluster, LocalNode
from docstore.node.quarantine import EXIT_DISK_FAILED
from docstore.wire.link_messages import PROTOCOL

PRESENT = ("-m", "docstore")
LATER = (str(Path(__file__).parent / "later.py"),)
STOP_S = 20.0
AT_LEAST = 20
"""Requests of each kind while a node is away."""


class Load:
    """Clients that write and read documents and produce records, one after the other."""

    def __init__(self, urls: list[str]) -> None:
        self._urls = urls
        self.written = self.produced = 0
        self.is_over = False

    async def documents(self) -> None:
        """Write a document, read it, and so on; any failure ends the test."""
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


def stop(node: LocalNode) -> None:
    """Stop a node gently."""
    assert node.process is not None
    node.process.terminate()
    assert node.process.wait(STOP_S) == 0
    node.process = None


def restart(cluster: LocalCluster, node: LocalNode, command: tuple[str, ...]) -> None:
    """Stop a node gently, and start it in another version."""
    stop(node)
    node.command = command
    cluster.start(node)
    cluster.wait_ready()


def read(node: LocalNode, path: str) -> str:
    """Return a page of a node."""
    with urllib.request.urlopen(node.url + path, timeout=5) as page:
        content: bytes = page.read()
    return content.decode()


def refused(node: LocalNode) -> int:
    """Return how often others did not know the protocol that a node proposed."""
    found = re.search(
        r"^docstore_peer_dials_refused_total (\d+)", read(node, "/metrics"), re.MULTILINE
    )
    return int(found[1]) if found else 0


def stored(cluster: LocalCluster) -> set[int]:
    """Return the stored protocols that nodes show."""
    pages: list[dict[str, Any]] = [
        json.loads(read(node, "/core/node-groups/default")) for node in cluster.nodes
    ]
    return {page["configuration"]["storedProtocol"] for page in pages}


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not await asyncio.to_thread(holds):
            await asyncio.sleep(0.05)


def log_of(node: LocalNode) -> str:
    return (node.data / "log.txt").read_text()


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


async def upgraded(cluster: LocalCluster, load: Load) -> None:
    """Bring each node to the next version."""
    await load.until_busy()
    for node in cluster.nodes:
        assert stored(cluster) == {PROTOCOL}
        await asyncio.to_thread(restart, cluster, node, LATER)
        if node is cluster.nodes[0]:  # The two others are earlier ones.
            assert await asyncio.to_thread(refused, node) >= 2
        await load.until_busy()
    await until(lambda: stored(cluster) == {PROTOCOL + 1})
    await load.until_busy()
    load.is_over = True


async def insist_on_later(cluster: LocalCluster) -> None:
    """Check that a node of the version before neither joins nor starts on an upgraded disk."""
    newcomer, first = cluster.prepare(), cluster.nodes[0]
    cluster.start(newcomer)
    why = f"it speaks protocol {PROTOCOL}, the group stores data of {PROTOCOL + 1}"
    await until(lambda: why in log_of(newcomer))
    await asyncio.to_thread(stop, first)
    first.command = PRESENT
    cluster.start(first)
    assert first.process is not None
    assert await asyncio.to_thread(first.process.wait, STOP_S) == EXIT_DISK_FAILED
    assert "has format 2, and this version reads up to 1" in first.last_words()
    first.process = None


@pytest.mark.thorough
async def test_a_rolling_upgrade_fails_no_request_and_closes_the_way_back(tmp_path: Path) -> None:
    with LocalCluster(3, tmp_path / "group", ["--slots", "16"]) as cluster:
        load = Load(cluster.urls)
        async with Client(cluster.urls) as client:
            await client.declare("/notes")
            topic = orjson.dumps({"name": "flights", "partitions": 2, "replicationFactor": 3})
            headers = {"Content-Type": "application/json", "Prefer": "wait=20"}
            await client.request("POST", "/core/streams", topic, headers)
        async with asyncio.TaskGroup() as group:
            group.create_task(load.documents())
            group.create_task(load.records())
            await upgraded(cluster, load)
        assert sorted(await consumed(cluster.urls)) == list(range(load.produced))
        async with Client(cluster.urls) as client:
            for number in range(min(50, load.written)):
                last = max(range(number, load.written, 50))
                assert (await client.get(f"/notes/{number}")).value["n"] == last
        assert not [
            line
            for node in cluster.nodes
            for line in log_of(node).splitlines()
            if '"alarm"' in line
        ]
        await insist_on_later(cluster)
