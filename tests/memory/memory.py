"""A document store in memory: the contract around one ledger, without a disk.

For simulations and for trials. It survives `close` and `open` of the same object, as a disk
survives its process, and counts the boots.
"""

import asyncio
import uuid
from collections.abc import Callable, Collection, Iterable, Sequence

from docstore.model.document import Row
from docstore.storage.sqlite import committed, unheard
from docstore.storage.store import Bounds, Query, Recovered, Result, Then, Write
from tests.memory.ledger import Ledger


class MemoryStore:
    """A `Store` without a disk: commits are as durable as the object."""

    is_full = False

    def __init__(self) -> None:
        self.broken: Callable[[BaseException], None] = unheard
        self._ledger = Ledger()
        self._store_id = uuid.uuid4().hex
        self._boot = 0

    async def open(self) -> Recovered:
        """Count the boot and return the content."""
        self._boot += 1
        return await self.recover()

    def submit(self, writes: Sequence[Write], then: Then) -> None:
        """Apply `writes`, and call `then` in the loop's next turn."""
        self._ledger.apply(writes)
        asyncio.get_running_loop().call_soon(then, None)

    async def commit(self, writes: Sequence[Write]) -> None:
        """Apply `writes`."""
        await committed(self.submit, writes)

    def behind(self, slots: Iterable[int]) -> dict[int, int]:
        """Return no slots: no file lags behind."""
        return {}

    def hurry(self) -> None:
        """Do nothing: no file lags behind."""

    async def read(self, queries: Sequence[Query]) -> list[Result]:
        """Answer queries in their order."""
        return [self._ledger.answer(query) for query in queries]

    async def recover(self) -> Recovered:
        """Return the content that a restart would find, without counting a boot."""
        return self._ledger.recovered(self._store_id, self._boot)

    async def links(
        self, prefix: str, after: str, limit: int, until: Bounds, *, level: int = 3
    ) -> list[tuple[int, str, int]]:
        """Return live direct children of `prefix` after `after`, by link."""
        return self._ledger.links(prefix, after, limit, until, level=level)

    async def count(self, prefix: str, until: Bounds, *, level: int = 3) -> dict[int, int]:
        """Return slot -> number of live direct children of `prefix`."""
        return self._ledger.count(prefix, until, level=level)

    async def below(self, prefix: str, slots: Collection[int]) -> list[Row]:
        """Return the newest rows of live documents at any depth below `prefix`, by link."""
        return self._ledger.below(prefix, slots)

    async def with_agenda(self, prefix: str, slots: Collection[int]) -> list[Row]:
        """Return the newest rows of links below `prefix` that have an agenda, by slot and link."""
        return self._ledger.with_agenda(prefix, slots)

    async def digests(self, slots: Sequence[int]) -> dict[int, tuple[int, int, str]]:
        """Return slot -> (end, number of links, digest)."""
        return self._ledger.digests(slots)

    def measures(self) -> dict[str, float]:
        """Return an empty mapping: there is no journal."""
        return {}

    async def close(self) -> None:
        """Keep everything for the next `open`."""
