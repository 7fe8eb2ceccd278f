"""The lag of groups that pages, command and metrics show, against high watermarks and offsets.

A figure is true if it lies between the bounds by the records and offsets before and after it.
"""

import asyncio
import contextlib
import json
import re
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import aiohttp
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from docstore.client import Client, ClientError
from docstore.client.local import LocalCluster, LocalNode
from docstore.client.producer import Position
from docstore.http.group_offsets import LAG_S
from tests.docstore.kafka.clients.http import created
from tests.docstore.watching import start_all
from tests.fork_server import SERVER

PARTITIONS, COMMIT_S, SESSION_S = 3, 0.2, 2.0
STEPS = (3.0, 9.0, 15.0)
"""Seconds until a leader is killed, until it is restarted, and until the load ends."""
OLD_S = LAG_S + 2.0
"""Greatest age of a metric: LAG_S, and the time to compute it while a leader does not answer."""
PATIENCE_S = 60.0
SAMPLE = re.compile(r'docstore_group_lag_records\{group="(.+?)",topic=".+?"\} (\d+)')


class Truth(NamedTuple):
    """Partition -> high watermark, and partition -> committed offset, as read by a moment."""

    at: float
    ends: dict[int, int]
    offsets: dict[int, int]


class Bounds(NamedTuple):
    """Partition -> least and greatest lag, between two moments."""

    since: float
    until: float
    least: dict[int, int]
    most: dict[int, int]

    @classmethod
    def between(cls, before: Truth, after: Truth) -> "Bounds":
        least = {each: max(0, end - after.offsets[each]) for each, end in before.ends.items()}
        most = {each: max(0, end - before.offsets[each]) for each, end in after.ends.items()}
        return cls(before.at, after.at, least, most)


class Watch:
    """True lag of a topic's groups, and the figures that differed from it."""

    def __init__(self, client: Client, session: aiohttp.ClientSession, topic: str) -> None:
        self.client, self._session, self.topic = client, session, topic
        self.ends: Counter[int] = Counter()
        """Partition -> end of the records, by a producer or by the partition's page."""
        self.wrong: list[str] = []
        self.looks: Counter[str] = Counter()
        self._past: defaultdict[str, list[Bounds]] = defaultdict(list)

    def placed(self, partition: int, end: int) -> None:
        """Record that the records of a partition up to an end are committed."""
        self.ends[partition] = max(self.ends[partition], end)

    async def truth(self, name: str) -> Truth:
        """Read committed offsets from their documents, and high watermarks from the leaders."""
        offsets = dict.fromkeys(range(PARTITIONS), 0)
        for each in offsets:
            path = f"/core/groups/{name}/offsets/{self.topic}/{each}"
            with contextlib.suppress(ClientError):
                offsets[each] = max(0, (await self.client.json("GET", path))["offset"])
        while True:
            page = await self.client.json("GET", f"/core/streams/{self.topic}")
            highs = {each["partition"]: each["hw"] for each in page["partitions"]}
            if None not in highs.values():
                break
            await asyncio.sleep(0.05)
        for each, high in highs.items():
            self.placed(each, high)
        return Truth(time.monotonic(), dict(self.ends), offsets)

    async def look(
        self, nodes: list[LocalNode], node: LocalNode, name: str, before: Truth
    ) -> Truth:
        """Compare what a node's page and all nodes' metrics show; return the truth after it."""
        shown = await self._page(node, name)
        samples = await self.samples(nodes, name)
        after = await self.truth(name)
        bounds = Bounds.between(before, after)
        for partition, lag in shown.items():
            least, most = bounds.least[partition], bounds.most[partition]
            if not least <= lag <= most:
                self.wrong.append(f"{name}/{partition} at {node.name}: {lag} of {least}..{most}")
        past = self._past[name]
        past.append(bounds)
        recent = [each for each in past if each.until >= bounds.since - OLD_S]
        least = min(sum(each.least.values()) for each in recent)
        most = max(sum(each.most.values()) for each in recent)
        for sample in samples:
            if not least <= sample <= most:
                self.wrong.append(f"{name} in the metrics: {sample} of {least}..{most}")
        self.looks += Counter(pages=len(shown), metrics=len(samples))
        return after

    async def _page(self, node: LocalNode, name: str) -> dict[int, int]:
        """Return partition -> lag, as a node shows it; partitions without one are left out."""
        url = f"{node.url}/core/groups/{name}/offsets"
        try:
            async with self._session.get(url) as answer:
                page = await answer.json() if answer.status == 200 else {"offsets": []}
        except (aiohttp.ClientError, TimeoutError):
            return {}
        lags = {each["partition"]: each["lag"] for each in page["offsets"]}
        return {each: lag for each, lag in lags.items() if lag is not None}

    async def samples(self, nodes: list[LocalNode], name: str) -> list[int]:
        """Return the lags of a group in the metrics of all nodes."""
        text = ""
        for node in nodes:
            with contextlib.suppress(aiohttp.ClientError, TimeoutError):
                async with self._session.get(f"{node.url}/metrics") as answer:
                    text += await answer.text()
        return [int(lag) for of, lag in SAMPLE.findall(text) if of == name]

    async def rest(self, group: LocalCluster, names: list[str]) -> None:
        """Wait until all records are read; then all figures are 0."""
        lags: dict[str, Any] = {}
        async with asyncio.timeout(PATIENCE_S):
            while True:
                truths = [await self.truth(name) for name in names]
                if all(each.offsets == each.ends == dict(self.ends) for each in truths):
                    break
                await asyncio.sleep(0.05)
            for name in names:
                ended = await asyncio.to_thread(
                    SERVER.run, "group", "describe", name, "--json", "--url", group.urls[0]
                )
                lags[name] = [each["lag"] for each in json.loads(ended.stdout)["offsets"]]
                for node in group.nodes:
                    assert await self._page(node, name) == dict.fromkeys(range(PARTITIONS), 0)
            assert lags == dict.fromkeys(names, [0] * PARTITIONS)
            for name in names:
                while await self.samples(group.nodes, name) != [0]:
                    await asyncio.sleep(0.05)


