"""Walks through a factory, page by page, while documents come and go and nodes fail.

A document that was there from a walk's beginning to its end is in exactly one of its pages; one
that was never there meanwhile is in none. A count lies between those two bounds.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.sim.checkers import INFINITE
from tests.whole.faults import Nemesis
from tests.whole.run import FAULTS_S, HEALED_S, PATIENCE_S, Host, Run

STABLE = [f"/notes/s{number:02}" for number in range(24)]
LIMITS = (1, 3, 7, 40)


@dataclass(slots=True)
class Life:
    """When a document may have been there, and when it surely was."""

    link: str
    born_from: float = INFINITE
    born_by: float = INFINITE
    gone_from: float = INFINITE
    gone_by: float = INFINITE

    def was_there(self, start: float, end: float) -> bool:
        """Say whether it was there all the time."""
        return self.born_by <= start and self.gone_from >= end

    def may_have_been(self, start: float, end: float) -> bool:
        """Say whether it may have been there at some time."""
        return self.born_from <= end and self.gone_by >= start


class Walking(Run):
    """Writers, walkers and counters, in one world."""

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
            assert await self._until_told("PUT", link, {"n": 1}, self.rng) in (200, 201)
        rngs = [Random(self.rng.random()) for _ in range(6)]
        clients = [
            *(self._write(number, rng) for number, rng in enumerate(rngs[:2])),
            *(self._walk(rng) for rng in rngs[2:5]),
            self._count(rngs[5]),
        ]
        tasks = [asyncio.create_task(client) for client in clients]
        nemesis = Nemesis(self)
        striking = asyncio.create_task(nemesis.run())
        await asyncio.sleep(FAULTS_S)
        nemesis.over = True
        await striking
        nemesis.heal()
        await asyncio.gather(*tasks)

    def _is_over(self) -> bool:
        return self.loop.time() > FAULTS_S + HEALED_S / 2

    async def _told(self, host: Host, verb: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Return (status, page) of one request, (0, None) when nothing is heard."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                status, _, page = await self._ask(
                    host, verb, path, body, {"Docstore-Timeout-Ms": "2000"}
                )
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            return 0, None
        if status == 500:
            self.outcome.problems.append(f"500 for {verb} {path}: {page!r}")
        return status, page

    async def _until_told(self, verb: str, path: str, body: Any, rng: Random) -> int:
        """Ask again, of anybody, until the answer is no 503 or 504, or all is over."""
        status = 0
        while status in (0, 503, 504) and not self._is_over():
            status, _ = await self._told(rng.choice(self.hosts), verb, path, body)
            await asyncio.sleep(0.02)
        return status

    async def _write(self, writer: int, rng: Random) -> None:
        """Have documents come, change and go, each link once."""
        number = 0
        while not self._is_over():
            number += 1
            # Among the stable ones, and before and behind them all.
            place = rng.choice(["a", *(link[len("/notes/") :] for link in STABLE), "z"])
            life = Life(f"/notes/{place}.{writer}.{number}", born_from=self.loop.time())
            self.lives.append(life)
            if await self._until_told("PUT", life.link, {"n": number}, rng) in (200, 201):
                life.born_by = self.loop.time()
            await self._told(rng.choice(self.hosts), "PUT", rng.choice(STABLE), {"n": number})
            if rng.random() < 0.7:
                life.gone_from = self.loop.time()
                # An earlier attempt may have been the one that did it: 404 is as good.
                if await self._until_told("DELETE", life.link, None, rng) in (200, 204, 404):
                    life.gone_by = self.loop.time()

    async def _walk(self, rng: Random) -> None:
        """Walk from page to page, each of another node; ask again for what is refused."""
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
                self.outcome.problems += self._wrong(links, start, self.loop.time())

    def _wrong(self, links: list[str], start: float, end: float) -> Iterator[str]:
        seen = Counter(links)
        for life in self.lives:
            times = seen.pop(life.link, 0)
            if times != 1 and life.was_there(start, end):
                yield f"{life.link} was {times} times in the walk from {start} to {end}"
            elif times and not life.may_have_been(start, end):
                yield f"{life.link} was not there when it was listed, {start} to {end}: {life}"
        yield from (f"{link} is nobody's" for link in seen)
        if links != sorted(links):
            yield "a walk is not in order"

    async def _count(self, rng: Random) -> None:
        while not self._is_over():
            start = self.loop.time()
            status, page = await self._told(
                rng.choice(self.hosts), "GET", "/notes?$limit=1&$count=true"
            )
            end = self.loop.time()
            if status == 200:
                self.counts += 1
                least = sum(life.was_there(start, end) for life in self.lives)
                most = sum(life.may_have_been(start, end) for life in self.lives)
                if not least <= page["documentCount"] <= most:
                    found = f"{page['documentCount']} documents, not {least} to {most}"
                    self.outcome.problems.append(f"{found}, {start} to {end}")
            await asyncio.sleep(0.1)
