"""All or nothing on a connection to SQLite, and what its errors tell us.

We copy the log back into the file ourselves. SQLite would do so inside a commit and drop every
error of it; and after an fsync that failed, the next one may report success for pages that the
kernel has already given up (Rebello et al., 2020, "Can applications recover from fsync
failures?"). So a failed copy is as final as a failed commit.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain

from docstore.errors import DiskFull, StoreBroken, StoreDamaged, StoreError
from docstore.storage.tables import Insert

WAL_PAGES = 4000
"""Copy the log back when it has about this many pages of 4 KiB, so that it stays at 16 MiB."""

WAL_BYTES_MAX = 48 << 20
"""Wait for the readers and make the log short again once its file is longer than this."""

FILE_ERRORS = (sqlite3.Error, UnicodeDecodeError)
"""The second one when SQLite quotes what it found in a damaged schema."""

_UNREADABLE = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_IOERR}


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All or nothing, and errors of SQLite as errors of ours."""
    try:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("COMMIT")
    except BaseException as error:
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        except sqlite3.Error as failed:
            raise StoreBroken(f"rolling back: {failed}") from error
        if isinstance(error, FILE_ERRORS):
            raise translated(error) from error
        raise


@contextmanager
def translating() -> Iterator[None]:
    """Errors of SQLite and of the file as errors of ours, beside a transaction."""
    try:
        yield
    except (*FILE_ERRORS, OSError) as error:
        raise translated(error) from error


@contextmanager
def snapshot(connection: sqlite3.Connection) -> Iterator[None]:
    """Read everything inside from one state; what cannot be read at all is StoreBroken."""
    try:
        connection.execute("BEGIN")
        try:
            yield
        finally:
            connection.execute("ROLLBACK")
    except FILE_ERRORS as error:
        raise translated(error) from error


def copy_back(connection: sqlite3.Connection, mode: str) -> int:
    """Copy the log into the file and return how many pages the log had; 0 if not known."""
    try:
        _, pages, _ = connection.execute(f"PRAGMA wal_checkpoint({mode})").fetchone()
    except sqlite3.Error as error:
        if is_busy(error) or is_full(error):
            return 0  # The log still holds it all; we come back later.
        raise StoreBroken(f"copying the log back: {error}") from error
    return max(0, int(pages))


def insert(
    connection: sqlite3.Connection, statement: Insert, lines: Sequence[Sequence[object]]
) -> None:
    """Put lines in, with as few statements as there are for so many."""
    done = 0
    for size, text in statement.items():
        while len(lines) - done >= size:
            values = chain.from_iterable(lines[done : done + size])
            connection.execute(text, tuple(values))
            done += size


def translated(error: Exception) -> StoreError:
    """Return what a caller may conclude from an error of a transaction that was rolled back."""
    if is_full(error):
        return DiskFull(str(error))
    name = getattr(error, "sqlite_errorname", type(error).__name__)
    # A constraint that fails is damage too: rows are numbered by us, and were verified when read.
    damaged = name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_CONSTRAINT"))
    return (StoreDamaged if damaged else StoreBroken)(f"{error} ({name})")


def is_full(error: Exception) -> bool:
    """Return whether there was no room. SHMSIZE: for the index of the log, before any write."""
    return getattr(error, "sqlite_errorcode", 0) in {
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR_SHMSIZE,
    }


def is_busy(error: sqlite3.Error) -> bool:
    """Return whether another process holds a lock: a reader, or a tool of the operator."""
    primary = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return primary in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


def is_unreadable(error: Exception) -> bool:
    """Return whether the fault lies in the file, rather than in what we asked."""
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:
        return not isinstance(error, sqlite3.ProgrammingError)  # Text that is not UTF-8.
    if is_full(error):
        return False  # No room for the index of the log: nothing is known of the row.
    return code & 0xFF in _UNREADABLE