async def append_by_http(client: Client, watch: Watch) -> None:
    """Append records with keys until cancelled; the rest is sent."""

    def placed(future: "asyncio.Future[Position]") -> None:
        if not future.cancelled() and future.exception() is None:
            watch.placed(future.result().partition, future.result().offset + 1)

    async with client.producer(watch.topic) as producer:
        with contextlib.suppress(asyncio.CancelledError):
            while True:
                (await producer.send(None, 1)).add_done_callback(placed)
                await asyncio.sleep(0.004)


async def append_by_kafka(bootstrap: str, watch: Watch) -> None:
    """Append records by aiokafka until cancelled; the rest is sent."""
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True) as producer:
        with contextlib.suppress(asyncio.CancelledError):
            while True:
                await producer.send(watch.topic, b"1")
                await asyncio.sleep(0.004)


async def read_by_http(client: Client, name: str, topic: str) -> None:
    async with client.group(name, [topic], session_s=SESSION_S, commit_s=COMMIT_S) as member:
        async for _ in member:
            await asyncio.sleep(0.004)


async def read_by_kafka(bootstrap: str, name: str, topic: str) -> None:
    async with AIOKafkaConsumer(
        topic, bootstrap_servers=bootstrap, group_id=name, auto_offset_reset="earliest",
        auto_commit_interval_ms=int(COMMIT_S * 1000), session_timeout_ms=int(SESSION_S * 1000),
        heartbeat_interval_ms=300,
    ) as member:  # fmt: skip
        async for _ in member:
            await asyncio.sleep(0.004)


@contextlib.asynccontextmanager
async def running(*works: Any) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(each) for each in works]
    try:
        yield
    finally:
        for each in tasks:
            each.cancel()
        done = await asyncio.gather(*tasks, return_exceptions=True)
    assert [each for each in done if isinstance(each, Exception)] == []


@pytest.mark.slow
async def test_the_shown_lag_is_true_while_a_leader_is_down(
    group: LocalCluster, bootstrap: str
) -> None:
    topic = created(group, partitions=PARTITIONS)
    names = [f"http-{topic}", f"kafka-{topic}"]
    async with Client(group.urls) as client, aiohttp.ClientSession() as session:
        watch = Watch(client, session, topic)
        async with running(
            read_by_http(client, names[0], topic), read_by_kafka(bootstrap, names[1], topic)
        ):
            async with running(append_by_http(client, watch), append_by_kafka(bootstrap, watch)):
                try:
                    await load(group, watch, names)
                finally:
                    await asyncio.to_thread(start_all, group)
            await watch.rest(group, names)
    assert watch.wrong == []
    assert min(watch.looks["pages"], watch.looks["metrics"]) > 20


async def load(group: LocalCluster, watch: Watch, names: list[str]) -> None:
    """Check all figures, one node after the other, while a leader is killed and restarted."""
    kill, start, end = (time.monotonic() + each for each in STEPS)
    truths = {name: await watch.truth(name) for name in names}
    turn, victim = 0, None
    while time.monotonic() < end:
        if victim is None and time.monotonic() > kill:
            page = await watch.client.json("GET", f"/core/streams/{watch.topic}/partitions/0")
            victim = group.node(page["leader"])
            group.kill(victim)
        if victim is not None and victim.process is None and time.monotonic() > start:
            group.start(victim)
        turn += 1
        for name in names:
            node = group.nodes[turn % len(group.nodes)]
            truths[name] = await watch.look(group.nodes, node, name, truths[name])
