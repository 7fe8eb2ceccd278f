"""The one writer, on one SQLite connection, in the thread of the caller.

A batch is one transaction. Its rows are inserted in the order in which the table is clustered, as
far as a Truncate or an Erase of the same slot between them allows.
"""

import sqlite3
from collections.abc import Sequence
from operator import itemgetter
from pathlib import Path

from docstore.errors import StoreBroken
from docstore.model.document import Row, expiry_us
from docstore.storage import branching, journal_line, migrations, packing, store, tables
from docstore.storage.inserts import MANY_ROWS
from docstore.storage.journal_line import JournalLine
from docstore.storage.transactions import (
    WAL_BYTES_MAX,
    WAL_PAGES,
    copy_back,
    insert,
    transaction,
    translating,
)

FOLLOWING = "NORMAL"  # Tests replace this.
"""Pragma `synchronous` of transactions that follow the journal: they are synced before the log is
copied back, so that the file never mixes states."""
FLUSHING = "FULL"  # Tests replace this.
"""Pragma `synchronous` of transactions that free the journal: each is synced by itself."""

_Records = dict[int, tuple[object, ...]]

_clustered = itemgetter(0, 4, 5)  # (slot, link, version) of a Row.


class Writer:
    """Applies batches to the file, and copies the log back after a number of changes."""

    def __init__(self, connection: sqlite3.Connection, wal: Path) -> None:
        self._connection = connection
        self._wal = wal
        self._changes = connection.total_changes
        self._changes_due = 1000

    def prepare(self, store_id: str) -> None:
        """Create or upgrade the tables, and count the boot.

        store_id: the name of the disk if it is a new one. Raises StoreBroken, DiskFull.
        """
        execute = self._connection.execute
        with transaction(self._connection):
            if not execute(packing.SCHEMA).fetchall():
                for statement in tables.CREATE:
                    execute(statement)
                journal_line.create(self._connection)
                schema = packing.schema_checksum(execute(packing.SCHEMA).fetchall())
                line = packing.NodeLine(migrations.DOCUMENTS.format, store_id, 1, None, schema)
                execute(tables.INSERT_NODE, packing.sealed(line))
            else:
                migrations.migrate(self._connection, migrations.DOCUMENTS)
                line = node_line(self._connection)
                execute(tables.UPDATE_NODE, packing.sealed(line._replace(boot=line.boot + 1)))

    def commit(self, writes: Sequence[store.Write]) -> None:
        """Apply `writes` or none. Raises DiskFull; StoreBroken when the result is unknown."""
        self._copy_back_if_due()
        with transaction(self._connection):
            _Batch(self._connection).write(writes)

    def follow(  # Tests replace this.
        self, writes: Sequence[store.Write], to: JournalLine, *, durably: bool, boot: int = 0
    ) -> None:
        """Commit `writes` together with a new position in the journal.

        durably: a power cut takes back neither these writes nor earlier ones. Otherwise a power cut
        may take back the newest writes, but never an earlier write without the later ones. boot:
        the boot number to save, 0 for no change.
        """
        self._copy_back_if_due()
        with translating():
            self._connection.execute(f"PRAGMA synchronous = {FLUSHING if durably else FOLLOWING}")
        with transaction(self._connection):
            _Batch(self._connection).write(writes)
            journal_line.write(self._connection, to)
            if boot:
                line = node_line(self._connection)._replace(boot=boot)
                self._connection.execute(tables.UPDATE_NODE, packing.sealed(line))

    def _copy_back_if_due(self) -> None:
        with translating():
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
        return copy_back(self._connection, mode)


class _Batch:
    """One batch on its way into the tables."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._rows: list[Row] = []

    def write(self, writes: Sequence[store.Write]) -> None:
        records: _Records = {}
        for write in writes:
            match write:
                case store.Append(rows) | store.Base(rows):
                    self._rows += rows
                case store.Trim():
                    self._insert_rows()
                    self._trim(write)
                case store.Purge():
                    self._insert_rows()
                    self._purge(write)
                case store.SaveSlot(record):
                    _take(records, record)
                case store.Truncate(slot, end):
                    self._insert_rows()
                    self._cut(slot, end)
                case store.Erase(slot):
                    self._insert_rows()
                    self._connection.execute(tables.ERASE_HISTORY, (slot,))
                    self._connection.execute(tables.ERASE_CURRENT, (slot,))
                case store.SaveConfiguration(configuration):
                    line = node_line(self._connection)._replace(configuration=configuration)
                    self._connection.execute(tables.UPDATE_NODE, packing.sealed(line))
                case _:
                    branching.write(self._connection, write)
        self._insert_rows()
        if records:
            self._connection.executemany(tables.SAVE_SLOT, sorted(records.values()))

    def _insert_rows(self) -> None:
        if not self._rows:
            return
        rows = sorted(self._rows, key=_clustered)
        self._rows = []
        lines = [(*row, packing.row_checksum(row)) for row in rows]
        insert(self._connection, tables.INSERT_ROW, lines)
        # Sorted by version within a link, so that the last one of each link remains.
        newest = {(row.slot, row.link): row for row in rows}
        pointers = [
            (row[0], row[4], row[5], row[1], row[8], expiry_us(row[12])) for row in newest.values()
        ]
        for start in range(0, len(pointers), MANY_ROWS):
            some = pointers[start : start + MANY_ROWS]
            before = self._connection.total_changes
            insert(self._connection, tables.ADVANCE, some)
            if self._connection.total_changes - before < len(some):
                insert(self._connection, tables.POINT, some)

    def _trim(self, trim: store.Trim) -> None:
        """Remove superseded versions, link by link, each found by its key."""
        execute = self._connection.execute
        slot = trim.slot
        links = {link for (link,) in execute(tables.LINKS_BETWEEN, (slot, trim.after, trim.kept))}
        for link in sorted(links):
            (newest,) = execute(tables.NEWEST_VERSION, (slot, link, trim.kept)).fetchone()
            first_to_stay = newest - trim.staying(link) + 1
            execute(tables.SUPERSEDED, (slot, link, first_to_stay, trim.kept))

    def _purge(self, purge: store.Purge) -> None:
        """Remove links. A link that was written again keeps its newer rows."""
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


def _take(records: _Records, record: store.SlotRecord) -> None:  # Tests replace this.
    """Note the new record of a slot; of several in a batch the last one counts."""
    records[record.slot] = packing.columns_of(record)


def node_line(connection: sqlite3.Connection) -> packing.NodeLine:
    """Return the line of the node. Raises StoreBroken if it is damaged."""
    line = packing.line_of(packing.NodeLine, connection.execute(tables.NODE).fetchone())
    if line is None:
        raise StoreBroken("the line of the node is damaged")
    return line
