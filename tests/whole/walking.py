"""Walks through a factory, page by page, while documents come and go and nodes fail.

A document that was there from a walk's beginning to its end is in exactly one of its pages; one
that was never there meanwhile is in none. A count lies between those two bounds.
"""

import asyncio
from collections.abc import Mapping
from random import Random
from typing import Any

from docstore.model.service import LEVELS
from tests.chaos.lives import Life, wrong_count, wrong_walk
from tests.whole.faults import Nemesis
from tests.whole.run import FAULTS_S, HEALED_S, Run

STABLE = [f"/notes/s{number:02}" for number in range(24)]
LIMITS = (1, 3, 7, 40)
QUIET_S = 5.0


class Walking(Run):
    """Writers, walkers and counters, in one world."""

    strikes = True
    is_converging = False
    """Whether updates that one node has acknowledged reach the others a while later."""

    def __init__(self, *about: Any) -> None:
        super().__init__(*about)
        self.lives = [Life(link, -1.0, -1.0) for link in STABLE]
        self.walks = self.counts = self.pages = 0

    @property
    def operations(self) -> int:
        return self.pages + self.counts

    async def main(self) -> None:
        for host in self.hosts:
            self.start(host)
        await self._declared()
        for link in STABLE:
            assert await self._insist("PUT", link, {"n": 1}, self.rng) in (200, 201)
        rngs = [Random(self.rng.random()) for _ in range(6)]
        clients = [
            *(self._write(number, rng) for number, rng in enumerate(rngs[:2])),
            *(self._walk(rng) for rng in rngs[2:5]),
            self._count(rngs[5]),
        ]
        tasks = [asyncio.create_task(client) for client in clients]
        if self.strikes:
            nemesis = Nemesis(self)
            striking = asyncio.create_task(nemesis.run())
            await asyncio.sleep(FAULTS_S)
            nemesis.over = True
            await striking
            nemesis.heal()
        await asyncio.gather(*tasks)

    def _is_over(self) -> bool:
        return self.loop.time() > (FAULTS_S + HEALED_S / 2 if self.strikes else QUIET_S)

    async def _insist(self, verb: str, path: str, body: Any, rng: Random) -> int:
        """Retry at any node, until the answer is no 503 or 504, or the run is over."""
        status = 0
        while status in (0, 503, 504) and not self._is_over():
            status, _ = await self._told(rng.choice(self.hosts), verb, path, body)
            await asyncio.sleep(0.02)
        return status

    async def _write(self, writer: int, rng: Random) -> None:
        """Create, change and delete documents, each link once."""
        number = 0
        while not self._is_over():
            number += 1
            # Among the stable ones, and before and behind them all.
            place = rng.choice(["a", *(link[len("/notes/") :] for link in STABLE), "z"])
            life = Life(f"/notes/{place}.{writer}.{number}", born_from=self.loop.time())
            self.lives.append(life)
            status = await self._insist("PUT", life.link, {"n": number}, rng)
            if status in (200, 201) and not self.is_converging:
                life.born_by = self.loop.time()
            await self._told(rng.choice(self.hosts), "PUT", rng.choice(STABLE), {"n": number})
            if rng.random() < 0.7:
                life.gone_from = self.loop.time()
                # An earlier attempt may have deleted it: 404 counts as success.
                status = await self._insist("DELETE", life.link, None, rng)
                if status in (200, 204, 404) and not self.is_converging:
                    life.gone_by = self.loop.time()

    async def _walk(self, rng: Random) -> None:
        """Walk from page to page, each of another node; retry rejected requests."""
        while not self._is_over():
            expand = rng.choice(("", "&expand"))
            path: str | None = f"/notes?$limit={rng.choice(LIMITS)}{expand}"
            start, links = self.loop.time(), list[str]()
            while path and not self._is_over():
                status, page = await self._told(rng.choice(self.hosts), "GET", path)
                if status == 200:
                    self.pages += 1
                    links += page["documentLinks"]
                    path = page.get("nextPageLink")
                else:
                    await asyncio.sleep(0.05)
            if path is None:
                self.walks += 1
                end = self.loop.time()
                self.outcome.problems += wrong_walk(self.lives, links, start, end)

    async def _count(self, rng: Random) -> None:
        while not self._is_over():
            start = self.loop.time()
            status, page = await self._told(
                rng.choice(self.hosts), "GET", "/notes?$limit=1&$count=true"
            )
            end = self.loop.time()
            if status == 200:
                self.counts += 1
                count = page["documentCount"]
                self.outcome.problems += wrong_count(self.lives, count, start, end)
            await asyncio.sleep(0.1)


class WalkingAtLevel2(Walking):
    """Documents that the first live replica writes and the others receive, without faults."""

    declaration: Mapping[str, Any] = {"options": LEVELS[1]}
    strikes = False
    is_converging = True


class WalkingAtLevel1(WalkingAtLevel2):
    """Documents that every node writes on its own."""

    declaration: Mapping[str, Any] = {"options": LEVELS[0]}
