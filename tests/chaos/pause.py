"""SIGSTOP of an owner, writes elsewhere, SIGCONT: what it answers then must not be old."""

import asyncio
import random
import signal
import time

import aiohttp

from docstore.client.local import LocalCluster, LocalNode
from tests.chaos.workload import FACTORY

PAUSE_S = 10.0
READERS = 8


async def pause_round(
    cluster: LocalCluster, session: aiohttp.ClientSession, rng: random.Random, writes: int
) -> tuple[list[str], float, int]:
    """Pause the owner of a document; return stale reads, the time to replace it, the writes."""
    link = f"{FACTORY}/pause{rng.randrange(1 << 60)}"
    version = await _put(session, cluster.nodes[0], link, 10.0)
    assert version is not None
    async with session.get(f"{cluster.nodes[0].url}{link}/explain") as answer:
        owner_name = (await answer.json())["owner"]
    owner = next(node for node in cluster.nodes if node.name == owner_name)
    other = next(node for node in cluster.nodes if node is not owner)
    _signal(owner, signal.SIGSTOP)
    paused_at = time.monotonic()
    # These wait in the paused node's sockets, and are answered when it wakes.
    queued = [asyncio.create_task(_get(session, owner, link, 0)) for _ in range(READERS)]
    replaced_s, acknowledged = None, version
    while time.monotonic() - paused_at < PAUSE_S:
        version = await _put(session, other, link, 2.0)
        if version is not None:
            acknowledged = version
            replaced_s = replaced_s or time.monotonic() - paused_at
    _signal(owner, signal.SIGCONT)
    late = [asyncio.create_task(_get(session, owner, link, acknowledged)) for _ in range(READERS)]
    stale = [problem for problem in await asyncio.gather(*queued, *late) if problem]
    if replaced_s is None:
        stale.append("nobody replaced the paused owner")
    await asyncio.to_thread(cluster.wait_ready)
    return stale, replaced_s or PAUSE_S, acknowledged


def _signal(node: LocalNode, number: int) -> None:
    assert node.process is not None
    node.process.send_signal(number)


async def _put(
    session: aiohttp.ClientSession, node: LocalNode, link: str, timeout_s: float
) -> int | None:
    headers = {"Docstore-Timeout-Ms": str(int(timeout_s * 1000))}
    async with session.put(node.url + link, json={"t": time.time()}, headers=headers) as answer:
        page = await answer.json(content_type=None)
        return int(page["documentVersion"]) if answer.status < 300 else None


async def _get(
    session: aiohttp.ClientSession, node: LocalNode, link: str, at_least: int
) -> str | None:
    """Return what is wrong with a read: older than what was acknowledged before it began."""
    try:
        async with session.get(node.url + link) as answer:
            page = await answer.json(content_type=None)
            if answer.status == 200 and page["documentVersion"] < at_least:
                return f"{link}: read v{page['documentVersion']} after v{at_least} was acknowledged"
    except (aiohttp.ClientError, TimeoutError):
        return None
    return None
