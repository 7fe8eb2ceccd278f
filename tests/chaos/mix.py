"""Clients that put, append, compare and set, delete and read; their answers, with times."""

import asyncio
import itertools
import random
import time
from collections import Counter
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from docstore.client.local import LocalNode
from tests.sim.checkers import INFINITE, Event, by_version, by_zones

DEADLINE_S = 5.0
SLACK_S = 3.0
EXPIRES_S = 1_800.0
"""Expiry of documents: longer than any chapter, but a clock may be ahead by more."""
FACTORY = "/chaos"
LEVEL_3 = ["PERSISTENCE", "REPLICATION", "OWNER_SELECTION", "ENFORCE_QUORUM"]
VERBS = {"put": 4, "append": 5, "cas": 3, "delete": 1, "read": 9}


async def declare(session: aiohttp.ClientSession, url: str) -> None:
    """Declare the factory that the clients write to; it may exist."""
    body = {"path": FACTORY, "options": LEVEL_3, "putCreates": True}
    async with session.post(f"{url}/core/factories", json=body) as answer:
        assert answer.status in (200, 201, 409), await answer.text()


@dataclass(slots=True)
class Op:
    """One operation. status 0: the connection broke, its fate is unknown."""

    kind: str
    link: str
    uid: str
    node: str
    start: float
    end: float = INFINITE
    status: int = 0
    version: int | None = None
    expected: int | None = None
    """The version that a compare-and-set was based on."""


@dataclass(slots=True)
class Pause:
    """A pause of a node's process. No node can answer by a deadline within its pause."""

    node: str
    begun: float
    ended: float = INFINITE

    def part_of(self, op: Op, now: float) -> float:
        """Return for how long its node was paused during an operation that is answered now."""
        if self.node != op.node:
            return 0.0
        return max(0.0, min(self.ended, now) - max(self.begun, op.start))


@dataclass(slots=True)
class Story:
    """All operations of a chapter, and problems that were found at once."""

    ops: list[Op] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    succeeded: Counter[int] = field(default_factory=Counter)
    """Tenth of a second since the start of the run -> operations that were answered."""
    failed: Counter[int] = field(default_factory=Counter)
    pauses: list[Pause] = field(default_factory=list)

    def hold_to_deadline(self, op: Op, now: float) -> None:
        """Note an answer that arrives now, if it is too late."""
        took = now - op.start - sum(pause.part_of(op, now) for pause in self.pauses)
        if took > DEADLINE_S + SLACK_S:
            self.errors.append(
                f"{op.kind} {op.link} through {op.node} was answered {op.status} after {took:.1f} s"
            )


class Mixer:
    """One client, one operation after the other, through random nodes."""

    def __init__(
        self,
        name: str,
        nodes: list[LocalNode],
        links: list[str],
        session: aiohttp.ClientSession,
        story: Story,
        rng: random.Random,
        began: float,
    ) -> None:
        self._name, self._nodes, self._links = name, nodes, links
        self._session, self._story, self._rng, self._began = session, story, rng, began
        self._numbers = itertools.count()
        self._tags: dict[str, tuple[str, int]] = {}
        """link -> entity tag and version that this client saw last."""
        self.stop = False

    async def run(self) -> None:
        """Work until it is stopped."""
        while not self.stop:
            await self._one()
            await asyncio.sleep(self._rng.random() * 0.02)

    async def _one(self) -> None:
        kind = self._rng.choices(list(VERBS), list(VERBS.values()))[0]
        link = self._rng.choice(self._links)
        if kind == "cas" and link not in self._tags:
            kind = "put"
        node = self._rng.choice(self._nodes)
        [op] = self._begun(kind, [link], node)
        await self._seen([op], self._ask(op, node))

    def _begun(self, kind: str, links: Sequence[str], node: LocalNode) -> list[Op]:
        """Return the operations of one request, and add them to the story."""
        uid, start = f"{self._name}.{next(self._numbers)}", time.monotonic()
        ops = [Op(kind, link, uid, node.name, start) for link in links]
        self._story.ops += ops
        return ops

    async def _seen(self, ops: Sequence[Op], asking: Awaitable[None]) -> None:
        """Wait for the answer to a request, and note when it arrived."""
        try:
            await asking
        except (aiohttp.ClientError, TimeoutError, ConnectionError):
            await asyncio.sleep(0.05)
        ended, status = time.monotonic(), ops[0].status
        for op in ops:
            op.end = ended if status else INFINITE
        # An answer that a document is absent, or not as expected, counts as well.
        counts = self._story.succeeded if 200 <= status < 500 else self._story.failed
        counts[int((ended - self._began) * 10)] += 1
        if status:
            self._story.hold_to_deadline(ops[0], ended)

    async def _ask(self, op: Op, node: LocalNode) -> None:
        headers = {"Docstore-Timeout-Ms": str(int(DEADLINE_S * 1000))}
        verb = {"read": "GET", "delete": "DELETE", "append": "PATCH"}.get(op.kind, "PUT")
        expires_us = int((time.time() + EXPIRES_S) * 1e6)
        body: Any = {"uid": op.uid, "documentExpirationTimeMicros": expires_us}
        if op.kind == "cas":
            headers["If-Match"], op.expected = self._tags[op.link]
        if verb in ("GET", "DELETE"):
            body = None
        async with self._session.request(
            verb, node.url + op.link, json=body, headers=headers
        ) as answer:
            page = await answer.json(content_type=None)
            version = answer.headers.get("Docstore-Version")
            if answer.status == 500:
                self._story.errors.append(f"500 for {op.kind} {op.link}: {str(page)[:200]}")
            if version is not None and answer.status in (200, 201, 404):
                op.version = int(version)
            elif answer.status == 404:
                op.version = -1
            if answer.status in (200, 201) and "ETag" in answer.headers:
                self._tags[op.link] = (answer.headers["ETag"], op.version or 0)
            op.status = answer.status


