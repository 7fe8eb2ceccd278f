"""Sixteen clients write; everything they were told is kept, to be held against what is stored."""

import asyncio
import random
import time
from dataclasses import dataclass, field

import aiohttp

from docstore.client.local import LocalNode

DEADLINE_S = 10.0
SLACK_S = 1.0
FACTORY = "/chaos"


@dataclass(slots=True)
class Write:
    """One write and its outcome: status 0 means that the connection broke: its fate is unknown."""

    link: str
    uid: str
    verb: str
    started: float
    ended: float = 0.0
    status: int = 0
    version: int | None = None


@dataclass(slots=True)
class History:
    """What all clients did."""

    writes: list[Write] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


async def declare(session: aiohttp.ClientSession, url: str) -> None:
    """Declare the factory that the clients write to; it may exist."""
    body = {"path": FACTORY, "options": _LEVEL_3, "putCreates": True}
    async with session.post(f"{url}/core/factories", json=body) as answer:
        assert answer.status in (200, 201, 409), await answer.text()


_LEVEL_3 = ["PERSISTENCE", "REPLICATION", "OWNER_SELECTION", "ENFORCE_QUORUM"]


class Client:
    """Writes through random nodes, one after the other."""

    def __init__(
        self,
        name: str,
        nodes: list[LocalNode],
        session: aiohttp.ClientSession,
        history: History,
        rng: random.Random,
        documents: int,
    ) -> None:
        self._name = name
        self._nodes = nodes
        self._session = session
        self._history = history
        self._rng = rng
        self._documents = documents
        self._count = 0

    async def write(self, count: int) -> None:
        """Make `count` writes."""
        for _ in range(count):
            await self.write_one()

    async def write_one(self, link: str | None = None) -> Write:
        """Make one write and keep its outcome."""
        self._count += 1
        verb = self._rng.choices(["PUT", "PATCH", "DELETE"], [6, 5, 1])[0]
        link = link or f"{FACTORY}/d{self._rng.randrange(self._documents)}"
        write = Write(link, f"{self._name}-{self._count}", verb, time.monotonic())
        self._history.writes.append(write)
        node = self._rng.choice(self._nodes)
        body = None if verb == "DELETE" else {"uid": write.uid}
        headers = {"Docstore-Timeout-Ms": str(int(DEADLINE_S * 1000))}
        try:
            async with self._session.request(
                verb, node.url + link, json=body, headers=headers
            ) as answer:
                page = await answer.json(content_type=None)
                write.status = answer.status
                if answer.status < 300:
                    write.version = int(page["documentVersion"])
                elif answer.status == 500:
                    self._history.errors.append(f"500 for {verb} {link}")
        except (aiohttp.ClientError, TimeoutError, ConnectionError):
            await asyncio.sleep(0.02)  # The node is gone: as a client would, a moment later.
        write.ended = time.monotonic()
        if write.ended - write.started > DEADLINE_S + SLACK_S:
            took = write.ended - write.started
            self._history.errors.append(f"{verb} {link} was answered after {took:.1f} s")
        return write
