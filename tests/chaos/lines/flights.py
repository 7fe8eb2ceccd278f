"""Flights as records under faults: a producer, readers at all nodes, and the checks at the end.

Every record is numbered, and its key is the airport that the flight left from. The producer begins
a new round with all flights, under the same id, until it must stop. Meanwhile committed readers,
one a partition, use one node after the other, and the high watermarks are checked.
"""

import asyncio
import contextlib
import functools
import itertools
import json
import os
import random
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import orjson

from docstore.client import Client, RequestFailed, Unanswered, Unreachable
from docstore.client.errors import ClientError
from docstore.client.local import LocalNode
from docstore.client.producer import Position
from tests.chaos.lines.stage import Stage

TOPIC, PARTITIONS, MADE_UP = "flights", 6, 20_000
PAGE = f"/core/streams/{TOPIC}/partitions"
RATE, STEP = 1_000, 50
"""Records a second, and how many are queued at once."""
AIRPORTS = [f"{a}{b}" for a in ("AB", "CD", "EL", "FL", "SA") for b in "ACDEKLMNPRSTUVXY"]
POLL_S = 0.1

Mark = tuple[int, int]
"""(number of a round, number of a flight in it)."""


@functools.cache
def flights() -> list[dict[str, Any]]:
    """Return the JSON array that FLIGHTS names; without it, invented flights."""
    if path := os.environ.get("FLIGHTS"):
        return list(json.loads(Path(path).read_text()))
    rng = random.Random(11)
    return [
        {"delay": int(rng.gauss(8, 30)), "distance": rng.randrange(100, 4000),
         "origin": rng.choice(AIRPORTS), "destination": rng.choice(AIRPORTS)}
        for _ in range(MADE_UP)
    ]  # fmt: skip


@dataclass(slots=True)
class Flown:
    """Records sent, answers and records read."""

    told: Counter[str] = field(default_factory=Counter)
    """Outcomes of single requests of the producer."""
    rounds: int = 0
    places: dict[Mark, Position] = field(default_factory=dict)
    """Acknowledged record -> its place."""
    acks: dict[int, list[float]] = field(default_factory=lambda: defaultdict(list))
    """Partition -> times of its acknowledgements."""
    starts: list[tuple[float, float]] = field(default_factory=list)
    """Begin and end of each start of a producer."""
    seen: dict[tuple[int, int], Any] = field(default_factory=dict)
    """Partition and offset -> the mark that a committed reader got there."""
    reads: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    is_over: bool = False
    """Whether no round begins any more."""
    is_done: bool = False

    def see(self, partition: int, offset: int, value: Any) -> None:
        """Note a record that a committed reader got."""
        before = self.seen.setdefault((partition, offset), value["mark"])
        if before != value["mark"]:
            self.wrong.append(f"{partition}/{offset}: read {before}, then {value['mark']}")

    def away_s(self, partition: int, since: float, until: float) -> float:
        """Return the longest time in a span in which a partition acknowledged no record.

        Between two rounds there are no records to acknowledge.
        """
        times = [at for at in self.acks[partition] if since <= at < until]
        gaps = itertools.pairwise([since, *times, until])
        return max(
            (after - before for before, after in gaps
             if not any(begun < after and before < done for begun, done in self.starts)),
            default=0.0,
        )  # fmt: skip


Produce = Callable[[list[str], Flown], Coroutine[Any, Any, None]]


class CountingClient(Client):
    """The package's client, which counts the outcomes of its produce requests."""

    def __init__(self, urls: list[str], told: Counter[str]) -> None:
        super().__init__(urls)
        self._told = told

    async def once(self, url: str, method: str, *more: Any, **named: Any) -> Any:
        """Send one request to one node."""
        try:
            found = await super().once(url, method, *more, **named)
        except ClientError as error:
            if method == "POST":
                self._told[_fate(error)] += 1
            raise
        if method == "POST":
            self._told["answered"] += 1
        return found


def _fate(error: ClientError) -> str:
    match error:
        case RequestFailed():
            return f"{error.outcome}: {error.problem.get('errorCode', error.status)}"
        case Unanswered():
            return "unknown: no answer"
        case Unreachable():
            return "not_applied: no connection"
    return type(error).__name__


@contextlib.asynccontextmanager
async def flying(
    stage: Stage, produce: Produce | None = None, **topic: Any
) -> AsyncIterator[Flown]:
    """Create the topic; produce and read until the block ends, and to the end of the round.

    produce: appends rounds of flights; by default our own client does.
    """
    nodes = stage.arena.members
    asked = {"name": TOPIC, "partitions": PARTITIONS, "replicationFactor": 3, **topic}
    url, wait = f"{nodes[0].url}/core/streams", {"Prefer": "wait=30"}
    async with stage.session.post(url, json=asked, headers=wait) as made:
        assert made.status == 201, await made.text()
    flown = Flown()
    producing = asyncio.create_task((produce or _produce)([node.url for node in nodes], flown))
    watching = [asyncio.create_task(_watch(stage, flown))]
    watching += [asyncio.create_task(_tail(stage, flown, each)) for each in range(PARTITIONS)]
    try:
        while not flown.acks:
            assert not producing.done(), flown.wrong
            await asyncio.sleep(POLL_S)
        yield flown
        flown.is_over = True
        await producing
    finally:
        flown.is_done = True
        producing.cancel()
        await asyncio.gather(producing, *watching, return_exceptions=True)
        flown.wrong += [f"{each.exception()!r}" for each in watching if each.exception()]


