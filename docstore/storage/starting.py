"""A start on a file of documents and its journal: what the tables lack goes into them first.

In this order, since what was promised may not be forgotten for even one start: the boot is counted,
the journal is looked through, the tables follow it to its end, an entry is added, and all of that
is durable before anybody is told what is there.

The entry is empty. It shows that the journal can be written to, and from then on its loss can be
told from its never having been there.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from docstore.errors import StoreDamaged
from docstore.storage import entries, journal_line, tables
from docstore.storage.journal_line import JournalLine
from docstore.storage.ring import FILE_BYTES, FILES_FREE, FILES_MAX, Entry, Files, Ring
from docstore.storage.writing import Writer, node_line

REPLAY_BYTES = 4 << 20
"""So much of the journal goes into one transaction."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """What a journal takes on disk: at most `files_max` files of `file_bytes`."""

    file_bytes: int = FILE_BYTES
    files_max: int = FILES_MAX

    @classmethod
    def of(cls, megabytes: int) -> "Sizes":
        """Return those of a journal that takes so much at most, rounded down to whole files."""
        return cls(files_max=(megabytes << 20) // FILE_BYTES)

    @property
    def ballast_bytes(self) -> int:
        """Return what is kept free so that the tables can follow when a disk is full.

        Twice what may lie in the journal, for the tables' log and then their file.
        """
        return 2 * self.file_bytes * self.files_max + self.file_bytes

    @property
    def start_bytes(self) -> int:
        """Return what a first start takes: the ballast, the first files, and one as reserve."""
        return self.ballast_bytes + (FILES_FREE + 1) * self.file_bytes


@dataclass(frozen=True, slots=True)
class Started:
    """A file of documents that is ready, and its journal."""

    writer: Writer
    ring: Ring
    line: JournalLine
    """Where both stand."""
    boot: int
    replayed: int
    """How many entries the tables had lacked."""


def start(
    connection: sqlite3.Connection, log: Path, files: Files, store_id: str, sizes: Sizes
) -> Started:
    """Create or take over the file and its journal.

    log: SQLite's. store_id: the name of the disk if it is a new one. Raises StoreBroken, DiskFull,
    OSError, and StoreDamaged when something that was acknowledged is gone.
    """
    _insist_on_tables(connection, files, sizes)
    writer = Writer(connection, log)
    writer.prepare(store_id)
    line = journal_line.read(connection)
    ring = Ring(files, line.key, file_bytes=sizes.file_bytes, files_max=sizes.files_max)
    lacking = ring.open(line.position, may_be_missing=bool(line.alone))
    for some in _in_stretches(lacking):
        writes = [write for entry in some for write in entries.unpacked(ring.body(entry))]
        number, stamp = some[-1].header.position
        line = line._replace(number=number, stamp=stamp, alone=0)
        writer.follow(writes, line, durably=False)
    # What was followed is durable before a file of the ring is used again.
    writer.follow([], line, durably=True)
    ring.flushed = line.number
    while (name := ring.wanted()) is not None:
        ring.make(name)
        ring.made(name)
    boot = max(node_line(connection).boot, ring.boot + 1)
    entry = ring.next(boot, entries.EMPTY)
    assert entry is not None, "a ring of which nothing counts has room"
    files.write(entry.file, entry.offset, entry.parts)
    number, stamp = entry.header.position
    line = line._replace(number=number, stamp=stamp, alone=0)
    writer.follow([], line, durably=True, boot=boot)
    ring.flushed = number
    ring.remove_surplus()
    return Started(writer, ring, line, boot, len(lacking))


def has_journal(connection: sqlite3.Connection) -> bool:
    """Return whether a start has prepared the file, and its journal with it."""
    return ("journal",) in connection.execute("SELECT name FROM sqlite_master").fetchall()


def _insist_on_tables(connection: sqlite3.Connection, files: Files, sizes: Sizes) -> None:
    """A journal without its tables is all that is left of a store, not the first start of one."""
    if not connection.execute(tables.SCHEMA).fetchall():
        ring = Ring(files, b"", file_bytes=sizes.file_bytes, files_max=sizes.files_max)
        if ring.is_written():
            raise StoreDamaged("the file of documents is gone, and its journal is not")


def _in_stretches(lacking: Sequence[Entry]) -> Iterator[list[Entry]]:
    """Yield the entries in order, as many together as go into one transaction."""
    some: list[Entry] = []
    size = 0
    for entry in lacking:
        some.append(entry)
        size += entry.header.length
        if size >= REPLAY_BYTES:
            yield some
            some, size = [], 0
    if some:
        yield some
