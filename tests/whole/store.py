"""The SQL of a release on a disk in memory, with the time that a disk takes."""

import asyncio
import contextlib
import sqlite3
from collections.abc import Collection, Sequence
from random import Random
from typing import Any, cast

from docstore.errors import StoreBroken
from docstore.model.document import Row
from docstore.storage import listing, reading
from docstore.storage.store import (
    UNBOUNDED,
    Bounds,
    Query,
    Recovered,
    Result,
    Rows,
    Then,
    Write,
)
from docstore.storage.submitting import Submissions, committed, unheard
from docstore.storage.writing import Writer
from tests.disk.connection import Connection
from tests.disk.disk import Disk
from tests.disk.failures import error_of_disk, no_room
from tests.disk.script import NO_FILE
from tests.disk.vfs import Vfs


class SimulatedStore:
    """A `Store` on a disk that outlives it."""

    def __init__(self, disk: Disk, name: str, rng: Random) -> None:
        self.disk, self._name, self._rng = disk, name, rng
        self.full = False
        self.failing = False
        self.broken = unheard
        self.slowness = 1.0
        self._vfs: Vfs | None = None
        self._connection: Connection | None = None
        self._writer: Writer | None = None
        self._committing: Sequence[Write] | None = None
        self._submissions = Submissions(self._commit)

    async def open(self) -> Recovered:
        """Open or create the file, and count the boot."""
        self._vfs = Vfs(self.disk)
        self._connection = Connection(self._vfs)
        self._writer = Writer(self._raw, NO_FILE)
        self._writer.prepare(self._name)
        self.disk.before = self._fault
        return reading.recovered(self._raw)

    def _fault(self, call: str) -> None:
        error = no_room(call) if self.full else None
        if self.failing and call == "sync":
            error = error_of_disk(call)
        if error is not None:
            raise error

    @property
    def _raw(self) -> sqlite3.Connection:
        return cast("sqlite3.Connection", self._connection)

    async def _time_passes(self, least_s: float, more_s: float) -> None:
        await asyncio.sleep((least_s + self._rng.random() * more_s) * self.slowness)

    def submit(self, writes: Sequence[Write], then: Then) -> None:
        """Write after a while."""
        self._submissions.submit(writes, then)

    async def commit(self, writes: Sequence[Write]) -> None:
        """Return when it is written."""
        await committed(self.submit, writes)

    def behind(self, slot: int) -> int:
        """Return UNBOUNDED: what is committed is in the file."""
        return UNBOUNDED

    def hurry(self) -> None:
        """Do nothing: what is committed is in the file."""

    async def _commit(self, writes: Sequence[Write]) -> None:
        assert self._writer is not None
        self._committing = writes
        try:
            await self._time_passes(0.0005, 0.004)
            self._writer.commit(writes)
            if self._rng.random() < 0.02:
                self._writer.copy_back("PASSIVE")
        finally:
            self._committing = None

    async def read(self, queries: Sequence[Query]) -> list[Result]:
        """Answer after a while, from what is committed by then."""
        await self._time_passes(0.0001, 0.001)
        return reading.answer(self._raw, queries)

    async def recover(self) -> Recovered:
        """Read again what is there."""
        return reading.recovered(self._raw)

    async def links(
        self, prefix: str, after: str, limit: int, until: Bounds, *, level: int = 3
    ) -> list[tuple[int, str, int]]:
        """List live documents, after a while."""
        await self._time_passes(0.0001, 0.001)
        return listing.links(self._raw, prefix, after, limit, until, level=level)

    async def count(self, prefix: str, until: Bounds, *, level: int = 3) -> dict[int, int]:
        """Count live documents, after a while."""
        await self._time_passes(0.0001, 0.001)
        return listing.count(self._raw, prefix, until, level=level)

    async def below(self, prefix: str, slots: Collection[int]) -> list[Row]:
        """List what lies below, after a while."""
        await self._time_passes(0.0001, 0.001)
        return listing.below(self._raw, prefix, slots)

    async def digests(self, slots: Sequence[int]) -> dict[int, tuple[int, int, str]]:
        """Return the digests of slots."""
        return listing.digests(self._raw, slots)

    def row(self, slot: int, n: int) -> Row:
        """Return a row at once, for whoever looks in from outside."""
        [rows] = reading.answer(self._raw, [Rows(slot, n, n)])
        assert isinstance(rows, list)
        return rows[0]

    async def size_bytes(self) -> int:
        """Return the bytes of all files."""
        return sum(len(file.now) for file in self.disk.files.values())

    async def close(self) -> None:
        """Give the file back."""

    def lose_power(self) -> Disk:
        """Return the disk as it is found after a cut of power, perhaps within a commit."""
        if self._committing is not None and self._writer is not None and self._rng.random() < 0.5:
            left = self._rng.randrange(12)

            def stop(call: str) -> None:
                nonlocal left
                left -= call != "read"
                if left < 0:
                    raise error_of_disk(call)

            self.disk.before = stop
            with contextlib.suppress(StoreBroken):  # It ends in the middle.
                self._writer.commit(self._committing)
        after: Any = self.disk.cut(self._rng)
        self.disk.before = lambda call: None
        if self._connection is not None and self._vfs is not None:
            self._connection.close()
            self._vfs.unregister()
        return cast("Disk", after)
