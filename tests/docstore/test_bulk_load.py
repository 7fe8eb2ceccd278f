"""A real node under more bulk load than it takes at once slows clients and refuses nothing."""

import asyncio
import json
from collections import Counter
from pathlib import Path

import aiohttp
import pytest

from docstore.client import Client, LocalCluster
from docstore.documents.timing import WaitingBounds

STREAMS = 20
LINES = WaitingBounds().operations_max // 4


def stream(number: int) -> bytes:
    """Return the lines of one client, a quarter of what may wait at a node."""
    line = b'{"link":"/notes/%d-%d","body":{"text":"some words"}}\n'
    return b"".join(line % (number, n) for n in range(LINES))


async def load(session: aiohttp.ClientSession, lines: bytes) -> Counter[int]:
    """Return how often each status was answered."""
    ndjson = {"Content-Type": "application/x-ndjson"}
    async with session.post("/core/bulk", data=lines, headers=ndjson) as response:
        return Counter(json.loads(line)["status"] for line in (await response.read()).splitlines())


@pytest.mark.thorough
async def test_more_lines_than_may_wait_at_a_node_wait_with_their_clients(tmp_path: Path) -> None:
    with LocalCluster(1, tmp_path) as group:
        async with Client(group.urls) as store:
            await store.declare("/notes")
        async with aiohttp.ClientSession(group.urls[0]) as session:
            loads = [load(session, stream(number)) for number in range(STREAMS)]
            assert await asyncio.gather(*loads) == [{201: LINES}] * STREAMS
