"""Parts of every line: a group of five behind proxies, clients, and the result."""

import asyncio
import contextlib
import itertools
import random
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from docstore.client.local import LocalNode
from docstore.model.slots import slot_of
from tests.chaos import report
from tests.chaos.arena import REPAIR_S, SLOTS, Arena, mount_small_disk, unmount
from tests.chaos.mix import FACTORY, Mixer, Op, Story, declare
from tests.chaos.verdict import one_history
from tests.docstore.kafka.clients.listening import listen
from tests.docstore.watching import page_of

WHOLE_S = 86_400.0
"""A retention longer than any line: the history that is judged begins at version 0."""


@dataclass(frozen=True, slots=True)
class Seen:
    """Result of a line."""

    holds: bool
    figures: str
    problems: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Line:
    """One promise, and how to check it."""

    number: str
    promise: str
    play: Callable[["Stage"], Awaitable[Seen]]
    copies: str = "3"
    size: int = 5
    spares: int = 0
    slots: str = SLOTS
    retention_s: float | None = None
    """Age at which old versions and tombstones are trimmed; None: that of torture."""
    repair_s: float = REPAIR_S
    """Period in which all rows are verified and compared."""
    small_disk: str = ""
    """Size of the file system of the last node's own, with its unit."""
    kafka: bool = False
    """Whether the nodes listen for clients of Kafka."""


LINES: dict[str, Line] = {}


def line(number: str, promise: str, **needs: Any) -> Callable[..., Any]:
    """Enter a function under its number."""

    def enter(play: Callable[["Stage"], Awaitable[Seen]]) -> Callable[["Stage"], Awaitable[Seen]]:
        LINES[number] = Line(number, promise, play, **needs)
        return play

    return enter


@dataclass(slots=True)
class Stage:
    """A group that serves, and clients for it."""

    arena: Arena
    session: aiohttp.ClientSession
    share: float
    """Part of a line that is played: 1 for all of it."""
    kafka: str = ""
    """Where the nodes listen for clients of Kafka: HOST:PORT,HOST:PORT,..."""
    clients: int = 0
    links: set[str] = field(default_factory=set)

    def share_of(self, count: int) -> int:
        """Return the share of a number, one at least."""
        return max(1, round(count * self.share))

    def others(self, *nodes: LocalNode) -> list[LocalNode]:
        """Return the members that are none of these."""
        return [node for node in self.arena.members if node not in nodes]

    async def owned(self, by: LocalNode, count: int, *, name: str) -> tuple[list[str], list[str]]:
        """Return `count` links that a node owns, and as many that it does not own.

        A node that was down must get slots back first.
        """
        page: dict[str, Any] = {}

        def owns() -> bool:
            page.update(page_of(f"{by.url}/core/node-selectors/default"))
            return any(entry["owner"] == by.name for entry in page.get("table", []))

        await self.arena.wait(owns, f"{by.name} owns something")
        owners = {entry["slot"]: entry["owner"] for entry in page["table"]}
        its: list[str] = []
        not_its: list[str] = []
        for number in itertools.count():
            link = f"{FACTORY}/{name}-{number}"
            (its if owners[slot_of(link, page["slots"])] == by.name else not_its).append(link)
            if min(len(its), len(not_its)) >= count:
                break
        return its[:count], not_its[:count]

    @contextlib.asynccontextmanager
    async def load(
        self, nodes: list[LocalNode], links: list[str], clients: int = 6
    ) -> AsyncIterator[Story]:
        """Let clients put, append, compare and set, delete and read, meanwhile."""
        story, began = Story(), time.monotonic()
        rng = self.arena.rng
        mixers = []
        for _ in range(clients):
            self.clients += 1
            own = random.Random(rng.random())
            mixers.append(Mixer(f"k{self.clients}", nodes, links, self.session, story, own, began))
        tasks = [asyncio.create_task(mixer.run()) for mixer in mixers]
        try:
            yield story
        finally:
            for mixer in mixers:
                mixer.stop = True
            await asyncio.gather(*tasks)

    async def judged(self, links: list[str], ops: list[Op]) -> list[str]:
        """Return the problems of the answers about these documents."""
        return await one_history(self.arena, self.session, links, ops)


def answered(ops: Sequence[Op], start: float, end: float) -> int:
    """Return how many operations got an answer in a span of time."""
    return sum(start <= op.end < end and 200 <= op.status < 500 for op in ops)


async def first_write_s(
    stage: Stage, links: Sequence[str], nodes: Sequence[LocalNode], *, since: float
) -> float:
    """Return after how long each of these documents has taken a write, by the slowest of them."""

    async def first(link: str) -> float:
        number = 0
        while time.monotonic() - since < 30:
            number += 1
            node = nodes[number % len(nodes)]
            with contextlib.suppress(aiohttp.ClientError, TimeoutError):
                body = {"uid": f"first-{since}-{link}-{number}"}
                headers = {"Docstore-Timeout-Ms": "1000"}
                async with stage.session.put(node.url + link, json=body, headers=headers) as answer:
                    await answer.read()
                    if answer.status < 300:
                        return time.monotonic() - since
            await asyncio.sleep(0.02)
        return 30.0

    return max(await asyncio.gather(*(first(link) for link in links)))


async def play(each: Line, seed: int, share: float) -> Seen:
    """Set a group up, play a line on it, and take it down."""
    with tempfile.TemporaryDirectory(prefix="docstore-line-", dir="/var/tmp") as directory:
        rng = random.Random(seed)
        arena = Arena(
            Path(directory), each.size, each.spares, rng, each.copies, each.repair_s, each.slots
        )
        if each.retention_s is not None:
            arena.retention_s = arena.retries_s = each.retention_s
        small = arena.members[-1].data
        if each.small_disk and not mount_small_disk(small, each.small_disk):
            return Seen(False, "not played: no file system may be mounted here")
        timeout = aiohttp.ClientTimeout(total=30)
        connector = aiohttp.TCPConnector(limit=0)
        async with (
            aiohttp.ClientSession(timeout=timeout, connector=connector) as session,
            contextlib.AsyncExitStack() as claims,
        ):
            kafka = claims.enter_context(listen(arena.cluster)) if each.kafka else ""
            try:
                await arena.start()
                await declare(session, arena.members[0].url)
                return await each.play(Stage(arena, session, share, kafka))
            except TimeoutError as error:
                report.keep_logs(Path(directory), seed, arena.cluster.nodes)
                return Seen(False, f"not played to its end: {error}", [str(error)])
            finally:
                await arena.stop()
                if each.small_disk:
                    unmount(small)
