"""The writer of streams, on one SQLite connection, in the thread of the caller.

A commit is one transaction. The writer keeps the partitions (names, numbers, tails) in memory and
changes them only after the transaction is committed. So after a commit without room the next one
begins in the old state, and reads nothing.

A write against the rules is a bug of this program: an assertion fails, and the transaction is
rolled back.
"""

import sqlite3
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from operator import itemgetter
from pathlib import Path
from typing import assert_never

from docstore.model.streams_batch import head_of, header_from, is_of, place_of
from docstore.storage import migrations
from docstore.storage import partition_tables as tables
from docstore.storage.packing import SCHEMA, schema_checksum, sealed
from docstore.storage.partition_packing import NUMBER_MAX, FileLine, Tail, base_of, columns_of
from docstore.storage.partition_reading import (
    Damaged,
    file_line,
    head_at,
    records_of,
    tails_of,
)
from docstore.storage.partitions import (
    AppendBatches,
    CutPartition,
    DropPartition,
    ErasePartition,
    PartitionRecord,
    PartitionWrite,
    ReplaceBatches,
    SavePartition,
    TrimPartition,
    dropped,
)
from docstore.storage.transactions import (
    WAL_BYTES_MAX,
    copy_back,
    insert,
    transaction,
    translating,
)

COPY_BACK_PAGES = 500
"""Pages in the log from which the writer copies it back into the file. Records fill that many in a
second or less. Other writes, to documents too, wait for the disk during the copy, so it is short
and frequent."""

PAGE_BYTES = 4096
PAGES_OF_DELETE = 8
"""Pages written for a deleted range. The pages of the deleted records are only freed."""

_key = itemgetter(0)


class PartitionWriter:
    """Commits to the file of streams, and keeps the state of its partitions in memory."""

    def __init__(self, connection: sqlite3.Connection, wal: Path) -> None:
        self._connection = connection
        self._wal = wal
        self._pages = 0
        """Approximate number of pages in the log since it was copied back."""
        self.line = FileLine(migrations.STREAMS.format, 0, 0, 0)
        self._tails: dict[str, Tail] = {}
        self._copies: dict[str, str] = {}
        self._old: dict[str, str] = {}
        """Partition -> its copy id, for partitions not replaced since the file was found older."""

    def prepare(self, boots: int | None) -> bool:
        """Create or upgrade the tables, and count the boot.

        boots: boots by the counter next to the file, None if there is none. Returns whether the
        file is older than promises this node may have made.
        """
        execute = self._connection.execute
        with transaction(self._connection):
            if not execute(SCHEMA).fetchall():
                for statement in tables.CREATE:
                    execute(statement)
                schema = schema_checksum(execute(SCHEMA).fetchall())
                line = self.line._replace(schema=schema)
                execute(tables.INSERT_FILE, sealed(line))
            else:
                migrations.migrate(self._connection, migrations.STREAMS)
                line = file_line(self._connection)
            records, tails = records_of(self._connection), tails_of(self._connection)
            # The first start may have ended before it wrote the counter, but not after it
            # committed a partition.
            is_lost = not boots and (line.boot > 1 or bool(records))
            is_old = bool(line.is_old) or line.boot < (boots or 0) or is_lost
            boot = max(line.boot, boots or 0) + 1
            self.line = line._replace(boot=boot, is_old=int(is_old and bool(records)))
            execute(tables.UPDATE_FILE, sealed(self.line))
        for number, record in records.items():
            # A partition with a damaged tail is faulty, and is erased before any other write.
            self._tails[record.name] = tails.get(number) or Tail(number, record.name)
            self._copies[record.name] = record.copy
        self._old = self._copies.copy() if is_old else {}
        return is_old

    def commit(self, writes: Sequence[PartitionWrite]) -> None:
        """Apply `writes` or none. Raises DiskFull; StoreBroken when the result is unknown."""
        self._copy_back_if_due()
        commit = _Commit(self._connection, self._tails, self._copies)
        with transaction(self._connection):
            commit.write(writes)
            old = {name: copy for name, copy in self._old.items() if commit.copy_of(name) == copy}
            line = self.line._replace(is_old=int(bool(old)))
            if line != self.line:
                self._connection.execute(tables.UPDATE_FILE, sealed(line))
        commit.apply_to(self._tails, self._copies)
        self._old, self.line = old, line
        self._pages += commit.pages

    def _copy_back_if_due(self) -> None:
        if self._pages <= COPY_BACK_PAGES:
            return
        with translating():
            too_long = self._wal.exists() and self._wal.stat().st_size > WAL_BYTES_MAX
        self.copy_back("TRUNCATE" if too_long else "PASSIVE")

    def copy_back(self, mode: str) -> None:
        if copy_back(self._connection, mode):
            self._pages = 0  # Without room nothing was copied, and the next commit retries.


