"""The driver of the protocol: a disk without room, and the order of its work."""

import asyncio
from collections.abc import Sequence

import pytest

from docstore.errors import StoreBroken
from docstore.model.operation import Answer, Operation
from docstore.storage import retry_while_full
from docstore.storage.replication_log import Heads
from docstore.storage.store import (
    After,
    Query,
    Result,
    Rows,
    Then,
    Write,
)
from tests.docstore.alone import LINK, SmallDisk, alone


async def test_no_rows_are_stored_after_ones_that_a_full_disk_lost() -> None:
    store = SmallDisk()
    driver, replica = await alone(store)
    stopping = False

    def durable() -> int:
        return sum(log.durable for log in replica.core.logs.values())

    async def write(number: int) -> list[int]:
        """Ask without waiting for answers, as many clients do."""
        asked, turn = [], 0
        while not stopping:
            turn += 1
            body = b'{"name": "%d"}' % turn
            operation = Operation(verb="PUT", link=f"{LINK}{number}", body=body, creates=True)
            asked.append(driver.submit(operation, 1.0))
            await asyncio.sleep(0.001)
        return [answer.status for answer in await asyncio.gather(*asked)]

    writers = [asyncio.create_task(write(number)) for number in range(3)]
    try:
        for _ in range(5):
            some = durable() + 20
            async with asyncio.timeout(10):
                while durable() < some:
                    await asyncio.sleep(0.005)
            store.refuses_rows, store.unreadable = True, 3
            async with asyncio.timeout(10):
                before = store.refused
                while store.refused == before:
                    await asyncio.sleep(0.005)
            store.refuses_rows = False
        final = Operation(verb="PUT", link=f"{LINK}-final", body=b'{"name": "final"}', creates=True)
        assert (await driver.submit(final, 5.0)).status == 201  # It serves again by itself.
        stopping = True
        statuses = [status for found in await asyncio.gather(*writers) for status in found]
        assert 201 in statuses
        assert store.wrong == []
        await driver.stored()
        # Rows that memory takes for durable are on the disk.
        for slot, log in replica.core.logs.items():
            [rows] = await store.read([Rows(slot, 1, log.durable)])
            assert isinstance(rows, list)
            assert [row.n for row in rows] == list(range(1, log.durable + 1))
        assert replica.core.counters["disk_filled"] >= 5
    finally:
        await driver.stop()


async def test_a_lone_node_on_a_full_disk_serves_reads_and_refuses_writes() -> None:
    """Pinned: its terms ended with each batch that found no room, and no read was answered."""
    store = SmallDisk()
    driver, replica = await alone(store)
    get = Operation(verb="GET", link=LINK)

    async def put(name: str) -> Answer:
        body = b'{"name": "%s"}' % name.encode()
        return await driver.submit(Operation(verb="PUT", link=LINK, body=body, creates=True), 5.0)

    try:
        async with asyncio.timeout(10):
            assert (await put("a")).status == 201
            store.refuses_rows = store.is_full = True
            while replica.core.has_room:
                await asyncio.sleep(0.005)
            counters = replica.core.counters.copy()
            for _ in range(3):
                refused = await put("b")
                assert (refused.status, refused.code, refused.unknown) == (503, "disk-full", False)
                assert (await driver.submit(get, 5.0)).status == 200
            assert replica.core.counters["reigns_ended"] == counters["reigns_ended"]
            assert store.refused == 0
            store.refuses_rows = store.is_full = False
            while not replica.core.has_room:
                await asyncio.sleep(0.005)
            assert (await put("c")).status == 200
    finally:
        await driver.stop()


class FailingDisk(SmallDisk):
    """A store that fails for good once `fails` is set."""

    fails = False

    def submit(self, writes: Sequence[Write], then: Then) -> None:
        if self.fails:
            asyncio.get_running_loop().call_soon(then, StoreBroken("the disk is gone"))
        else:
            super().submit(writes, then)


async def test_a_failed_disk_is_reported_and_ends_waiting_requests() -> None:
    store = FailingDisk()
    driver, _ = await alone(store)
    failures: list[BaseException] = []
    driver.broken = failures.append
    async with asyncio.timeout(10):
        found = await driver.submit(Operation(verb="GET", link=LINK), 5.0)
        assert found.status == 404
        store.fails = True
        put = Operation(verb="PUT", link=LINK, body=b'{"name": "a"}', creates=True)
        asked = driver.submit(put, 5.0)
        while not failures:
            await asyncio.sleep(0.005)
        await driver.stop()
    assert asked.cancelled()
    assert isinstance(failures[0], StoreBroken)


async def test_a_disk_without_room_for_reads_is_reported_in_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Pinned: the read was retried for ever, and no failure was reported."""
    monkeypatch.setattr(retry_while_full, "WITHOUT_ROOM_S", 0.2)
    store = SmallDisk()
    driver, _ = await alone(store)
    failures: list[BaseException] = []
    for queue in driver._disk.queues:
        queue._broken = failures.append
    async with asyncio.timeout(10):
        store.unreadable = 1 << 30
        asked = driver.submit(Operation(verb="GET", link=LINK), 5.0)
        while not failures:
            await asyncio.sleep(0.005)
        await driver.stop()
    assert asked.cancelled()
    assert isinstance(failures[0], StoreBroken)
    assert str(failures[0]).startswith("no room to read what is there")


class SlowAnswers(SmallDisk):
    """A store that answers the query `slow` once it may."""

    slow: Query | None = None

    def __init__(self) -> None:
        super().__init__()
        self.may_answer = asyncio.Event()

    async def read(self, queries: Sequence[Query]) -> list[Result]:
        if self.slow in queries:
            await self.may_answer.wait()
        return await super().read(queries)


@pytest.mark.parametrize("query", [After(0, 0, 9, 9), Heads(0, LINK)])
async def test_a_document_is_read_while_something_else_takes_longer(query: Query) -> None:
    """A page of a log is long, and versions of levels 1 and 2 may wait for the tables."""
    store = SlowAnswers()
    driver, replica = await alone(store)
    answered: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
    try:
        store.slow = query
        replica.core.outbox.read(query, answered.set_result)
        found = await driver.submit(Operation(verb="GET", link=LINK), 5.0)
        assert found.status == 404
        assert not answered.done()
        store.may_answer.set()
        assert await asyncio.wait_for(answered, 5.0) == []
    finally:
        store.may_answer.set()
        await driver.stop()


async def test_answers_to_a_batch_come_together_and_in_order() -> None:
    store = SmallDisk()
    driver, _ = await alone(store)
    try:
        put = Operation(verb="PUT", link=LINK, body=b'{"name": "a"}', creates=True)
        missing = Operation(verb="GET", link=f"{LINK}-missing")
        asked = driver.submit_batch([put, missing, put], 5.0)
        assert driver.in_flight == 3
        answers = await asyncio.wait_for(asked, 5.0)
        assert [answer.status for answer in answers] == [201, 404, 200]
        given_up = driver.submit_batch([put, put], 5.0)
        given_up.cancel()
        await driver.submit(put, 5.0)
        assert driver.in_flight == 0
    finally:
        await driver.stop()
