"""A node's store on a disk in memory: the product's code, with the time of threads and disks."""

import asyncio
import contextlib
import sqlite3
from collections.abc import Callable, Collection, Iterable, Sequence
from contextvars import copy_context
from random import Random
from typing import TypeVar, cast

from docstore.errors import StoreBroken, StoreError
from docstore.model.document import Row
from docstore.storage import listing, reading
from docstore.storage.journal import PAGE
from docstore.storage.journal_thread import Written
from docstore.storage.journalling import Journalling
from docstore.storage.overlaid import Overlaid
from docstore.storage.ring import Entry
from docstore.storage.sqlite import committed, unheard
from docstore.storage.starting import Sizes, start
from docstore.storage.store import Bounds, Query, Recovered, Result, Rows, Then, Write
from docstore.storage.writing import Writer
from tests.disk.connection import Connection
from tests.disk.disk import Disk, Failed
from tests.disk.failures import error_of_disk
from tests.disk.files import DiskOfFiles
from tests.disk.script import NO_FILE
from tests.disk.vfs import Vfs

T = TypeVar("T")

SIZES = Sizes(file_bytes=64 * PAGE, files_max=4)


class SimulatedStore:
    """A `Store` on a disk that survives it."""

    def __init__(self, disk: Disk, name: str, rng: Random) -> None:
        self.disk, self._name, self._rng = disk, name, rng
        self.full = False
        self.failing = False
        self.broken: Callable[[BaseException], None] = unheard
        self.slowness = 1.0
        self.has_ballast = True
        self._vfs: Vfs | None = None
        self._connection: Connection | None = None
        self._under_way: dict[object, Callable[[], object]] = {}
        """Work of threads that is under way: the power may be cut within it."""

    async def open(self) -> Recovered:
        """Open or create the file and its journal, and count the boot."""
        self._context = copy_context()  # The context of this life, for callers of any life.
        self._vfs = Vfs(self.disk)
        self._connection = Connection(self._vfs)
        files = DiskOfFiles(self.disk)
        started = start(self._raw, NO_FILE, files, self._name, SIZES)
        self._writer: Writer = started.writer
        self._journalling = Journalling(
            self, started, _Journal(self, files), self, broken=self._tell
        )
        self._answers = Overlaid(
            self._journalling.overlay, _Tables(self), self._journalling.followed
        )
        self.disk.before = self._fault
        return reading.recovered(self._raw)

    def _tell(self, error: BaseException) -> None:
        self.broken(error)

    def _fault(self, call: str) -> None:
        if self.full and self.has_ballast and call == "write":
            raise Failed(call, full=True)
        if self.failing and call == "sync":
            raise error_of_disk(call)

    @property
    def _raw(self) -> sqlite3.Connection:
        return cast("sqlite3.Connection", self._connection)

    async def time_passes(self, least_s: float, more_s: float) -> None:
        """Return after a while."""
        await asyncio.sleep((least_s + self._rng.random() * more_s) * self.slowness)

    # As the threads of the database, the journal's thread, and the ballast of a real store.

    async def run(self, role: str, job: Callable[[sqlite3.Connection], T]) -> T:
        """Run a writer's job, after a while; sometimes the log is copied back as well."""
        self._under_way[role] = lambda: job(self._raw)
        try:
            await self.time_passes(0.0005, 0.02)
        finally:
            del self._under_way[role]
        done = job(self._raw)
        if self._rng.random() < 0.02:
            self._writer.copy_back("PASSIVE")
        return done

    def refuse(self, error: StoreBroken) -> None:
        """Do nothing: there is no other writer."""

    def reserve(self) -> bool:
        """Take room, if there is some."""
        self.has_ballast = not self.full
        return self.has_ballast

    def release(self) -> bool:
        """Give the room back."""
        had, self.has_ballast = self.has_ballast, False
        return had

    def left(self, size: int) -> float:
        """Return a share of the room: others use what was given back as well."""
        return self._rng.random()

    def written(self, entry: Entry, files: DiskOfFiles, then: Written) -> None:
        """Write an entry after a while."""
        self._under_way[entry] = lambda: files.write(entry.file, entry.offset, entry.parts)

        def write() -> None:
            self._under_way.pop(entry)()
            then(None)

        def attempt() -> None:
            try:
                write()
            except OSError as error:
                then(error)

        delay = (0.0003 + self._rng.random() * 0.003) * self.slowness
        asyncio.get_running_loop().call_later(delay, attempt, context=self._context)

    # As a store.

    @property
    def is_full(self) -> bool:
        """Return whether the disk is full."""
        return self._journalling.is_full

    def submit(self, writes: Sequence[Write], then: Then) -> None:
        """Write after a while."""
        self._journalling.submit(writes, then)

    async def commit(self, writes: Sequence[Write]) -> None:
        """Return when it is written."""
        await committed(self.submit, writes)

    def behind(self, slots: Iterable[int]) -> dict[int, int]:
        """Return slot -> n of the first row that the file lacks."""
        return self._journalling.overlay.behind(slots)

    def hurry(self) -> None:
        """Let the file follow."""
        self._journalling.hurry()

    async def read(self, queries: Sequence[Query]) -> list[Result]:
        """Answer after a while, from what is durable by then."""
        return await self._answers.read(queries)

    async def recover(self) -> Recovered:
        """Read the content again."""
        return await self._answers.recover()

    async def links(
        self, prefix: str, after: str, limit: int, until: Bounds, *, level: int = 3
    ) -> list[tuple[int, str, int]]:
        """List live documents, after a while."""
        return await self._answers.links(prefix, after, limit, until, level=level)

    async def count(self, prefix: str, until: Bounds, *, level: int = 3) -> dict[int, int]:
        """Count live documents, after a while."""
        return await self._answers.count(prefix, until, level=level)

    async def below(self, prefix: str, slots: Collection[int]) -> list[Row]:
        """List documents below a prefix, after a while."""
        return await self._answers.below(prefix, slots)

    async def digests(self, slots: Sequence[int]) -> dict[int, tuple[int, int, str]]:
        """Return the digests of slots."""
        return await self._answers.digests(slots)

    def row(self, slot: int, n: int) -> Row:
        """Return a row at once, for checks from outside."""
        for row in reversed(self._journalling.backlog.rows_of(slot)):
            if row.n == n:
                return row
        [rows] = reading.answer(self._raw, [Rows(slot, n, n)])
        assert isinstance(rows, list)
        return rows[0]

    def measures(self) -> dict[str, float]:
        """Return the measures of the journal."""
        return self._journalling.measures()

    async def close(self) -> None:
        """Give the file back."""
        await self._journalling.close()

    def lose_power(self) -> Disk:
        """Return the disk after a cut of power, perhaps within the work under way."""
        for work in list(self._under_way.values()):
            if self._rng.random() < 0.5:
                self._stop_within(work)
        after = self.disk.cut(self._rng)
        self.disk.before = lambda call: None
        if self._connection is not None and self._vfs is not None:
            self._connection.close()
            self._vfs.unregister()
        return after

    def _stop_within(self, work: Callable[[], object]) -> None:
        left = self._rng.randrange(12)

        def stop(call: str) -> None:
            nonlocal left
            left -= call != "read"
            if left < 0:
                raise error_of_disk(call)

        self.disk.before = stop
        with contextlib.suppress(StoreError, OSError):  # It ends in the middle.
            work()


