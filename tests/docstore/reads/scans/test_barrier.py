"""A cut that no cause crosses: a write that follows another is in it only together with that."""

import asyncio
import signal
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from docstore.client import Client, RequestFailed, Unanswered, Unreachable
from docstore.client.local import LocalCluster
from docstore.model.slots import slot_of

CHAINS, CUTS, SLOTS = 6, 15, 1024


def pairs() -> list[tuple[str, str]]:
    """Return two documents for each chain, each in a slot of its own."""
    links = [f"/chain/{number}" for number in range(1000)]
    alone = list({slot_of(link, SLOTS): link for link in links}.values())
    return list(zip(alone[: 2 * CHAINS : 2], alone[1 : 2 * CHAINS : 2], strict=True))


class Chain:
    """Writes two documents in turn, each after the other is acknowledged."""

    def __init__(self, store: Client, first: str, second: str) -> None:
        self._store = store
        self.first, self.second = first, second
        self.steps = 0
        self.stop = False

    async def run(self) -> None:
        while not self.stop:
            for link, done in ((self.first, 0), (self.second, 1)):
                await self._until_there(link, self.steps // 2, self.steps % 2 == done)
                self.steps += 1

    async def _until_there(self, link: str, version: int, is_turn: bool) -> None:
        """Make a version once, although nodes are killed."""
        assert is_turn
        while True:
            try:
                if version == 0:
                    await self._store.json("PUT", link, {"n": 0}, If_None_Match="*")
                else:
                    state = {"n": version, "documentVersion": version - 1}
                    await self._store.put(link, state)
                return
            except (RequestFailed, Unanswered, Unreachable):
                try:
                    if (await self._store.get(link)).version >= version:
                        return
                except (RequestFailed, Unanswered, Unreachable):
                    await asyncio.sleep(0.05)


async def cut(session: aiohttp.ClientSession, url: str) -> list[int] | None:
    """Return how many rows of each slot are in a barrier's cut, None when there was no instant."""
    async with session.get(f"{url}/core/spark/plan?asOf=barrier") as answer:
        page: dict[str, Any] = await answer.json()
        assert answer.status in (200, 503), page
        return list(page["ends"]) if answer.status == 200 else None


async def test_no_cause_crosses_it_while_owners_change(tmp_path: Path) -> None:
    with LocalCluster(3, tmp_path, ["--slots", str(SLOTS)]) as cluster:
        async with Client(cluster.urls) as store, aiohttp.ClientSession() as session:
            await store.declare("/chain")
            chains = [Chain(store, first, second) for first, second in pairs()]
            tasks = [asyncio.create_task(chain.run()) for chain in chains]
            found = 0
            for number in range(CUTS):
                if number == CUTS // 3:  # Its slots go to others, and come back later.
                    process = cluster.nodes[2].process
                    assert process is not None
                    process.send_signal(signal.SIGTERM)
                if number == 2 * CUTS // 3:
                    process = cluster.nodes[2].process
                    assert process is not None
                    await asyncio.to_thread(process.wait, 20)
                    cluster.nodes[2].process = None
                    cluster.start(cluster.nodes[2])
                ends = await cut(session, cluster.urls[number % 2])
                if ends is None:
                    continue
                found += 1
                for chain in chains:
                    first, second = (ends[slot_of(x, SLOTS)] for x in (chain.first, chain.second))
                    assert first - second in (0, 1), (number, chain.first, first, second)
            for chain in chains:
                chain.stop = True
            await asyncio.gather(*tasks)
            assert found >= CUTS // 2
            assert sum(chain.steps for chain in chains) > 10 * CHAINS


async def test_a_barrier_without_an_instant_is_503_by_the_deadline(tmp_path: Path) -> None:
    with LocalCluster(3, tmp_path) as cluster:
        for node in cluster.nodes[1:]:
            cluster.kill(node)
        async with Client(cluster.urls[:1]) as store:
            asked = "/core/spark/plan?asOf=barrier"
            patience = {"Docstore-Timeout-Ms": "1500"}
            with pytest.raises(RequestFailed, match="503"):  # Asked once: the client asks again.
                await store.once(cluster.urls[0], "GET", asked, headers=patience, timeout_s=20)
