"""One SQLite file of a node: its lock, its threads, and no write after a failure.

A lock file keeps a second process away. The first thread writes, the others read; each has a
connection of its own (`database_threads.py`). After any failure but a full disk the store refuses
all writes (`transactions.py` says why), and the process ends.
"""

import errno
import os
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from docstore.errors import DiskFull, StoreBroken
from docstore.storage.database_threads import DatabaseThread, Synchronous, configure, locked
from docstore.storage.transactions import FILE_ERRORS, is_full

T = TypeVar("T")
W = TypeVar("W")
W_contra = TypeVar("W_contra", contravariant=True)

WRITER = "writer"
NO_ROOM = {errno.ENOSPC, errno.EDQUOT}


class FileWriter(Protocol[W_contra]):
    """The writer of the file, which runs in the writer's thread."""

    def commit(self, writes: Sequence[W_contra]) -> None:
        """Return once all of `writes` would survive a power cut. Raises DiskFull, StoreBroken."""

    def copy_back(self, mode: str) -> object:
        """Copy the log into the file."""


class FileThreads(Protocol):
    """The part of a `Database` that the journal uses."""

    async def run(self, role: str, job: Callable[[sqlite3.Connection], T]) -> T:
        """Return the result of `job` on the connection of a thread."""

    def refuse(self, error: StoreBroken) -> None:
        """Refuse all writes from now on."""


class Database(Generic[W]):
    """The file `path`, with its log, the log's index and the lock next to it."""

    def __init__(
        self, path: str | Path, cache_kib: Mapping[str, int], synchronous: Synchronous
    ) -> None:
        """cache_kib: thread -> its SQLite page cache in KiB; the writer's first.

        synchronous: FULL in a node. Measurements may use NORMAL (a power cut loses the newest
        batches, promises included) or OFF.
        """
        assert synchronous in {"FULL", "NORMAL", "OFF"}
        assert next(iter(cache_kib)) == WRITER
        self.path = Path(path)
        self.log = Path(f"{path}-wal")
        self.threads: dict[str, DatabaseThread] = {}
        self._cache_kib = cache_kib
        self._synchronous = synchronous
        self._stack = AsyncExitStack()
        self._writer: FileWriter[W] | None = None
        self._broken: str | None = None

    @asynccontextmanager
    async def opening(
        self, prepare: Callable[[sqlite3.Connection], FileWriter[W]]
    ) -> AsyncIterator[None]:
        """Open or create the file. It stays open unless the body of the context fails.

        prepare: runs before any reader, to create or upgrade the tables. Raises StoreBroken when
        another process has the file, it belongs to another program or cannot be read, and DiskFull
        without room.
        """
        assert not self.threads, "open already"
        try:
            self._stack.callback(os.close, locked(self.path))
            for role in self._cache_kib:
                await self._open_thread(role)
                if role == WRITER:
                    self._writer = await self.run(WRITER, prepare)
            self._stack.push_async_callback(self._copy_back)
            yield
        except (*FILE_ERRORS, OSError) as error:
            await self.close()
            no_room = is_full(error) or (isinstance(error, OSError) and error.errno in NO_ROOM)
            raise (DiskFull if no_room else StoreBroken)(f"{self.path}: {error}") from error
        except BaseException:
            await self.close()
            raise

    async def _open_thread(self, role: str) -> None:
        thread = self.threads[role] = DatabaseThread(self.path)
        self._stack.push_async_callback(thread.close)
        await thread.open()

        def job(connection: sqlite3.Connection) -> None:
            cache_kib, writes = self._cache_kib[role], role == WRITER
            configure(connection, cache_kib, self._synchronous, writes=writes)

        await thread.run(job)

    async def run(self, role: str, job: Callable[[sqlite3.Connection], T]) -> T:
        assert role in self.threads, "not open"
        return await self.threads[role].run(job)

    async def commit(self, writes: Sequence[W]) -> None:
        """Return once all of `writes` would survive a power cut."""
        if self._broken is not None:
            raise StoreBroken(self._broken)
        await self.run(WRITER, partial(self._commit, writes))

    def _commit(self, writes: Sequence[W], _: sqlite3.Connection) -> None:
        """Run in the writer's thread, so that a failure counts even if the caller was cancelled."""
        if self._broken is not None:
            raise StoreBroken(self._broken)
        assert self._writer is not None
        try:
            self._writer.commit(writes)
        except StoreBroken as error:
            self._broken = str(error)
            raise

    def before_closing(self, callback: Callable[[], Awaitable[None]]) -> None:
        """Call `callback` at `close`, while the threads are still running."""
        self._stack.push_async_callback(callback)

    def refuse(self, error: StoreBroken) -> None:
        """Refuse all writes, since the journal of the file has failed."""
        self._broken = str(error)

    async def close(self) -> None:
        """Finish the operations under way and release everything, the lock last."""
        stack, self._stack = self._stack, AsyncExitStack()
        try:
            await stack.aclose()
        finally:
            self.threads, self._writer = {}, None

    async def _copy_back(self) -> None:
        """Copy the log into the file, while an error can still be reported."""
        writer = self._writer
        if writer is not None and self._broken is None:
            await self.run(WRITER, lambda _: writer.copy_back("PASSIVE"))
