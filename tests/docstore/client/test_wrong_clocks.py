"""Scenario L23: wall clocks of nodes and of the holder jump by an hour, without effect on leases.

No document expires early either, whichever node's clock is wrong.
"""

import asyncio
import itertools
import json
import time
from collections.abc import Callable, Iterator, Sequence
from email.utils import parsedate_to_datetime

import pytest

from docstore.client import Client, LocalCluster
from docstore.client.boot_clock import boot_clock
from docstore.client.leases import Lease
from docstore.client.local import LocalNode
from docstore.ownership.proof import RATE_ERROR
from tests.docstore.client.test_leases import NOWHERE, ended

HOUR_S = 3_600.0
TTL_S = 2.0
STEPS = (
    (HOUR_S, HOUR_S, HOUR_S),
    (-HOUR_S, -HOUR_S, -HOUR_S),
    (HOUR_S, -HOUR_S, 0.0),
    (-HOUR_S, 0.0, HOUR_S),
)
"""The error of each node's clock, in seconds."""
SHOWN_S = 5.0
"""The tolerance of the clock that a node shows."""
PATIENCE_S = 30.0

clock, wall = boot_clock(), time.time


class Clocks:
    """The wall clocks of the nodes of a group."""

    def __init__(self, nodes: LocalCluster) -> None:
        self._nodes = nodes.nodes
        for node in self._nodes:
            control = node.data.with_suffix(".switches")
            node.command = ("-m", "tests.chaos.node", str(control))
        self._set((0.0,) * len(self._nodes))

    def _set(self, hours: Sequence[float]) -> None:
        for node, off_s in zip(self._nodes, hours, strict=True):
            node.data.with_suffix(".switches").write_text(json.dumps({"clock_s": off_s}))

    async def jump(self, offsets: Sequence[float]) -> None:
        """Set the clocks; return when each node shows its new time."""
        self._set(offsets)
        for node, off_s in zip(self._nodes, offsets, strict=True):
            await until(lambda node=node, off_s=off_s: _shows(node, off_s))


async def _shows(node: LocalNode, off_s: float) -> bool:
    async with Client([node.url]) as client:
        _, headers, _ = await client.request("GET", "/health/live")
    shown = parsedate_to_datetime(headers["Date"]).timestamp()
    return abs(shown - off_s - wall()) < SHOWN_S


async def until(condition: Callable[[], object]) -> None:
    """Return when a condition holds; it may be a coroutine."""
    deadline = clock() + PATIENCE_S
    while True:
        found = condition()
        if await found if asyncio.iscoroutine(found) else found:
            return
        assert clock() < deadline, "the condition did not hold in time"
        await asyncio.sleep(0.02)


async def _believed(lease: Lease) -> float:
    """Wait until the holder does not believe in its lease; return the clock at that moment."""
    while lease.held():
        await asyncio.sleep(0.005)
    return clock()


@pytest.fixture(scope="module")
def cluster() -> Iterator[tuple[LocalCluster, Clocks]]:
    nodes = LocalCluster(3)
    clocks = Clocks(nodes)
    with nodes:
        yield nodes, clocks


@pytest.fixture(autouse=True)
def _of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the holder's wall clock jump at each read."""
    hours = itertools.cycle((HOUR_S, -HOUR_S))
    monkeypatch.setattr(time, "time", lambda: wall() + next(hours))


@pytest.mark.thorough
async def test_a_clock_an_hour_ahead_expires_no_young_document_while_a_node_is_down(
    cluster: tuple[LocalCluster, Clocks],
) -> None:
    """Run first: the last clock that a dead node showed counts, and here it is right."""
    nodes, clocks = cluster
    ahead, dead = nodes.nodes[0], nodes.nodes[2]
    await clocks.jump((HOUR_S, 0.0, 0.0))
    async with Client(nodes.urls[:2]) as client:
        await client.declare("/passing")
        nodes.kill(dead)
        for name, left_s in (("young", HOUR_S / 2), ("over", -1.0)):
            until_us = int((wall() + left_s) * 1e6)
            for number in range(24):
                state = {"documentExpirationTimeMicros": until_us}
                await client.put(f"/passing/{name}-{number}", state)

        async def left(name: str) -> int:
            return sum([f"/{name}-" in link async for link in client.links("/passing")])

        async def all_over_are_gone() -> bool:
            return await left("over") == 0

        assert nodes.owner_of("/passing/young-0") in (ahead, nodes.nodes[1])
        await until(all_over_are_gone)
        assert await left("young") == 24
    nodes.start(dead)
    nodes.wait_ready()


@pytest.mark.thorough
async def test_l23_n11_a_holder_keeps_its_lock_when_clocks_jump(
    cluster: tuple[LocalCluster, Clocks],
) -> None:
    nodes, clocks = cluster
    async with Client(nodes.urls) as client, Client(nodes.urls) as other:
        await client.declare("/notes")
        lease, next_one = client.lease(ttl_s=TTL_S), other.lock("billing", ttl_s=TTL_S)
        async with (
            lease,
            client.lock("billing", ttl_s=TTL_S) as lock,
            client.role("pricing", session_s=TTL_S) as role,
        ):
            await client.put("/notes/mine", {"a": 1}, lease=lease)
            await until(lambda: role.leads(0))
            tokens = lock.token, role.token(0)
            waiting = asyncio.create_task(next_one.__aenter__())
            for offsets in STEPS:
                await clocks.jump(offsets)
                end = clock() + TTL_S * 1.2
                while clock() < end or not (lease.held() and lock.held() and role.leads(0)):
                    assert not lease.lost.is_set()
                    assert not waiting.done()
                    await asyncio.sleep(0.02)
            assert (lock.token, role.token(0)) == tokens
            assert (await other.get("/notes/mine")).version == 0
        async with asyncio.timeout(PATIENCE_S):
            await waiting
        assert next_one.token > tokens[0]
        await next_one.__aexit__(None, None, None)


@pytest.mark.thorough
@pytest.mark.parametrize("offsets", STEPS)
async def test_l23_jumping_clocks_do_not_change_when_a_disconnected_holder_stops(
    cluster: tuple[LocalCluster, Clocks], offsets: Sequence[float]
) -> None:
    nodes, clocks = cluster
    await clocks.jump((0.0,) * 3)
    async with Client(nodes.urls) as client, Client(nodes.urls) as watcher:
        lease = client.lease(ttl_s=TTL_S)
        await lease.grant()
        ending = asyncio.ensure_future(ended(watcher, lease.link))
        await until(lambda: lease.left_s() > 0.5)
        client.urls[:] = [NOWHERE]
        sent_at = clock() + lease.left_s() - TTL_S * 2 / 3
        believing = asyncio.ensure_future(_believed(lease))
        await clocks.jump(offsets)
        async with asyncio.timeout(PATIENCE_S):
            stopped_at, ended_at = await believing, await ending
    assert sent_at + TTL_S * 2 / 3 < stopped_at < ended_at
    assert sent_at + TTL_S / (1 + RATE_ERROR) <= ended_at <= sent_at + TTL_S * 2 + 1.0