def judge(ops: list[Op], stored: dict[int, dict[str, Any]]) -> list[str]:
    """Return the problems of one document. `stored`: version -> document, all of them."""
    first = min(stored, default=0)  # More than 0 where old tombstones have left the slot a floor.
    if sorted(stored) != list(range(first, first + len(stored))):
        return [f"versions have holes: {sorted(stored)[:20]}"]
    wrong: list[str] = []
    made: dict[str, int] = {}
    for version, document in stored.items():
        if document["documentUpdateAction"] == "DELETE":
            continue
        uid = document["uid"]
        if uid in made:
            wrong.append(f"{uid} was applied twice: {made[uid]} and {version}")
        made[uid] = version
    events = []
    wrong += _deleted_unasked(ops, stored)
    for op in ops:
        wrong += _judge_one(op, stored, made)
        event = _event(op, made)
        if event is not None:
            events.append(event)
    known = {event.version for event in events if event.is_write}
    # A tombstone whose client got no answer has no writer among the events.
    events += [Event(True, 0.0, INFINITE, v) for v in stored if v not in known]
    if not wrong:
        wrong += [found for found in (by_version(events), by_zones(events)) if found]
    return wrong


def _deleted_unasked(ops: list[Op], stored: dict[int, dict[str, Any]]) -> list[str]:
    """Return deletions that no client may have asked for: a document expired too early."""
    gone = [v for v, each in stored.items() if each["documentUpdateAction"] == "DELETE"]
    asked = [op for op in ops if op.kind == "delete" and (op.status < 300 or op.status == 504)]
    return [f"deleted more often than asked for: {gone}"] if len(gone) > len(asked) else []


def _judge_one(op: Op, stored: dict[int, dict[str, Any]], made: dict[str, int]) -> list[str]:
    label = f"{op.kind} {op.uid} through {op.node}, answered {op.status}"
    succeeded = 200 <= op.status < 300
    if op.kind == "read":
        if succeeded and op.version not in stored:
            return [f"{label}: saw version {op.version}, which does not exist"]
        return []
    if op.kind == "delete":
        gone = stored.get(op.version if op.version is not None else -1, {})
        right = not succeeded or gone.get("documentUpdateAction") == "DELETE"
        return [] if right else [f"{label}: version {op.version} is no deletion"]
    version = made.get(op.uid)
    if succeeded and version != op.version:
        return [f"{label}: version {op.version} is lost, stored is {version}"]
    if op.kind == "cas" and version is not None and version != (op.expected or 0) + 1:
        return [f"{label}: based on {op.expected}, became {version}"]
    if not succeeded and op.status not in (0, 504) and version is not None:
        return [f"{label}: took effect as version {version}"]
    return []


def _event(op: Op, made: dict[str, int]) -> Event | None:
    """Return the operation for the checkers, None if it proves nothing."""
    succeeded = 200 <= op.status < 300
    if op.kind == "read":
        if op.status not in (200, 404) or op.version is None:
            return None
        return Event(False, op.start, op.end, op.version)
    version = op.version if succeeded else made.get(op.uid)
    if version is None:
        return None
    return Event(True, op.start, op.end if succeeded else INFINITE, version)
