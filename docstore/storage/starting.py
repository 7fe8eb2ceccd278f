"""A start on a file of documents and its journal: the tables first take in the entries they lack.

The order makes sure that no start forgets a promise: count the boot, read the journal, apply its
entries to the tables, append an entry, and make all of that durable before the start returns.

The appended entry is empty. It shows that the journal can be written, and from then on a lost
journal is not mistaken for one that never existed.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from docstore.errors import StoreDamaged
from docstore.storage import entries, journal_line, packing
from docstore.storage.journal_line import JournalLine
from docstore.storage.ring import FILE_BYTES, FILES_FREE, FILES_MAX, Entry, Files, Ring
from docstore.storage.writing import Writer, node_line

REPLAY_BYTES = 4 << 20
"""Bytes of the journal per transaction."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of a journal on disk: at most `files_max` files of `file_bytes`."""

    file_bytes: int = FILE_BYTES
    files_max: int = FILES_MAX

    @classmethod
    def of(cls, megabytes: int) -> "Sizes":
        """Return the sizes of a journal of at most `megabytes`, rounded down to whole files."""
        return cls(files_max=(megabytes << 20) // FILE_BYTES)

    @property
    def ballast_bytes(self) -> int:
        """Return the space to reserve so that the tables can follow on a full disk.

        Twice the journal's size, for the tables' log and then their file.
        """
        return 2 * self.file_bytes * self.files_max + self.file_bytes

    @property
    def start_bytes(self) -> int:
        """Return the space of a first start: the ballast, the first files, and one in reserve."""
        return self.ballast_bytes + (FILES_FREE + 1) * self.file_bytes


@dataclass(frozen=True, slots=True)
class Started:
    """A file of documents that is ready, and its journal."""

    writer: Writer
    ring: Ring
    line: JournalLine
    """Last entry that the tables hold."""
    boot: int
    replayed: int
    """Number of entries that the tables had lacked."""


def start(
    connection: sqlite3.Connection, log: Path, files: Files, store_id: str, sizes: Sizes
) -> Started:
    """Create or take over the file and its journal.

    log: SQLite's. store_id: the name of the disk if it is a new one. Raises StoreBroken, DiskFull,
    OSError, and StoreDamaged when an acknowledged write is gone.
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
    # The applied entries are durable before a file of the ring is reused.
    writer.follow([], line, durably=True)
    ring.flushed = line.number
    while (name := ring.wanted()) is not None:
        ring.make(name)
        ring.made(name)
    boot = max(node_line(connection).boot, ring.boot + 1)
    entry = ring.next(boot, entries.EMPTY)
    assert entry is not None, "a ring in which no entry counts has room"
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
    """Raise StoreDamaged if there is a journal but no tables: this is not a first start."""
    if not connection.execute(packing.SCHEMA).fetchall():
        ring = Ring(files, b"", file_bytes=sizes.file_bytes, files_max=sizes.files_max)
        if ring.is_written():
            raise StoreDamaged(
                "the file of documents is missing, but its journal exists: put that very file"
                " back, or give the member an empty disk with `docstore replace`"
            )


def _in_stretches(lacking: Sequence[Entry]) -> Iterator[list[Entry]]:
    """Yield the entries in order, as lists that fit into one transaction."""
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