async def _produce(urls: list[str], flown: Flown) -> None:
    """Produce all flights, again and again."""
    async with CountingClient(urls, flown.told) as client:
        try:
            while not flown.is_over:
                await _round(client, flown)
        except ClientError as error:
            flown.wrong.append(f"the producer gave up: {error!r}")


async def _round(client: Client, flown: Flown) -> None:
    number, flown.rounds = flown.rounds, flown.rounds + 1
    begun = time.monotonic()
    async with client.producer(TOPIC, id="flights") as producer:
        flown.starts.append((begun, time.monotonic()))
        begun = time.monotonic()
        for index, flight in enumerate(flights()):
            mark = (number, index)
            future = await producer.send(flight["origin"], {**flight, "mark": mark})
            future.add_done_callback(functools.partial(_acknowledged, flown, mark))
            if index % STEP == 0:
                ahead_s = begun + index / RATE - time.monotonic()
                await asyncio.sleep(max(0.0, ahead_s))


def _acknowledged(flown: Flown, mark: Mark, future: "asyncio.Future[Position]") -> None:
    if not future.cancelled():
        place = flown.places[mark] = future.result()
        flown.acks[place.partition].append(time.monotonic())


# Readers meanwhile


async def fetched(
    stage: Stage, node: LocalNode, partition: int, since: int | str, **more: Any
) -> tuple[int, Mapping[str, str], list[dict[str, Any]]]:
    """Return status, headers and records of a node's answer; status 0 without one."""
    headers = {"Accept": "application/x-ndjson", "Docstore-Timeout-Ms": "1000"}
    headers |= more.pop("headers", {})
    url = f"{node.url}{PAGE}/{partition}/records"
    timeout = aiohttp.ClientTimeout(total=1.5 + more.get("waitMs", 0) / 1000)
    try:
        async with stage.session.get(
            url, params={"from": since, **more}, headers=headers, timeout=timeout
        ) as answer:
            content = await answer.read()
            records = content.splitlines()[:-1] if answer.status == 200 else []
            return answer.status, answer.headers, [orjson.loads(each) for each in records]
    except (aiohttp.ClientError, TimeoutError):
        return 0, {}, []


async def _tail(stage: Stage, flown: Flown, partition: int) -> None:
    """Read committed records, of one node after the other; none may be left out."""
    at = turn = 0
    while not flown.is_done:
        turn += 1
        node = stage.arena.members[turn % len(stage.arena.members)]
        status, _, records = await fetched(stage, node, partition, at, waitMs=500)
        flown.reads[str(status)] += 1
        for record in records:
            if record["offset"] != at:
                flown.wrong.append(f"{partition}: read {record['offset']} in place of {at}")
            flown.see(partition, record["offset"], record["value"])
            at = record["offset"] + 1
        if status == 416:
            flown.wrong.append(f"{partition}/{at} existed, and is beyond the end")
        if status != 200:
            await asyncio.sleep(0.05)


async def entries(stage: Stage, node: LocalNode) -> list[dict[str, Any]]:
    """Return a node's page of all partitions; an empty list without an answer."""
    timeout = aiohttp.ClientTimeout(total=3.0)
    try:
        async with stage.session.get(node.url + PAGE, timeout=timeout) as answer:
            page = await answer.json(content_type=None)
            return list(page["partitions"]) if answer.status == 200 else []
    except (aiohttp.ClientError, TimeoutError, ValueError):
        return []


async def shown(stage: Stage) -> list[dict[str, Any]]:
    """Return the page of all partitions, each with its figures, of the first node that answers."""
    while True:
        for node in stage.arena.members:
            found = await entries(stage, node)
            if len(found) == PARTITIONS:
                return found
        await asyncio.sleep(POLL_S)


async def leader(stage: Stage, partition: int) -> LocalNode:
    """Return the leader of a partition, once there is one."""
    while True:
        name = (await shown(stage))[partition]["leader"]
        if name:
            return stage.arena.cluster.node(name)
        await asyncio.sleep(0.05)


async def led_by(stage: Stage, node: LocalNode) -> list[tuple[int, bool]]:
    """Return the partitions that a node leads, and whether all their replicas are in sync."""
    return [
        (each["partition"], len(each["lrs"]) == len(each["replicas"]))
        for each in await shown(stage)
        if each["leader"] == node.name
    ]