class _Journal:
    """A `JournalWriter` in simulated time."""

    def __init__(self, store: SimulatedStore, files: DiskOfFiles) -> None:
        self._store, self._files = store, files

    def write(self, entry: Entry, then: Written) -> None:
        """Write an entry after a while."""
        self._store.written(entry, self._files, then)

    def close(self) -> None:
        """Do nothing: submitted entries are written in time."""


class _Tables:
    """Content of the file alone, after a while."""

    def __init__(self, store: SimulatedStore) -> None:
        self._store = store

    async def _later(self) -> sqlite3.Connection:
        await self._store.time_passes(0.0001, 0.001)
        return self._store._raw

    async def read(self, queries: Sequence[Query]) -> list[Result]:
        """Answer from the tables."""
        return reading.answer(await self._later(), queries)

    async def recover(self) -> Recovered:
        """Return what is in the tables."""
        return reading.recovered(await self._later())

    async def links(
        self, prefix: str, after: str, limit: int, until: Bounds, *, level: int = 3
    ) -> list[tuple[int, str, int]]:
        """List from the tables."""
        return listing.links(await self._later(), prefix, after, limit, until, level=level)

    async def count(self, prefix: str, until: Bounds, *, level: int = 3) -> dict[int, int]:
        """Count in the tables."""
        return listing.count(await self._later(), prefix, until, level=level)

    async def below(self, prefix: str, slots: Collection[int]) -> list[Row]:
        """List from the tables."""
        return listing.below(await self._later(), prefix, slots)

    async def digests(self, slots: Sequence[int]) -> dict[int, tuple[int, int, str]]:
        """Return digests from the tables."""
        return listing.digests(await self._later(), slots)
