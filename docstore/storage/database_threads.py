"""Connections to SQLite on threads of their own, for the stores that are one file each.

Every call costs one hop to a thread and back, about as much as ten point reads, however many
statements it needs. aiosqlite owns the threads. It has a call for each statement, but none that
runs a function. So a subclass of sqlite3.Connection has a `commit` that runs the next function in
its queue, and one `commit` of aiosqlite is one hop.
"""

import fcntl
import os
import sqlite3
from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

import aiosqlite

from docstore.errors import StoreInUse
from docstore.model import durable_files

T = TypeVar("T")

Synchronous = Literal["FULL", "NORMAL", "OFF"]

PRAGMAS = (
    "journal_mode = WAL",
    "foreign_keys = OFF",
    "trusted_schema = OFF",
    "cell_size_check = ON",  # Find a damaged page when it is read, not when it is used.
    # The writer copies the log back itself, since SQLite would hide errors.
    "wal_autocheckpoint = 0",
    "journal_size_limit = 67108864",
    "mmap_size = 0",  # An error of the disk in mapped memory is a SIGBUS, not an error code.
    "temp_store = MEMORY",
    "secure_delete = OFF",  # Debian's builds else overwrite each freed page with zeros.
)


def configure(
    connection: sqlite3.Connection, cache_kib: int, synchronous: Synchronous, *, writes: bool
) -> None:
    """Set the pragmas of a new connection."""
    for pragma in PRAGMAS:
        connection.execute(f"PRAGMA {pragma}")
    connection.execute(f"PRAGMA cache_size = -{cache_kib}")
    connection.execute(f"PRAGMA synchronous = {synchronous}")
    if not writes:
        connection.execute("PRAGMA query_only = ON")


def locked(path: Path) -> int:
    """Return a descriptor that holds the lock of the store until it is closed.

    Also creates the file, readable by its owner only; SQLite gives its log the same mode. The lock
    comes first: closing any descriptor of the file would release the locks that SQLite itself holds
    on it.
    """
    lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not path.exists():
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            durable_files.sync(path.parent)
    except OSError as error:
        os.close(lock)
        if isinstance(error, BlockingIOError):
            raise StoreInUse(
                f"{path} is in use by another process: stop that process, or name another directory"
            ) from error
        raise
    return lock


_Job = Callable[[sqlite3.Connection], None]


class _Connection(sqlite3.Connection):
    """A connection whose `commit` runs the next job of its queue, in its thread."""

    def __init__(self, jobs: deque[_Job], *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._jobs = jobs

    def commit(self) -> None:
        if self._jobs:
            self._jobs.popleft()(self)
        else:
            super().commit()


class DatabaseThread:
    """One connection on one thread; it runs jobs in order, one hop each."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._jobs: deque[_Job] = deque()
        self._connection: aiosqlite.Connection | None = None

    async def open(self) -> None:
        """Start the thread and connect."""
        self._connection = await aiosqlite.connect(
            self._path,
            factory=partial(_Connection, self._jobs),
            isolation_level=None,  # `transactions.py` executes BEGIN.
            timeout=5.0,  # Seconds to wait while a tool of the operator has the file locked.
        )

    async def run(self, job: Callable[[sqlite3.Connection], T]) -> T:
        """Return the result of `job`. The job runs even if the caller is cancelled."""
        assert self._connection is not None
        results: list[T] = []
        # No await between these two, so that each hop runs its own job.
        self._jobs.append(lambda connection: results.append(job(connection)))
        await self._connection.commit()
        return results[0]

    async def close(self) -> None:
        """Finish the job under way and end the thread."""
        if self._connection is not None:
            await self._connection.close()
