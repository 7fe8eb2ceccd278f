"""Storage of a node: one SQLite file, one writer, three readers, each on a thread of its own.

Every call costs one hop to a thread and back, however many statements it needs: a hop costs
about as much as ten point reads. aiosqlite owns the threads and has a call for each statement,
but none for "run this function"; so our connections are a subclass of sqlite3.Connection whose
`commit` runs the function that waits for it, and one `commit` of aiosqlite is one hop.

Point reads, pages of a log and listings have different readers, so that neither a copy to a
replica nor a digest over a whole slot stands in the way of a GET.

Durable means: WAL and synchronous=FULL, one fsync of the log per batch. After any failure but
a full disk the store refuses all further writes (see `writing.py` for why), and the process
ends. A lock file keeps a second process away: two nodes on one disk would both use its promises.
"""

import fcntl
import os
import sqlite3
import uuid
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

import aiosqlite
from sqlalchemy import URL
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine
from sqlalchemy.pool import NullPool

from docstore.errors import StoreBroken
from docstore.storage import listing, reading
from docstore.storage.store import LONG, Bounds, Query, Recovered, Result, Write
from docstore.storage.writing import FILE_ERRORS, Writer

T = TypeVar("T")

Synchronous = Literal["FULL", "NORMAL", "OFF"]

PRAGMAS = (
    "journal_mode = WAL",
    "foreign_keys = OFF",
    "trusted_schema = OFF",
    "cell_size_check = ON",  # Find a damaged page when it is read, not when it is used.
    "wal_autocheckpoint = 0",  # The writer does it, since SQLite would hide errors.
    "journal_size_limit = 67108864",
    "mmap_size = 0",  # An error of the disk in mapped memory is a SIGBUS, not an error code.
    "temp_store = MEMORY",
)

_CACHE_KIB = {"writer": 32 << 10, "reader": 16 << 10, "pager": 4 << 10, "lister": 8 << 10}
"""Pages of SQLite's own, in KiB. Modest, since the kernel caches the file as well."""


class SqliteStore:
    """A `Store` in the file `path`; beside it lie its log, the log's index and the lock."""

    def __init__(self, path: str | Path, *, synchronous: Synchronous = "FULL") -> None:
        """Do nothing yet.

        synchronous: FULL, or for measurements only NORMAL (a power cut loses the newest batches,
        so promises too) and OFF.
        """
        assert synchronous in {"FULL", "NORMAL", "OFF"}
        self._path = Path(path)
        self._synchronous = synchronous
        self._stack = AsyncExitStack()
        self._lanes: dict[str, _Lane] = {}
        self._writer: Writer | None = None
        self._broken: str | None = None

    async def open(self) -> Recovered:
        """Open or create the file, count the boot, and return what is there.

        Raises StoreBroken when another process has it, it is not ours, or cannot be read, and
        DiskFull when there is no room to count the boot. Nothing stays open then.
        """
        assert not self._lanes, "open already"
        try:
            self._stack.callback(os.close, _locked(self._path))
            for role in _CACHE_KIB:
                lane = self._lanes[role] = _Lane(self._path)
                self._stack.push_async_callback(lane.close)
                await lane.open()
                await lane.run(partial(_configure, role, self._synchronous))
                if role == "writer":
                    self._writer = await lane.run(self._prepared)
            self._stack.push_async_callback(self._copy_back)
            return await self.recover()
        except (*FILE_ERRORS, SQLAlchemyError, OSError) as error:
            await self.close()
            raise StoreBroken(f"{self._path}: {error}") from error
        except BaseException:
            await self.close()
            raise

    def _prepared(self, connection: sqlite3.Connection) -> Writer:
        writer = Writer(connection, Path(f"{self._path}-wal"))
        writer.prepare(uuid.uuid4().hex)
        return writer

    async def commit(self, writes: Sequence[Write]) -> None:
        """Return once all of `writes` would survive a power cut."""
        if self._broken is not None:
            raise StoreBroken(self._broken)
        await self._lane("writer").run(partial(self._commit, writes))

    def _commit(self, writes: Sequence[Write], connection: sqlite3.Connection) -> None:
        """Run in the writer's thread, so that a failure counts even if nobody waits any more."""
        if self._broken is not None:
            raise StoreBroken(self._broken)
        assert self._writer is not None
        try:
            self._writer.commit(writes)
        except StoreBroken as error:
            self._broken = str(error)
            raise

    async def read(self, queries: Sequence[Query]) -> list[Result]:
        """Answer queries from one consistent snapshot, in their order."""
        is_long = any(isinstance(query, LONG) for query in queries)
        return await self._lane("pager" if is_long else "reader").run(partial(_answer, queries))

    async def recover(self) -> Recovered:
        """Read again what `open` found, without counting a boot."""
        return await self._lane("lister").run(reading.recovered)

    async def links(
        self, prefix: str, after: str, limit: int, until: Bounds, *, level: int = 3
    ) -> list[tuple[int, str, int]]:
        """Return live direct children of `prefix` after `after`, by link."""

        def job(connection: sqlite3.Connection) -> list[tuple[int, str, int]]:
            return listing.links(connection, prefix, after, limit, until, level=level)

        return await self._lane("lister").run(job)

    async def count(self, prefix: str, until: Bounds, *, level: int = 3) -> dict[int, int]:
        """Return slot -> how many live direct children `prefix` has."""

        def job(connection: sqlite3.Connection) -> dict[int, int]:
            return listing.count(connection, prefix, until, level=level)

        return await self._lane("lister").run(job)

    async def digests(self, slots: Sequence[int]) -> dict[int, tuple[int, int, str]]:
        """Return slot -> (end, number of links, digest)."""

        def job(connection: sqlite3.Connection) -> dict[int, tuple[int, int, str]]:
            return listing.digests(connection, slots)

        return await self._lane("lister").run(job)

    async def size_bytes(self) -> int:
        """Return the bytes of the file, its log and the log's index."""
        files = (Path(f"{self._path}{end}") for end in ("", "-wal", "-shm"))
        return sum(file.stat().st_size for file in files if file.exists())

    async def close(self) -> None:
        """Finish what is under way and give everything back, the lock last."""
        stack, self._stack = self._stack, AsyncExitStack()
        try:
            await stack.aclose()
        finally:
            self._lanes, self._writer = {}, None

    async def _copy_back(self) -> None:
        """Copy the log into the file, while an error can still be seen."""
        writer = self._writer
        if writer is not None and self._broken is None:
            await self._lane("writer").run(lambda _: writer.copy_back("PASSIVE"))

    def _lane(self, role: str) -> "_Lane":
        assert role in self._lanes, "not open"
        return self._lanes[role]


