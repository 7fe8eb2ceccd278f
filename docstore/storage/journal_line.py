"""Where the tables stand in their journal: one line, written in the transaction that follows it.

Outside of that transaction it could be ahead of the rows or behind them after a cut of power, and
an entry would be lost or written twice.
"""

import sqlite3
from typing import NamedTuple

from docstore.errors import StoreDamaged
from docstore.storage import tables
from docstore.storage.journal import KEY_BYTES, START, Position
from docstore.storage.packing import checksum


class JournalLine(NamedTuple):
    """The one line of `journal`."""

    key: bytes
    """Of the stamps (see `journal.py`)."""
    number: int
    stamp: bytes
    """Number and stamp of the last entry that the tables have."""
    alone: int
    """1 while they need no journal: it holds nothing that they lack, and may be missing."""

    @property
    def position(self) -> Position:
        """Return the last entry that the tables have."""
        return Position(self.number, self.stamp)


def create(connection: sqlite3.Connection) -> None:
    """Insert the line of a new file, at the place before the first entry of its journal."""
    (key,) = connection.execute(f"SELECT randomblob({KEY_BYTES})").fetchone()
    line = JournalLine(key, *START, alone=1)
    connection.execute(tables.INSERT_JOURNAL, (*line, checksum(tuple(line)), 0))


def read(connection: sqlite3.Connection) -> JournalLine:
    """Return the line. Raises StoreDamaged."""
    lines = connection.execute(tables.JOURNAL).fetchall()
    if len(lines) == 1:
        *fields, found, _ = lines[0]
        if found == checksum(tuple(fields)):
            return JournalLine(*fields)
    raise StoreDamaged("the tables have lost their place in the journal")


def write(connection: sqlite3.Connection, line: JournalLine) -> None:
    """Replace the line, by one that differs even if it says the same.

    A transaction that changes nothing is neither written nor synced by SQLite, whatever was said of
    `synchronous`; and those before it, which it is to make durable, stay as they are (seed 7003).
    """
    connection.execute(tables.UPDATE_JOURNAL, (*line, checksum(tuple(line))))
