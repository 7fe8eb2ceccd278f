"""Storage of streams: one SQLite file, one writer and one reader, each on a thread of its own.

A file beside that of documents, so that neither waits for what the other writes (see decision 21).
Durable means what it means there: WAL and synchronous=FULL, one fsync of the log per commit, for
all partitions of the node.

A disk without room is no failure: what was asked is rolled back, and may be asked again, of the
same object. After anything else the store refuses all further writes and the process ends.
"""

import sqlite3
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from docstore.storage import life, partition_reading
from docstore.storage.database import Database
from docstore.storage.lanes import Synchronous
from docstore.storage.partition_writing import PartitionWriter
from docstore.storage.partitions import (
    PartitionQuery,
    PartitionResult,
    PartitionWrite,
    StreamsRecovered,
)

_CACHE_KIB = {"writer": 8 << 10, "reader": 8 << 10}
"""Batches are written once and mostly read from the tail's memory; what needs to stay is the upper
part of the tree."""


class SqliteStreamStore:
    """A `StreamStore` in the file `path`; beside it lies a count of its lives."""

    def __init__(self, path: str | Path, *, synchronous: Synchronous = "FULL") -> None:
        """Do nothing yet. synchronous: as for `Database`."""
        self._file: Database[PartitionWrite] = Database(path, _CACHE_KIB, synchronous)
        self._life = Path(f"{path}.life")
        self._writer: PartitionWriter | None = None
        self._is_old = False

    async def open(self) -> StreamsRecovered:
        """Open or create the file, count the boot, and return what is there.

        Raises StoreBroken when another process has it, it is not ours, or cannot be read, and
        DiskFull when there is no room to count the boot. Nothing stays open then.
        """
        async with self._file.opening(self._prepared):
            return await self._file.run("reader", self._recovered)

    def _prepared(self, connection: sqlite3.Connection) -> PartitionWriter:
        writer = self._writer = PartitionWriter(connection, self._file.log)
        self._is_old = writer.prepare(life.read(self._life))
        life.write(self._life, writer.line.boot)
        return writer

    def _recovered(self, connection: sqlite3.Connection) -> StreamsRecovered:
        assert self._writer is not None
        return partition_reading.recovered(connection, self._writer.line, is_old=self._is_old)

    async def commit(self, writes: Sequence[PartitionWrite]) -> None:
        """Return once all of `writes` would survive a power cut."""
        await self._file.commit(writes)

    async def read(self, queries: Sequence[PartitionQuery]) -> list[PartitionResult]:
        """Answer queries from one consistent snapshot, in their order."""
        return await self._file.run("reader", partial(_answer, queries))

    async def size_bytes(self) -> int:
        """Return the bytes of the file, its log and the log's index."""
        return await self._file.size_bytes()

    async def close(self) -> None:
        """Finish what is under way and give everything back, the lock last."""
        await self._file.close()


def _answer(
    queries: Sequence[PartitionQuery], connection: sqlite3.Connection
) -> list[PartitionResult]:
    return partition_reading.answer(connection, queries)
