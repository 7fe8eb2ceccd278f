"""The driver of the partition machine, on a disk that has no room for a while."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import Any

from docstore.documents.view import ReplicaView
from docstore.errors import DiskFull
from docstore.model import json
from docstore.model.operation import Operation
from docstore.runtime.document_client import DocumentClient
from docstore.runtime.stepping import clock
from docstore.runtime.streams_driver import StreamsDriver
from docstore.storage.partitions import (
    AppendBatches,
    PartitionWrite,
    SavePartition,
    TrimPartition,
)
from docstore.streams.effects import Outcome, Problem
from docstore.streams.events import ProduceAsked
from docstore.streams.partitions import Partitions
from docstore.streams.records import Record, pack
from docstore.streams.replica_set import STREAMS, ReplicaSet, partition_link
from docstore.wire.streams_messages import Produced
from tests.docstore.alone import SmallDisk, alone, unlinked
from tests.memory.streams_memory import MemoryStreamStore

LINK = partition_link("t", 0)


class SmallStreamDisk(MemoryStreamStore):
    """A store of streams that has no room for batches while it is full."""

    def __init__(self) -> None:
        super().__init__()
        self.is_full = False
        self.tried: list[Sequence[PartitionWrite]] = []

    async def commit(self, writes: Sequence[PartitionWrite]) -> None:
        self.tried.append(writes)
        await asyncio.sleep(0)
        if self.is_full and any(not isinstance(write, TrimPartition) for write in writes):
            raise DiskFull("no room")
        await super().commit(writes)


@asynccontextmanager
async def streaming(store: SmallStreamDisk) -> AsyncIterator[StreamsDriver]:
    """A group of one node with one partition that it leads."""
    disk = SmallDisk()
    documents, replica = await alone(disk)
    view = ReplicaView(replica, clock).members
    machine = Partitions("n1", await store.open(), view=view, rng=Random(1), now=clock())

    def broken(error: BaseException) -> None:
        raise AssertionError(error)

    client = DocumentClient(documents.submit, disk, view, STREAMS, broken=broken)
    driver = StreamsDriver(machine, store, unlinked(), documents=client, broken=broken)
    driver.start()
    state = ReplicaSet(incarnation="i", replicas=("n1",)).pack()
    created = await documents.submit(
        Operation(verb="POST", link=LINK, body=state, signature=json.signature(json.load(state))),
        5.0,
    )
    assert created.is_success, created
    try:
        yield driver
    finally:
        await driver.stop()
        await documents.stop()


def produce(driver: StreamsDriver, value: int, timeout_s: float = 10.0) -> "asyncio.Future[Any]":
    body = pack(Record(None, b"%d" % value))
    number = driver.next_request()
    return driver.request(
        ProduceAsked(number, LINK, "committed", clock() + timeout_s, (), 0, 1, body)
    )


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.05)


def base_of(outcome: Outcome) -> int:
    assert isinstance(outcome, Produced), outcome
    return outcome.base


async def test_a_node_finds_the_partition_that_it_governs_and_leads_it() -> None:
    async with streaming(SmallStreamDisk()) as driver:
        assert base_of(await produce(driver, 0)) == 0
        [found] = await driver._documents.found()
        assert found.link == LINK


async def test_writes_are_retried_until_there_is_room_and_produces_refused_meanwhile() -> None:
    store = SmallStreamDisk()
    async with streaming(store) as driver:
        assert base_of(await produce(driver, 0)) == 0
        store.is_full = True
        store.tried.clear()
        waiting = produce(driver, 1)
        await until(lambda: not driver.machine.core.has_room)
        refused = await produce(driver, 2)
        assert isinstance(refused, Problem)
        assert (refused.status, refused.code, refused.unknown) == (503, "partition-full", False)
        await until(lambda: len(store.tried) > 2)
        first = [each for each in store.tried[0] if isinstance(each, AppendBatches)]
        assert all([*first] == [w for w in writes if isinstance(w, AppendBatches)]
                   for writes in store.tried)  # fmt: skip
        assert not waiting.done()
        store.is_full = False
        assert base_of(await waiting) == 1
        await until(lambda: driver.machine.core.has_room)
        assert base_of(await produce(driver, 3)) == 2


async def test_trims_are_committed_first_on_a_full_disk_and_keep_the_last_batch() -> None:
    store = SmallStreamDisk()
    async with streaming(store) as driver:
        for value in range(3):
            await produce(driver, value)
        [log] = driver.machine.logs.values()
        store.is_full = True
        store.tried.clear()
        disk = driver.machine.disk
        disk.store(TrimPartition(log.name, 3))
        disk.save(log)
        waiting = produce(driver, 3)
        await until(lambda: [TrimPartition(log.name, 2)] in [list(each) for each in store.tried])
        found = store.ledger.recovered(1).partitions[log.name]
        assert (found.end, found.size > 0) == (3, True)
        assert [type(write) for write in store.tried[0]].count(SavePartition) == 1
        store.is_full = False
        assert base_of(await waiting) == 3