class _Commit:
    """One commit on its way into the tables, with its changes to the committed state."""

    def __init__(
        self, connection: sqlite3.Connection, tails: Mapping[str, Tail], copies: Mapping[str, str]
    ) -> None:
        self._connection = connection
        self._committed = (tails, copies)
        self._tails: dict[str, Tail | None] = {}
        self._records: dict[str, PartitionRecord | None] = {}
        """Changed tails and records; None for removed ones."""
        self._lines: list[tuple[int, bytes, int, memoryview]] = []
        self.pages = 0

    def write(self, writes: Sequence[PartitionWrite]) -> None:
        """Apply `writes` in order."""
        for write in writes:
            match write:
                case SavePartition(record):
                    self._save(record)
                case AppendBatches(batches):
                    for name, raw in batches:
                        self._append(name, raw)
                case ReplaceBatches(name, raw):
                    self._insert_batches()
                    self._replace(self._tail(name), raw)
                case CutPartition(name, end):
                    self._insert_batches()
                    self._cut(self._tail(name), end)
                case TrimPartition(name, start, limit):
                    self._insert_batches()
                    self._trim(self._tail(name), start, limit)
                case ErasePartition(name):
                    self._insert_batches()
                    self._erase(self._tail(name))
                case DropPartition(name, limit):
                    self._insert_batches()
                    self._drop(name, limit)
                case _:
                    assert_never(write)
        self._insert_batches()
        tails = [tail for tail in self._tails.values() if tail is not None]
        insert(self._connection, tables.SAVE_TAIL, sorted(map(sealed, tails)))
        records = [record for record in self._records.values() if record is not None]
        lines = sorted(columns_of(self._tail(record.name).number, record) for record in records)
        insert(self._connection, tables.SAVE_PARTITION, lines)
        self.pages += (
            len(tails) + len(records) + sum(len(r.producers) for r in records) // PAGE_BYTES
        )

    def apply_to(self, tails: dict[str, Tail], copies: dict[str, str]) -> None:
        """Apply the changes to the committed state, after the COMMIT."""
        for name, tail in self._tails.items():
            if tail is None:
                tails.pop(name, None)
            else:
                tails[name] = tail
        for name, record in self._records.items():
            if record is None:
                copies.pop(name, None)
            else:
                copies[name] = record.copy

    def copy_of(self, name: str) -> str | None:
        """Return the copy of a partition, None when there is no such partition."""
        if name in self._records:
            record = self._records[name]
            return None if record is None else record.copy
        return self._committed[1].get(name)

    def _tail(self, name: str) -> Tail:
        tail = self._tails[name] if name in self._tails else self._committed[0].get(name)
        assert tail is not None, "no such partition"
        return tail

    def _save(self, record: PartitionRecord) -> None:
        assert record.copy, "a copy has a name"
        copy = self.copy_of(record.name)
        if copy is None:
            self._tails[record.name] = Tail(self._unused_number(), record.name)
        assert copy != "" or not self._tail(record.name).size, (
            "a partition that begins again before it is dropped completely"
        )
        self._records[record.name] = record

    def _unused_number(self) -> int:
        begun = [tail for tail in self._tails.values() if tail is not None]
        used = {tail.number for tail in (*self._committed[0].values(), *begun)}
        following = max(used, default=0) + 1
        if following > NUMBER_MAX:
            return next(number for number in range(1, following) if number not in used)
        return following

    def _append(self, name: str, raw: bytes) -> None:
        assert self.copy_of(name), "a batch for a dropped partition"
        head = head_of(raw)
        tail, header = self._tail(name), header_from(head)
        assert is_of(head, place_of(name)), "a batch of another partition"
        assert header.records > 0, "an empty batch"
        assert header.size == len(raw), "a batch of another length than its head says"
        if tail.size:
            assert header.base == tail.end, "a hole in a partition"
            assert header.last_us >= tail.last_us, "a batch older than the one before"
        self._insert_later(tail, header.base, raw)
        self._tails[name] = tail._replace(
            first=tail.first if tail.size else header.base,
            end=header.end,
            size=tail.size + len(raw),
            last_us=header.last_us,
        )

    def _insert_later(self, tail: Tail, base: int, raw: bytes) -> None:
        head = head_of(raw)
        rest = memoryview(raw)[len(head) :]
        self._lines.append((tail.id_of(base), head, zlib.crc32(head), rest))
        self.pages += 1 + len(raw) // PAGE_BYTES

    def _replace(self, tail: Tail, raw: bytes) -> None:
        head = head_of(raw)
        header = header_from(head)
        assert is_of(head, place_of(tail.name)), "a batch of another partition"
        assert header.size == len(raw), "a batch of another length than its head says"
        edges = [
            base_of(key)
            for offset in (header.base, header.end)
            for key in self._ids(tail, offset, offset + 1, 1)
        ]
        assert edges == [header.base, header.end], "a replacement of a part of a batch"
        gone = self._delete(tail.id_of(header.base), tail.id_of(header.end))
        self._insert_later(tail, header.base, raw)
        self._tails[tail.name] = tail._replace(size=tail.size - gone + len(raw))

    def _insert_batches(self) -> None:
        """Insert the gathered batches, in the order of the table."""
        lines, self._lines = self._lines, []
        lines.sort(key=_key)
        insert(self._connection, tables.INSERT_BATCH, lines)

    def _cut(self, tail: Tail, end: int) -> None:
        if end <= tail.first:
            self._erase(tail)
        elif end < tail.end:
            assert self._ids(tail, end, end + 1, 1), "a truncation inside a batch"
            gone = self._delete(tail.id_of(end), tail.beyond)
            left = tail._replace(end=end, size=tail.size - gone, last_us=0)
            with suppress(Damaged):  # A read of that batch will report the damage.
                left = left._replace(last_us=head_at(self._connection, left, end - 1).last_us)
            self._tails[tail.name] = left

    def _trim(self, tail: Tail, start: int, limit: int) -> None:
        """Remove the oldest batches, found by the key of the next one: no batch is read."""
        if not tail.size or start <= tail.first:
            return
        ids = self._ids(tail, tail.first, min(start, tail.end) + 1, limit + 1)
        if len(ids) <= limit and start >= tail.end:
            self._erase(tail)
        else:
            first = base_of(ids[-1])
            gone = self._delete(tail.id_of(tail.first), ids[-1])
            self._tails[tail.name] = tail._replace(first=first, size=tail.size - gone)

    def _erase(self, tail: Tail) -> None:
        self._delete(tail.id_of(0), tail.beyond)
        self._tails[tail.name] = Tail(tail.number, tail.name)

    def _drop(self, name: str, limit: int) -> None:
        if self.copy_of(name) is None:
            return
        self._trim(self._tail(name), self._tail(name).end, limit)
        tail = self._tail(name)
        if tail.size:
            self._records[name] = dropped(name)
            return
        self._records[name] = self._tails[name] = None
        self._connection.execute(tables.DELETE_PARTITION, (tail.number,))
        self._connection.execute(tables.DELETE_TAIL, (tail.number,))

    def _ids(self, tail: Tail, first: int, beyond: int, limit: int) -> list[int]:
        """Return the keys of up to `limit` batches that begin at first..beyond-1."""
        keys = (tail.id_of(first), tail.id_of(beyond), limit)
        return [key for (key,) in self._connection.execute(tables.IDS, keys)]

    def _delete(self, first: int, beyond: int) -> int:
        """Remove the batches in a range of keys. Return their size in bytes."""
        (size,) = self._connection.execute(tables.BYTES, (first, beyond)).fetchone()
        self._connection.execute(tables.DELETE_BATCHES, (first, beyond))
        self.pages += PAGES_OF_DELETE
        return int(size or 0)
