"""The work of the one writer, on one SQLite connection, in whatever thread it is called.

A batch is one transaction. Its rows are inserted in the order in which the table is clustered,
as far as a Cut or an Erase of the same slot between them allows.

We copy the log back into the file ourselves. SQLite would do so inside a commit and drop every
error of it; and after an fsync that failed, the next one may report success for pages that the
kernel has already given up (Rebello et al., 2020, "Can applications recover from fsync
failures?"). So a failed copy is as final as a failed commit.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import assert_never

from docstore.document import Row, expiry_us
from docstore.errors import DiskFull, StoreBroken, StoreDamaged, StoreError
from docstore.storage import branching, packing, tables
from docstore.storage.arrivals import Arrive, Prune, SaveCursor, Stand
from docstore.storage.store import (
    Append,
    Base,
    Cut,
    Erase,
    Purge,
    SaveConfiguration,
    SaveSlot,
    Trim,
    Write,
)

WAL_PAGES = 4000
"""Copy the log back when it has about this many pages of 4 KiB, so that it stays at 16 MiB."""

WAL_BYTES_MAX = 48 << 20
"""Wait for the readers and make the log short again once its file is longer than this."""

FILE_ERRORS = (sqlite3.Error, UnicodeDecodeError)
"""The second one when SQLite quotes what it found in a damaged schema."""

_clustered = itemgetter(0, 4, 5)  # (slot, link, version) of a Row.


class Writer:
    """The writer's connection and how much it has written since the log was copied back."""

    def __init__(self, connection: sqlite3.Connection, wal: Path) -> None:
        self._connection = connection
        self._wal = wal
        self._changes = connection.total_changes
        self._changes_due = 1000

    def prepare(self, store_id: str) -> None:
        """Create the tables in an empty file, or check that they are ours; count the boot.

        store_id: the name of the disk if it is a new one.
        """
        execute = self._connection.execute
        with _transaction(self._connection):
            if not execute(tables.SCHEMA).fetchall():
                for statement in tables.CREATE:
                    execute(statement)
                schema = packing.schema_checksum(execute(tables.SCHEMA).fetchall())
                line = packing.NodeLine(packing.FORMAT, store_id, 1, None, schema)
                execute(tables.INSERT_NODE, line.columns())
            else:
                line = node_line(self._connection)
                if line.schema != packing.schema_checksum(execute(tables.SCHEMA).fetchall()):
                    raise StoreBroken("the definitions of the tables are damaged")
                execute(tables.UPDATE_NODE, line._replace(boot=line.boot + 1).columns())

    def commit(self, writes: Sequence[Write]) -> None:
        """Do all of `writes`, or none and raise DiskFull; StoreBroken if we cannot tell."""
        self._copy_back_if_due()
        with _transaction(self._connection):
            _Batch(self._connection).write(writes)

    def _copy_back_if_due(self) -> None:
        changes = self._connection.total_changes - self._changes
        too_long = self._wal.exists() and self._wal.stat().st_size > WAL_BYTES_MAX
        if changes < self._changes_due and not too_long:
            return
        pages = self.copy_back("TRUNCATE" if too_long else "PASSIVE")
        self._changes = self._connection.total_changes
        if pages and changes:
            # How many pages a change touches depends on how far apart the rows lie.
            self._changes_due = min(100_000, max(500, WAL_PAGES * changes // pages))

    def copy_back(self, mode: str) -> int:
        """Copy the log into the file and return how many pages the log had; 0 if not known."""
        try:
            _, pages, _ = self._connection.execute(f"PRAGMA wal_checkpoint({mode})").fetchone()
        except sqlite3.Error as error:
            if is_busy(error) or is_full(error):
                return 0  # The log still holds it all; we come back later.
            raise StoreBroken(f"copying the log back: {error}") from error
        return max(0, int(pages))


class _Batch:
    """One batch on its way into the tables."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._rows: list[Row] = []

    def write(self, writes: Sequence[Write]) -> None:
        records = {}
        for write in writes:
            match write:
                case Append(rows) | Base(rows):
                    self._rows += rows
                case Trim():
                    self._insert_rows()
                    self._trim(write)
                case Purge():
                    self._insert_rows()
                    self._purge(write)
                case SaveSlot(record):
                    records[record.slot] = packing.columns_of(record)
                case Cut(slot, end):
                    self._insert_rows()
                    self._cut(slot, end)
                case Erase(slot):
                    self._insert_rows()
                    self._connection.execute(tables.ERASE_HISTORY, (slot,))
                    self._connection.execute(tables.ERASE_CURRENT, (slot,))
                case SaveConfiguration(configuration):
                    line = node_line(self._connection)._replace(configuration=configuration)
                    self._connection.execute(tables.UPDATE_NODE, line.columns())
                case Arrive() | Stand() | Prune() | SaveCursor():
                    branching.write(self._connection, write)
                case _:
                    assert_never(write)
        self._insert_rows()
        if records:
            self._connection.executemany(tables.SAVE_SLOT, sorted(records.values()))

    def _insert_rows(self) -> None:
        if not self._rows:
            return
        rows = sorted(self._rows, key=_clustered)
        self._rows = []
        lines = [(*row, packing.row_checksum(row)) for row in rows]
        self._insert(tables.INSERT_ROW, lines)
        # Sorted by version within a link, so that the last one of each link remains.
        newest = {(row.slot, row.link): row for row in rows}
        pointers = [
            (row[0], row[4], row[5], row[1], row[8], expiry_us(row[12])) for row in newest.values()
        ]
        self._insert(tables.POINT, pointers)

    def _insert(self, statement: tables.Insert, lines: Sequence[Sequence[object]]) -> None:
        """Put lines in, with as few statements as there are for so many."""
        done = 0
        for size in tables.SIZES:
            while len(lines) - done >= size:
                values = chain.from_iterable(lines[done : done + size])
                self._connection.execute(statement[size], tuple(values))
                done += size

    def _trim(self, trim: Trim) -> None:
        """Let go of the versions that are superseded, link by link, each found by its key."""
        execute = self._connection.execute
        slot = trim.slot
        links = {link for (link,) in execute(tables.LINKS_BETWEEN, (slot, trim.after, trim.kept))}
        for link in sorted(links):
            (version,) = execute(tables.NEWEST_VERSION, (slot, link, trim.kept)).fetchone()
            execute(tables.SUPERSEDED, (slot, link, version, trim.kept))

    def _purge(self, purge: Purge) -> None:
        """Remove links; one that has been written again since keeps what came after."""
        for link, version in purge.tombstones:
            self._connection.execute(tables.PURGE, (purge.slot, link, version))
            self._connection.execute(tables.UNPOINT_VERSION, (purge.slot, link, version))

    def _cut(self, slot: int, end: int) -> None:
        execute = self._connection.execute
        links = {link for (link,) in execute(tables.LINKS_ABOVE, (slot, end))}
        execute(tables.CUT, (slot, end))
        for link in sorted(links):
            pointer = execute(tables.POINTER_BELOW, (slot, link)).fetchone()
            if pointer is None:
                execute(tables.UNPOINT, (slot, link))
            else:
                *fields, state = pointer
                execute(tables.POINT[1], (*fields, expiry_us(state)))


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
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


def node_line(connection: sqlite3.Connection) -> packing.NodeLine:
    """Return the line of the node; StoreBroken if the file is not ours or of another format."""
    try:
        found = connection.execute(tables.FORMATS).fetchall()
    except sqlite3.OperationalError as error:
        raise StoreBroken(f"not a store of ours: {error}") from error
    formats = [number for (number,) in found]
    if formats != [packing.FORMAT]:
        raise StoreBroken(f"the file has format {formats}, we know only {packing.FORMAT}")
    line = packing.NodeLine.of(connection.execute(tables.NODE).fetchone())
    if line is None:
        raise StoreBroken("the line of the node is damaged")
    return line


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
    """Return whether somebody else holds a lock: a reader, or a tool of the operator."""
    primary = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return primary in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
