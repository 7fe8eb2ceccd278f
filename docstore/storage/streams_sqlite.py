"""Storage of streams: one SQLite file, one writer and one reader, each on a thread of its own.

Documents have another file, so that writes to streams and to documents do not wait for each other
(see decision 21). Durability is the same: WAL and synchronous=FULL, one fsync of the log per
commit, for all partitions of the node. A full disk is no failure: the commit is rolled back, and
the caller may retry it on the same object.

Removing batches needs room in SQLite's log before it frees any, and so does a start. The store
releases a ballast for a removal or a start. It does not use room that the store of documents has
released for acknowledged entries (see decision 51). After any other failure the store refuses all
writes and the process ends.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from docstore.errors import DiskFull
from docstore.storage import open_counter, partition_reading
from docstore.storage.ballast import Ballast
from docstore.storage.database import WRITER, Database
from docstore.storage.database_threads import Synchronous
from docstore.storage.partition_writing import PartitionWriter
from docstore.storage.partitions import (
    DropPartition,
    PartitionQuery,
    PartitionResult,
    PartitionWrite,
    StreamsRecovered,
    TrimPartition,
)

_CACHE_KIB = {"writer": 8 << 10, "reader": 8 << 10}
"""Batches are written once and mostly read from memory; the cache need only hold the upper levels
of the tree."""

BALLAST_BYTES = 16 << 20
"""Bytes reserved: more than the log may have to copy back, and room for the log of a removal."""
RESERVE_S = 1.0
"""Least seconds between attempts to reserve the ballast again."""
_MAKES_ROOM = (TrimPartition, DropPartition)


class SqliteStreamStore:
    """A `StreamStore` in the file `path`, with its open counter and its ballast next to it."""

    def __init__(
        self,
        path: str | Path,
        *,
        synchronous: Synchronous = "FULL",
        ballast_bytes: int = BALLAST_BYTES,
        stands_aside: Callable[[], bool] = lambda: False,
    ) -> None:
        """Do nothing yet.

        synchronous: as for `Database`. stands_aside: returns whether the free room is reserved for
        documents.
        """
        self._file: Database[PartitionWrite] = Database(path, _CACHE_KIB, synchronous)
        self._counter = Path(f"{path}.life")
        self._ballast = Ballast(Path(f"{path}.ballast"), ballast_bytes)
        self._stands_aside = stands_aside
        self._reserve_from = 0.0
        self._writer: PartitionWriter | None = None
        self._is_old = False

    async def open(self) -> StreamsRecovered:
        """Open or create the file, count the boot, and return the content.

        Raises StoreBroken when another process has the file, it belongs to another program or
        cannot be read, and DiskFull when there is no room to count the boot. Nothing stays open
        then.
        """
        try:
            return await self._opened()
        except DiskFull:
            if not self._ballast.release():
                raise
            return await self._opened()

    async def _opened(self) -> StreamsRecovered:
        async with self._file.opening(self._prepared):
            return await self._file.run("reader", self._recovered)

    def _prepared(self, connection: sqlite3.Connection) -> PartitionWriter:
        writer = self._writer = PartitionWriter(connection, self._file.log)
        self._is_old = writer.prepare(open_counter.read(self._counter))
        open_counter.write(self._counter, writer.line.boot)
        self._ballast.reserve()
        return writer

    def _recovered(self, connection: sqlite3.Connection) -> StreamsRecovered:
        assert self._writer is not None
        return partition_reading.recovered(connection, self._writer.line, is_old=self._is_old)

    async def commit(self, writes: Sequence[PartitionWrite]) -> None:
        makes_room = all(isinstance(each, _MAKES_ROOM) for each in writes)
        if self._stands_aside() and not makes_room:
            raise DiskFull("the disk is full: its last room is reserved for documents")
        try:
            await self._file.commit(writes)
        except DiskFull:
            if not makes_room or not self._ballast.release():
                raise
            await self._file.commit(writes)
        await self._reserve()

    async def _reserve(self) -> None:
        """Reserve the ballast again if it was released and there is room for it."""
        if self._ballast.is_held:
            return
        now = asyncio.get_running_loop().time()
        if now >= self._reserve_from and not self._stands_aside():
            self._reserve_from = now + RESERVE_S
            await self._file.run(WRITER, lambda _: self._ballast.reserve())

    async def read(self, queries: Sequence[PartitionQuery]) -> list[PartitionResult]:
        return await self._file.run("reader", partial(_answer, queries))

    async def close(self) -> None:
        await self._file.close()


def _answer(
    queries: Sequence[PartitionQuery], connection: sqlite3.Connection
) -> list[PartitionResult]:
    return partition_reading.answer(connection, queries)
