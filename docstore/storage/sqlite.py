"""Storage of a node: one SQLite file, one writer, three readers, each on a thread of its own.

Every call costs one hop to a thread and back (`lanes.py`), however many statements it needs.

Point reads, pages of a log and listings have different readers, so that neither a copy to a
replica nor a digest over a whole slot stands in the way of a GET.

Durable means: WAL and synchronous=FULL, one fsync of the log per batch. The lock of the file
(`database.py`) keeps a second process away: two nodes on one disk would both use its promises.
"""

import sqlite3
import uuid
from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path

from docstore.model.document import Row
from docstore.storage import listing, reading
from docstore.storage.database import Database
from docstore.storage.lanes import Synchronous
from docstore.storage.store import LONG, UNBOUNDED, Bounds, Query, Recovered, Result, Then, Write
from docstore.storage.submitting import Submissions, committed, unheard
from docstore.storage.writing import Writer

_CACHE_KIB = {"writer": 32 << 10, "reader": 16 << 10, "pager": 4 << 10, "lister": 8 << 10}
"""Modest, since the kernel caches the file as well."""


class SqliteStore:
    """A `Store` in the file `path`."""

    def __init__(self, path: str | Path, *, synchronous: Synchronous = "FULL") -> None:
        """Do nothing yet. synchronous: as for `Database`."""
        self.broken: Callable[[BaseException], None] = unheard
        self._file: Database[Write] = Database(path, _CACHE_KIB, synchronous)
        self._submissions = Submissions(self._file.commit)

    async def open(self) -> Recovered:
        """Open or create the file, count the boot, and return what is there.

        Raises StoreBroken when another process has it, it is not ours, or cannot be read, and
        DiskFull when there is no room to count the boot. Nothing stays open then.
        """
        async with self._file.opening(self._prepared):
            return await self.recover()

    def _prepared(self, connection: sqlite3.Connection) -> Writer:
        writer = Writer(connection, self._file.log)
        writer.prepare(uuid.uuid4().hex)
        return writer

    def submit(self, writes: Sequence[Write], then: Then) -> None:
        """Begin to make `writes` durable, and say so when they are."""
        self._submissions.submit(writes, then)

    async def commit(self, writes: Sequence[Write]) -> None:
        """Return once all of `writes` would survive a power cut."""
        await committed(self.submit, writes)

    def behind(self, slot: int) -> int:
        """Return UNBOUNDED: what is committed is in the file."""
        return UNBOUNDED

    def hurry(self) -> None:
        """Do nothing: what is committed is in the file."""

    async def read(self, queries: Sequence[Query]) -> list[Result]:
        """Answer queries from one consistent snapshot, in their order."""
        is_long = any(isinstance(query, LONG) for query in queries)
        return await self._file.run("pager" if is_long else "reader", partial(_answer, queries))

    async def recover(self) -> Recovered:
        """Read again what `open` found, without counting a boot."""
        return await self._file.run("lister", reading.recovered)

    async def links(
        self, prefix: str, after: str, limit: int, until: Bounds, *, level: int = 3
    ) -> list[tuple[int, str, int]]:
        """Return live direct children of `prefix` after `after`, by link."""

        def job(connection: sqlite3.Connection) -> list[tuple[int, str, int]]:
            return listing.links(connection, prefix, after, limit, until, level=level)

        return await self._file.run("lister", job)

    async def count(self, prefix: str, until: Bounds, *, level: int = 3) -> dict[int, int]:
        """Return slot -> how many live direct children `prefix` has."""

        def job(connection: sqlite3.Connection) -> dict[int, int]:
            return listing.count(connection, prefix, until, level=level)

        return await self._file.run("lister", job)

    async def below(self, prefix: str, slots: Collection[int]) -> list[Row]:
        """Return the newest rows of live documents at any depth below `prefix`, by link."""

        def job(connection: sqlite3.Connection) -> list[Row]:
            return listing.below(connection, prefix, slots)

        return await self._file.run("lister", job)

    async def digests(self, slots: Sequence[int]) -> dict[int, tuple[int, int, str]]:
        """Return slot -> (end, number of links, digest)."""

        def job(connection: sqlite3.Connection) -> dict[int, tuple[int, int, str]]:
            return listing.digests(connection, slots)

        return await self._file.run("lister", job)

    async def size_bytes(self) -> int:
        """Return the bytes of the file, its log and the log's index."""
        return await self._file.size_bytes()

    async def close(self) -> None:
        """Finish what is under way and give everything back, the lock last."""
        await self._submissions.finish()
        await self._file.close()


def _answer(queries: Sequence[Query], connection: sqlite3.Connection) -> list[Result]:
    return reading.answer(connection, queries)
