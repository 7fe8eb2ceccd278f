"""A driver that serves a group of one node, on a full or a slow disk."""

import asyncio
from collections.abc import Sequence
from random import Random

from docstore.documents.replica import Replica
from docstore.errors import DiskFull
from docstore.model.document import Row
from docstore.ownership.configuration import Configuration, MemberEntry, first_registered
from docstore.runtime.driver import Driver
from docstore.runtime.links.peers import PeerEvents, PeerLinks
from docstore.services.registry import Registry
from docstore.storage.store import (
    Append,
    Query,
    Recovered,
    Result,
    SaveConfiguration,
    Store,
    Then,
    Write,
)
from docstore.wire.link_messages import Hello
from tests.memory.memory import MemoryStore

LINK = "/core/examples/a"
SLOTS = 4


class SmallDisk(MemoryStore):
    """A store that has no room for a while, and answers slowly."""

    def __init__(self) -> None:
        super().__init__()
        self.refuses_rows = False
        self.refused = 0
        self.unreadable = 0
        """How many of the next reads fail for lack of room."""
        self.wrong: list[str] = []

    def submit(self, writes: Sequence[Write], then: Then) -> None:
        asyncio.get_running_loop().call_later(0.002, self._end, writes, then)

    def _end(self, writes: Sequence[Write], then: Then) -> None:
        if self.refuses_rows and any(isinstance(write, Append) for write in writes):
            self.refused += 1
            then(DiskFull("no room"))
            return
        self.keep(writes)
        then(None)

    def keep(self, writes: Sequence[Write]) -> None:
        """Put something on the disk, even without room."""
        try:
            self._ledger.apply(writes)
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
            admit=lambda hello: "no peer",
            received=lambda peer, message, configuration: None,
            linked=lambda peer: None,
            lost=lambda peer: None,
        )
    )


async def alone(store: Store) -> tuple[Driver, Replica]:
    """Return a driver that serves a group of one node."""
    await store.open()
    member = MemberEntry("n1", "disk", "127.0.0.1", 1)
    founded = first_registered(Configuration(1, "c", SLOTS, 1, None, (member,)))
    await store.commit([SaveConfiguration(founded.pack())])
    links, registry = unlinked(), Registry()
    replica = Replica(
        "n1",
        await store.recover(),
        service_for=lambda link, since: registry.service_for(link),
        rng=Random(1),
        vote_rng=Random(2),
        now=asyncio.get_running_loop().time(),
    )
    published: list[Row] = []

    def broken(error: BaseException) -> None:
        raise AssertionError(error)

    driver = Driver(
        replica, store, links,
        publish=published.append, reconfigured=lambda configuration: None, broken=broken,
    )  # fmt: skip
    driver.start()
    return driver, replica
