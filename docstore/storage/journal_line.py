"""The applied position of the tables in their journal: one line of a table.

The transaction that follows entries also writes the line. In any other transaction a power cut
could leave the line ahead of the rows or behind them, and a start would skip an entry or apply it
twice.
"""

import sqlite3
from typing import NamedTuple

from docstore.errors import StoreDamaged
from docstore.storage import tables
from docstore.storage.journal import KEY_BYTES, START, Position
from docstore.storage.packing import line_of, sealed

_UPDATE = tables.UPDATE_JOURNAL  # Tests replace this.


class JournalLine(NamedTuple):
    """The one line of `journal`."""

    key: bytes
    """Key of the stamps (see `journal.py`)."""
    number: int
    stamp: bytes
    """Number and stamp of the last entry that the tables hold."""
    alone: int
    """1 while the tables lack no entry, so that the journal may be missing."""

    @property
    def position(self) -> Position:
        """Return the position of the last entry that the tables hold."""
        return Position(self.number, self.stamp)


def create(connection: sqlite3.Connection) -> None:
    """Insert the line of a new file, at the position before the first entry."""
    (key,) = connection.execute(f"SELECT randomblob({KEY_BYTES})").fetchone()
    line = JournalLine(key, *START, alone=1)
    connection.execute(tables.INSERT_JOURNAL, (*sealed(line), 0))


def read(connection: sqlite3.Connection) -> JournalLine:
    """Return the line. Raises StoreDamaged."""
    lines = connection.execute(tables.JOURNAL).fetchall()
    line = line_of(JournalLine, lines[0][:-1]) if len(lines) == 1 else None
    if line is None:
        raise StoreDamaged("the tables' position in the journal is damaged")
    return line


def write(connection: sqlite3.Connection, line: JournalLine) -> None:
    """Replace the line with one that differs from it.

    SQLite neither writes nor syncs a transaction that changes nothing, whatever `synchronous` is.
    Then the transactions before it, which this one must make durable, would not be synced either
    (seed 7003).
    """
    connection.execute(_UPDATE, sealed(line))
