"""Transactions on a connection to SQLite, and the meaning of its errors.

The store copies the log back into the file itself. SQLite would do so inside a commit and drop
every error of it. And after a failed fsync, the next one may report success for pages that the
kernel has already dropped (Rebello et al., 2020, "Can applications recover from fsync failures?").
So a failed copy is as final as a failed commit.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain

from docstore.errors import DiskFull, StoreBroken, StoreDamaged, StoreError
from docstore.storage.inserts import Insert

WAL_PAGES = 4000
"""Approximate pages of 4 KiB from which the log is copied back, so that it stays at 16 MiB."""

WAL_BYTES_MAX = 48 << 20
"""Size of the log from which the writer waits for the readers and truncates it."""

FILE_ERRORS = (sqlite3.Error, UnicodeDecodeError)
"""UnicodeDecodeError: SQLite quotes the text of a damaged schema."""

_UNREADABLE = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_IOERR}


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Commit all or nothing, and translate errors of SQLite."""
    try:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("COMMIT")
    except BaseException as error:
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        except sqlite3.Error as failed:
            raise StoreBroken(f"rolling back failed: {failed}") from error
        if isinstance(error, FILE_ERRORS):
            raise translated(error) from error
        raise


@contextmanager
def translating() -> Iterator[None]:
    """Translate errors of SQLite and of the file outside of a transaction."""
    try:
        yield
    except (*FILE_ERRORS, OSError) as error:
        raise translated(error) from error


@contextmanager
def snapshot(connection: sqlite3.Connection) -> Iterator[None]:
    """Run the body in one read transaction. Raises StoreBroken when the file is unreadable."""
    try:
        connection.execute("BEGIN")
        try:
            yield
        finally:
            connection.execute("ROLLBACK")
    except FILE_ERRORS as error:
        raise translated(error) from error


def copy_back(connection: sqlite3.Connection, mode: str) -> int:
    """Copy the log into the file. Return the number of its pages; 0 if not known."""
    try:
        _, pages, _ = connection.execute(f"PRAGMA wal_checkpoint({mode})").fetchone()
    except sqlite3.Error as error:
        if is_busy(error) or is_full(error):
            return 0  # The log still holds everything; a later commit retries the copy.
        raise StoreBroken(f"copying the log into the file failed: {error}") from error
    return max(0, int(pages))


def insert(
    connection: sqlite3.Connection, statement: Insert, lines: Sequence[Sequence[object]]
) -> None:
    done = 0
    for size, text in statement.items():
        while len(lines) - done >= size:
            values = chain.from_iterable(lines[done : done + size])
            connection.execute(text, tuple(values))
            done += size


def translated(error: Exception) -> StoreError:
    """Return the error for the caller, after a transaction that was rolled back."""
    if is_full(error):
        return DiskFull(str(error))
    name = getattr(error, "sqlite_errorname", type(error).__name__)
    # A failed constraint is damage too: the store numbers the rows, and verified them when read.
    damaged = name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_CONSTRAINT"))
    return (StoreDamaged if damaged else StoreBroken)(f"{error} ({name})")


def is_full(error: Exception) -> bool:
    """Return whether there was no room.

    SHMSIZE means no room for the index of the log, before any write.
    """
    return getattr(error, "sqlite_errorcode", 0) in {
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR_SHMSIZE,
    }


def is_busy(error: sqlite3.Error) -> bool:
    """Return whether another process holds a lock: a reader, or a tool of the operator."""
    primary = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return primary in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


def is_unreadable(error: Exception) -> bool:
    """Return whether the fault is in the file rather than in the statement."""
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:
        # UnicodeDecodeError: text in the file is not UTF-8.
        return not isinstance(error, sqlite3.ProgrammingError)
    if is_full(error):
        return False  # SQLite had no room for the index of its log: the row may be whole.
    return code & 0xFF in _UNREADABLE
