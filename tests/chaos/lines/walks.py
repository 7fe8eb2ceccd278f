"""Walks through a factory while documents come and go, and owners are killed and drained.

The promise: a document that exists from a walk's beginning to its end is in exactly one page; one
that never existed meanwhile is in none; `$count` lies between those. And a node that is left alone
of three answers within two seconds that it cannot list.
"""

import asyncio
import itertools
import random
import time
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from tests.chaos.faults import Nemesis
from tests.chaos.lines.stage import Seen, Stage, line
from tests.chaos.lives import Life, wrong_count, wrong_walk
from tests.chaos.mix import FACTORY

WALKS, PAGES = 100, (20, 50, 256)
STABLE, WRITERS = 600, 8
WRITES_A_SECOND = 200
STRIKE_EVERY_S = 3.0
ALONE_S_MAX = 2.0


@dataclass(slots=True)
class Walks:
    """Writers, walkers and a counter, and the problems of their answers."""

    stage: Stage
    lives: list[Life] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    writes: int = 0
    walks: int = 0
    counts: int = 0
    stop: bool = False

    async def ask(self, verb: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Return (status, page) from any node; status 0 without an answer."""
        url = self.stage.arena.rng.choice(self.stage.arena.members).url + path
        try:
            async with self.stage.session.request(verb, url, json=body) as answer:
                return answer.status, await answer.json()
        except (aiohttp.ClientError, TimeoutError):
            return 0, None

    async def insist(self, verb: str, path: str, body: Any = None) -> int:
        """Retry until the answer is not a temporary rejection."""
        while True:
            status, _ = await self.ask(verb, path, body)
            self.writes += status in (200, 201)
            if status not in (0, 503, 504):
                return status
            await asyncio.sleep(0.02)

    async def fill(self) -> None:
        """Put the documents that stay."""
        for number in range(STABLE):
            life = Life(f"{FACTORY}/s{number:04}")
            self.lives.append(life)
            assert await self.insist("PUT", life.link, {"n": 0}) in (200, 201)
            life.born_from = life.born_by = time.monotonic()

    async def write(self, writer: int) -> None:
        """Create, update and delete documents, among those that stay and around them."""
        rng = random.Random(writer)
        for number in itertools.count():
            begun = time.monotonic()
            place = rng.choice(("a", "s", "z", f"s{rng.randrange(STABLE):04}."))
            life = Life(f"{FACTORY}/{place}{writer}-{number}", begun)
            self.lives.append(life)
            assert await self.insist("PUT", life.link, {"n": number}) in (200, 201)
            life.born_by = time.monotonic()
            await self.insist("PUT", f"{FACTORY}/s{rng.randrange(STABLE):04}", {"n": number})
            if rng.random() < 0.8:
                life.gone_from = time.monotonic()
                await self.insist("DELETE", life.link)
                life.gone_by = time.monotonic()
            if self.stop:
                return
            pause_s = begun + 3 * WRITERS / WRITES_A_SECOND - time.monotonic()
            await asyncio.sleep(max(0.0, pause_s))

    async def walk(self, limit: int, walks: int) -> None:
        """Go from page to page, every other time with the documents themselves."""
        for number in range(walks):
            path: str | None = f"{FACTORY}?$limit={limit}" + ("&expand" if number % 2 else "")
            start, links = time.monotonic(), list[str]()
            while path is not None:
                status, page = await self.ask("GET", path)
                if status == 200:
                    links += page["documentLinks"]
                    path = page.get("nextPageLink")
                else:
                    await asyncio.sleep(0.05)
            self.problems += wrong_walk(self.lives, links, start, time.monotonic())
            self.walks += 1

    async def count(self) -> None:
        """Count again and again."""
        while not self.stop:
            start = time.monotonic()
            status, page = await self.ask("GET", f"{FACTORY}?$limit=1&$count=true")
            if status == 200:
                count, end = page["documentCount"], time.monotonic()
                self.problems += wrong_count(self.lives, count, start, end)
                self.counts += 1
            await asyncio.sleep(0.1)

    async def strike(self) -> int:
        """Kill and drain nodes in turn, each when all are healthy again."""
        nemesis = Nemesis(self.stage.arena, None)
        strikes = 0
        while not self.stop:
            await asyncio.sleep(STRIKE_EVERY_S)
            await (nemesis.do_stop() if strikes % 2 else nemesis.do_kill())
            await self.stage.arena.recover()
            strikes += 1
        return strikes


async def _walked(stage: Stage) -> Seen:
    walks = Walks(stage)
    await walks.fill()
    begun, walks.writes = time.monotonic(), 0
    writing = [asyncio.create_task(walks.write(number)) for number in range(WRITERS)]
    counting, striking = asyncio.create_task(walks.count()), asyncio.create_task(walks.strike())
    each = -(-stage.share_of(WALKS) // len(PAGES))
    await asyncio.gather(*(walks.walk(limit, each) for limit in PAGES))
    walks.stop = True
    await asyncio.gather(counting, *writing)
    took_s = time.monotonic() - begun
    strikes = await striking
    figures = (
        f"{walks.walks} walks, {walks.counts} counts, {walks.writes / took_s:.0f} writes a second,"
        f" {strikes} kills and drains"
    )
    return Seen(not walks.problems, figures, walks.problems)


@line("L01", "100 walks of one node under writers and restarts: every stable document exactly once",
      size=1, copies="1", slots="1024")  # fmt: skip
async def one_node(stage: Stage) -> Seen:
    """Walk on one node."""
    return await _walked(stage)


@line("L02", "the same of three nodes, owners killed and drained", size=3, slots="1024")
async def three_nodes(stage: Stage) -> Seen:
    """Walk on three nodes; then leave one of them alone."""
    seen = await _walked(stage)
    await stage.arena.recover()
    survivor, *others = stage.arena.members
    for other in others:
        await stage.arena.kill(other)
    begun = time.monotonic()
    async with stage.session.get(f"{survivor.url}{FACTORY}?$count=true") as answer:
        status = answer.status
    took_s = time.monotonic() - begun
    figures = f"{seen.figures}; alone {status} after {took_s:.2f} s"
    alone = status == 503 and took_s <= ALONE_S_MAX
    return Seen(seen.holds and alone, figures, seen.problems)


@line("L03", "the same of three nodes with one slot", size=3, slots="1")
async def one_slot(stage: Stage) -> Seen:
    """Walk through a single log."""
    return await _walked(stage)