def _answer(queries: Sequence[Query], connection: sqlite3.Connection) -> list[Result]:
    return reading.answer(connection, queries)


def _configure(role: str, synchronous: Synchronous, connection: sqlite3.Connection) -> None:
    for pragma in PRAGMAS:
        connection.execute(f"PRAGMA {pragma}")
    connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB[role]}")
    connection.execute(f"PRAGMA synchronous = {synchronous}")
    if role != "writer":
        connection.execute("PRAGMA query_only = ON")


def _locked(path: Path) -> int:
    """Return a descriptor that holds the lock of the store, until it is closed.

    Then creates the file, for its owner's eyes only; SQLite gives its log the same mode. In this
    order: closing any descriptor of the file would end the locks that SQLite itself holds on it.
    """
    lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not path.exists():
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            directory = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(directory)
            finally:
                os.close(directory)
    except OSError as error:
        os.close(lock)
        if isinstance(error, BlockingIOError):
            raise StoreBroken(f"{path} is in use by another process") from error
        raise
    return lock


_Job = Callable[[sqlite3.Connection], None]


class _Connection(sqlite3.Connection):
    """A connection whose `commit` runs the next job that waits for it, in its thread."""

    def __init__(self, jobs: deque[_Job], *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._jobs = jobs

    def commit(self) -> None:
        if self._jobs:
            self._jobs.popleft()(self)
        else:
            super().commit()


class _Lane:
    """One connection on one thread; what is asked of it is done in order, one hop each."""

    def __init__(self, path: Path) -> None:
        self._jobs: deque[_Job] = deque()
        self._engine = create_async_engine(
            URL.create("sqlite+aiosqlite", database=str(path)),
            poolclass=NullPool,
            connect_args={
                "factory": partial(_Connection, self._jobs),
                "isolation_level": None,  # We say BEGIN ourselves.
                "timeout": 5.0,  # For whoever looks into the file with a tool of his own.
            },
        )
        self._connection: AsyncConnection | None = None
        self._driver: aiosqlite.Connection | None = None

    async def open(self) -> None:
        """Start the thread and connect."""
        self._connection = await self._engine.connect()
        raw = await self._connection.get_raw_connection()
        driver = raw.driver_connection
        assert isinstance(driver, aiosqlite.Connection)
        self._driver = driver

    async def run(self, job: Callable[[sqlite3.Connection], T]) -> T:
        """Return what `job` returns for the connection; it is done even if we are cancelled."""
        assert self._driver is not None
        results: list[T] = []
        # No await between these two: the jobs and the hops to them stay in step.
        self._jobs.append(lambda connection: results.append(job(connection)))
        await self._driver.commit()
        return results[0]

    async def close(self) -> None:
        """Finish what is under way and end the thread."""
        try:
            if self._connection is not None:
                await self._connection.close()
        finally:
            await self._engine.dispose()
