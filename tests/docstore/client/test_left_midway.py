"""Blocks and loops that are left early: no task is left running, and no caller waits in vain."""

import asyncio
from collections.abc import Iterator
from contextlib import aclosing, suppress

import pytest

from docstore.client import Client, Closed, LocalCluster, RequestFailed, Unanswered, consumer
from tests.docstore.client.test_leaders import TOPIC, Node, serving


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with LocalCluster(1) as group:
        yield group.urls[0]


async def test_a_reader_of_several_partitions_leaves_nothing_behind(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once, the partitions' readers waited for ever for room in a full queue."""
    monkeypatch.setattr(consumer, "QUEUED_MAX", 1)
    async with Client([url]) as client:
        await client.json("POST", "/core/streams", {"name": "left", "partitions": 2})
        async with client.producer("left") as producer:
            for partition in (0, 1):
                for number in range(5):
                    await producer.send(None, number, partition=partition)
        before = asyncio.all_tasks()
        async with aclosing(client.consume("left")) as records:
            async for record in records:
                if record.offset == 2:
                    break
        async with asyncio.timeout(10):
            while asyncio.all_tasks() - before:
                await asyncio.sleep(0.01)


async def test_an_error_of_one_partition_ends_the_reader_of_all(url: str) -> None:
    async with Client([url]) as client:
        await client.json("POST", "/core/streams", {"name": "ended", "partitions": 2})
        with pytest.raises(RequestFailed, match="416"):
            async for _ in client.consume("ended", since="7"):
                pass


class Slow(Node):
    """Leads a partition, and does not answer an append until the test is over."""

    def __init__(self) -> None:
        super().__init__()
        self.is_asked = asyncio.Event()

    async def page(self, head: str) -> object:
        if "/core/node-groups/" in head:
            return {"members": []}
        if head.startswith("GET"):
            return TOPIC
        self.is_asked.set()
        await self.is_over.wait()
        return None


async def test_leaving_a_producer_ends_the_waiting_sends() -> None:
    node = Slow()
    async with serving(node) as url, Client([url]) as client:
        producer = client.producer("t", batch=1)
        with suppress(KeyError):
            async with producer:
                sent = await producer.send("k", 1)
                queued = await producer.send("k", 2)
                await node.is_asked.wait()
                raise KeyError
        async with asyncio.timeout(10):
            with pytest.raises(Unanswered, match="may have happened"):
                await sent
            with pytest.raises(Closed):
                await queued
        with pytest.raises(Closed):
            await producer.send("k", 3)
