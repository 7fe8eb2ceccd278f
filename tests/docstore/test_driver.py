"""The shell around the protocol: a disk without room, and the order of things."""

import asyncio
from collections.abc import Sequence
from random import Random

from docstore.document import Row
from docstore.driver import Driver
from docstore.errors import DiskFull
from docstore.links.peers import PeerEvents, PeerLinks
from docstore.operation import Operation
from docstore.protocol.configuration import Configuration, MemberEntry, first_registered
from docstore.protocol.replica import Replica
from docstore.services.registry import Registry
from docstore.storage.memory import MemoryStore
from docstore.storage.store import (
    LONG,
    After,
    Append,
    Query,
    Recovered,
    Result,
    Rows,
    SaveConfiguration,
    Write,
)
from docstore.wire import Hello

LINK = "/core/examples/a"
SLOTS = 4


class SmallDisk(MemoryStore):
    """A store that has no room for a while, and takes its time to say what it has."""

    def __init__(self) -> None:
        super().__init__()
        self.is_full = False
        self.refused = 0
        self.unreadable = 0
        """How many of the next looks at it find no room for even that."""
        self.wrong: list[str] = []

    async def commit(self, writes: Sequence[Write]) -> None:
        await asyncio.sleep(0.002)
        if self.is_full and any(isinstance(write, Append) for write in writes):
            self.refused += 1
            raise DiskFull("no room")
        try:
            await super().commit(writes)
        except AssertionError as error:  # The ledger's own: a row that goes on from nothing.
            self.wrong.append(str(error))

    async def read(self, queries: Sequence[Query]) -> list[Result]:
        self._make_room()
        return await super().read(queries)

    def _make_room(self) -> None:
        if self.unreadable:
            self.unreadable -= 1
            raise DiskFull("no room for the index of the log")

    async def recover(self) -> Recovered:
        self._make_room()
        found = await super().recover()
        await asyncio.sleep(0.02)
        return found


def unlinked() -> PeerLinks:
    """Return the links of a node that has no peers."""
    hello = Hello(2, "c", "n1", "disk", 1, "", "", b"", 1, ("", 0, 0))
    return PeerLinks(
        PeerEvents(
            hello=lambda peer: hello,
            admit=lambda told: "nobody",
            received=lambda peer, message, configuration: None,
            linked=lambda peer: None,
            lost=lambda peer: None,
        )
    )


async def alone(store: SmallDisk) -> tuple[Driver, Replica]:
    """Return a driver that serves a group of one node."""
    await store.open()
    member = MemberEntry("n1", "disk", "127.0.0.1", 1)
    founded = first_registered(Configuration(1, "c", SLOTS, 1, None, (member,)))
    await MemoryStore.commit(store, [SaveConfiguration(founded.pack())])
    links = unlinked()
    replica = Replica(
        "n1",
        await store.recover(),
        service_for=Registry().service_for,
        rng=Random(1),
        vote_rng=Random(2),
        now=asyncio.get_running_loop().time(),
    )
    published: list[Row] = []

    def broken(error: BaseException) -> None:
        raise AssertionError(error)

    driver = Driver(replica, store, links, publish=published.append, broken=broken)
    driver.start()
    return driver, replica


async def test_nothing_is_stored_after_what_a_full_disk_has_lost() -> None:
    store = SmallDisk()
    driver, replica = await alone(store)
    stopping = False

    async def write(number: int) -> list[int]:
        """Ask without waiting for answers, as many clients do."""
        asked, turn = [], 0
        while not stopping:
            turn += 1
            body = b'{"name": "%d"}' % turn
            operation = Operation("PUT", f"{LINK}{number}", body, creates=True)
            asked.append(driver.submit(operation, 1.0))
            await asyncio.sleep(0.001)
        return [answer.status for answer in await asyncio.gather(*asked)]

    writers = [asyncio.create_task(write(number)) for number in range(3)]
    try:
        for _ in range(5):
            await asyncio.sleep(0.1)
            store.is_full, store.unreadable = True, 3
            async with asyncio.timeout(10):
                before = store.refused
                while store.refused == before:
                    await asyncio.sleep(0.005)
            store.is_full = False
        final = Operation("PUT", f"{LINK}-final", b'{"name": "final"}', creates=True)
        assert (await driver.submit(final, 5.0)).status == 201  # It serves again by itself.
        stopping = True
        statuses = [status for found in await asyncio.gather(*writers) for status in found]
        assert 201 in statuses
        assert store.wrong == []
        await driver.stored()
        # What memory believes to be durable is there.
        for slot, log in replica.core.logs.items():
            [rows] = await store.read([Rows(slot, 1, log.durable)])
            assert isinstance(rows, list)
            assert [row.n for row in rows] == list(range(1, log.durable + 1))
        assert replica.core.counters["disk_filled"] >= 5
    finally:
        await driver.stop()


class SlowPages(SmallDisk):
    """A store that answers long queries when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.may_answer = asyncio.Event()

    async def read(self, queries: Sequence[Query]) -> list[Result]:
        if any(isinstance(query, LONG) for query in queries):
            await self.may_answer.wait()
        return await super().read(queries)


async def test_a_document_is_read_while_a_page_of_a_log_is() -> None:
    store = SlowPages()
    driver, replica = await alone(store)
    answered: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
    try:
        replica.core.read(After(0, 0, 9, 9), answered.set_result)
        found = await driver.submit(Operation("GET", LINK), 5.0)
        assert found.status == 404
        assert not answered.done()
        store.may_answer.set()
        assert await asyncio.wait_for(answered, 5.0) == []
    finally:
        store.may_answer.set()
        await driver.stop()