async def _watch(stage: Stage, flown: Flown) -> None:
    """Check that no high watermark moves back."""
    high: Counter[int] = Counter()
    turn = 0
    while not flown.is_done:
        turn += 1
        for each in await entries(stage, stage.arena.members[turn % len(stage.arena.members)]):
            partition, now = each["partition"], each["hw"]
            if now is None:
                continue
            flown.reads["high watermarks"] += 1
            if now < high[partition]:
                flown.wrong.append(f"{partition}: hw {now} after {high[partition]}: {each}")
            high[partition] = max(high[partition], now)
        await asyncio.sleep(POLL_S)


def counts(flown: Flown) -> str:
    """Return the counts of a run, for the report."""
    told = ", ".join(f"{n:,} {what}" for what, n in flown.told.most_common())
    longest_s = max(done - begun for begun, done in flown.starts)
    return (
        f"a producer begins within {longest_s:.1f} s; {flown.rounds} rounds of {len(flights()):,},"
        f" {len(flown.places):,} acknowledged, {len(flown.seen):,} read meanwhile,"
        f" {flown.reads['high watermarks']:,} looks at hw; requests: {told}"
    )


# Checks at the end


async def judged(stage: Stage, flown: Flown) -> list[str]:
    """Wait until all is healed; read all back, by the client and of each replica; return problems.

    A record whose mark is None belongs to no round, and may be there or not.
    """
    await stage.arena.recover()
    await stage.arena.wait(lambda: asyncio.run(_is_well(stage)), "all replicas are in step")
    stored: dict[int, list[tuple[str, Any]]] = defaultdict(list)
    async with Client([node.url for node in stage.arena.members]) as client:
        for partition in range(PARTITIONS):
            async for record in client.consume(TOPIC, partition=partition, follow=False):
                if record.offset != len(stored[partition]):
                    flown.wrong.append(f"{partition}/{record.offset} is out of place")
                mark = record.value["mark"]
                stored[partition].append((str(record.key), tuple(mark) if mark else None))
    wrong = [*flown.wrong, *_misplaced(flown, stored), *_disordered(flown, stored)]
    for node in stage.arena.members:
        for partition in range(PARTITIONS):
            wrong += await _differing(stage, node, partition, stored[partition])
    return wrong


async def _is_well(stage: Stage) -> bool:
    async with aiohttp.ClientSession() as session:
        alone = Stage(stage.arena, session, stage.share)
        return all(
            each["resolution"] == "Online"
            and len(each["lrs"]) == len(each["replicas"])
            and each["hw"] == each["leo"]
            and all(follower["leo"] == each["leo"] for follower in each["followers"])
            for each in await shown(alone)
        )


def _misplaced(flown: Flown, stored: Mapping[int, list[tuple[str, Any]]]) -> Iterator[str]:
    """Yield the records that are lost, duplicated, or at another place than acknowledged."""
    times = Counter(mark for each in stored.values() for _, mark in each if mark is not None)
    yield from (f"{mark} is there {n} times" for mark, n in times.items() if n > 1)
    for mark, place in flown.places.items():
        log = stored[place.partition]
        if place.offset >= len(log) or log[place.offset][1] != mark:
            kept = "elsewhere" if times[mark] else "lost"
            yield f"{mark} was acknowledged at {place.partition}/{place.offset}, and is {kept}"
    for (partition, offset), mark in flown.seen.items():
        found = stored[partition][offset][1] if offset < len(stored[partition]) else "nothing"
        if found != (tuple(mark) if mark else None):
            yield f"{partition}/{offset}: a committed reader got {mark}, there is {found}"


def _disordered(flown: Flown, stored: Mapping[int, list[tuple[str, Any]]]) -> Iterator[str]:
    """Yield keys whose records are not in the order in which they were sent."""
    for partition, log in stored.items():
        last: dict[str, Mark] = {}
        for key, mark in log:
            if mark is not None:
                if mark <= last.get(key, (-1, -1)):
                    yield f"{partition}: {key} has {mark} after {last[key]}"
                last[key] = mark
    if len(flown.places) != flown.rounds * len(flights()):
        yield f"{len(flown.places)} were acknowledged in {flown.rounds} rounds"


async def _differing(
    stage: Stage, node: LocalNode, partition: int, stored: list[tuple[str, Any]]
) -> list[str]:
    """Return where a replica's own copy differs."""
    at = 0
    while at < len(stored):
        status, _, records = await fetched(
            stage, node, partition, at, headers={"Docstore-Consistency": "stale"}
        )
        if status != 200 or not records:
            return [f"{node.name}: {partition}/{at} of {len(stored)}: {status}, nothing"]
        for record in records:
            mark = record["value"]["mark"]
            if stored[at] != (record["key"], tuple(mark) if mark else None):
                return [f"{node.name}: {partition}/{at} is {record['key']} {mark}: not the same"]
            at += 1
    return []
