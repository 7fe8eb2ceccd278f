"""The entries of the journal that the tables lack, and when the tables follow.

A commit is durable once its entry is in the journal. The tables follow in large transactions,
because a transaction of SQLite costs more than its rows. Most of these transactions are not synced.
Now and then one is synced, which makes all transactions before it durable too; the journal's files
can then be reused up to its last entry.

A commit is acknowledged once its entry is in the journal, even if the tables then find no room for
it. This module only decides; its callers act, so that tests can cut the power at any of its calls.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from docstore.model.document import Row
from docstore.storage import entries
from docstore.storage.journal import Position
from docstore.storage.journal_line import JournalLine
from docstore.storage.overlay import Overlay
from docstore.storage.ring import Entry, Ring
from docstore.storage.store import Append, Base, Write

ROWS_DUE, BYTES_DUE = 4000, 2 << 20
"""Rows and bytes in the backlog from which the tables follow at once."""
ROWS_AT_ONCE, BYTES_AT_ONCE = 4000, 4 << 20
"""Limits of one transaction. In a load, a row costs 23 us of processor time in transactions of 256
rows, 16 in those of 2,000, 14.6 in those of 4,000, and 14 in larger ones, which readers would wait
for."""
ROWS_MAX, BYTES_MAX = 100_000, 32 << 20
"""Rows and bytes in the backlog from which commits wait, because the tables are slower than the
load."""
FLUSH_BYTES, FLUSH_S = 2 << 20, 1.0
"""Bytes without a sync, and seconds since the last sync, from which a transaction is synced."""


class _Waiting(NamedTuple):
    position: Position
    writes: Sequence[Write]
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Batch:
    """A transaction of the tables: entries up to a position, and whether to sync it."""

    writes: Sequence[Write]
    line: JournalLine
    durably: bool
    entries: int
    """Number of waiting entries in it."""


class Backlog:
    """The journal of an open store, and the entries that the tables lack."""

    def __init__(self, ring: Ring, line: JournalLine, boot: int, now: float) -> None:
        """Begin with tables that lack nothing. now: seconds of a monotonic clock."""
        self.ring = ring
        self.overlay = Overlay(line.number)
        self.writes = self.rows = self.bytes = 0
        """Number of writes, rows and bytes in the entries that the tables lack."""
        self.unflushed_bytes = 0
        """Bytes of the entries that the tables hold, but have not synced."""
        self._line = line
        self._boot = boot
        self._waiting: deque[_Waiting] = deque()
        self._flushed_at = now
        self._is_short_of_room = False
        self._is_marked = True

    # --- commits ------------------------------------------------------------------------------

    def fits(self, body: bytes) -> bool:
        """Return whether an entry can hold a commit; a larger one goes into the tables alone."""
        return self.ring.fits(len(body))

    def next(self, body: bytes) -> Entry | None:
        """Return the next entry to write; None while the tables must follow first."""
        if self.rows >= ROWS_MAX or self.bytes >= BYTES_MAX:
            return None
        entry = self.ring.next(self._boot, body)
        self._is_short_of_room = entry is None
        return entry

    def durable(self, entry: Entry, writes: Sequence[Write]) -> None:
        """Note that an entry is in the journal, and so acknowledged."""
        rows = sum(len(each.rows) for each in writes if isinstance(each, Append | Base))
        size = sum(map(len, entry.parts))
        self._waiting.append(_Waiting(entry.header.position, writes, rows, size))
        self.writes += len(writes)
        self.rows += rows
        self.bytes += size
        self.overlay.add(entry.header.number, writes)
        self._is_marked = not writes

    def mark(self) -> Entry | None:  # Tests replace this.
        """Return an empty entry to write after the last one, None if the last one is empty too.

        It proves that the entry before it was whole: damage to an entry without a successor looks
        like a torn commit.
        """
        return None if self._is_marked else self.next(entries.EMPTY)

    # --- the tables ---------------------------------------------------------------------------

    @property
    def is_empty(self) -> bool:
        return not self._waiting

    @property
    def is_due(self) -> bool:
        """Return whether the tables should follow at once."""
        if self.is_empty and self.is_flushed:
            return False
        return self.rows >= ROWS_DUE or self.bytes >= BYTES_DUE or self._is_short_of_room

    @property
    def is_flushed(self) -> bool:
        """Return whether a power cut would lose nothing of the tables."""
        return self.ring.flushed == self._line.number

    def rows_of(self, slot: int) -> list[Row]:
        """Return the rows of a slot that the tables lack, in order of their entries."""
        appends = (write for each in self._waiting for write in each.writes)
        rows = (row for write in appends if isinstance(write, Append | Base) for row in write.rows)
        return [row for row in rows if row.slot == slot]

    def batch(self, now: float) -> Batch | None:
        """Return the next transaction of the tables, None if there is nothing to do."""
        taken, rows, size = 0, 0, 0
        writes: list[Write] = []
        line = self._line
        for position, some, more_rows, more_bytes in self._waiting:
            if taken and (rows + more_rows > ROWS_AT_ONCE or size + more_bytes > BYTES_AT_ONCE):
                break
            taken, rows, size = taken + 1, rows + more_rows, size + more_bytes
            writes += some
            line = line._replace(number=position.number, stamp=position.stamp, alone=0)
        is_long_ago = now - self._flushed_at >= FLUSH_S
        is_much = self.unflushed_bytes + size >= FLUSH_BYTES
        durably = is_long_ago or is_much or self._is_short_of_room
        if not taken and (self.is_flushed or not durably):
            return None
        return Batch(writes, line, durably, taken)

    def followed(self, batch: Batch, now: float) -> None:  # Tests replace this.
        """Note that the transaction of a batch was committed."""
        for _ in range(batch.entries):
            each = self._waiting.popleft()
            self.writes -= len(each.writes)
            self.rows -= each.rows
            self.bytes -= each.bytes
            self.unflushed_bytes += each.bytes
        self._line = batch.line
        self.overlay.drop(batch.line.number)
        if batch.durably:
            self._flushed(now)

    def _flushed(self, now: float) -> None:
        self.ring.flushed = self._line.number
        self.unflushed_bytes = 0
        self._flushed_at = now
        self._is_short_of_room = False

    # --- without the journal ------------------------------------------------------------------

    def straight(self, writes: Sequence[Write]) -> Batch:
        """Return the transaction of a commit that bypasses the journal.

        The tables must lack nothing.
        """
        assert self.is_empty
        number, stamp = self.ring.skip(self._boot)
        self.overlay.announce(number, writes)
        line = self._line._replace(number=number, stamp=stamp, alone=1)
        return Batch(writes, line, durably=True, entries=0)

    def went_straight(self, batch: Batch, now: float) -> None:
        """Note that the transaction of a commit that bypassed the journal is durable."""
        self._line = batch.line
        self.ring.end = batch.line.position
        self.overlay.add(batch.line.number, ())
        self.overlay.drop(batch.line.number)
        self._is_marked = False
        self._flushed(now)

    def closing(self) -> Batch:
        """Return the last transaction, which records that the tables lack nothing."""
        assert self.is_empty
        return Batch((), self._line._replace(alone=1), durably=True, entries=0)
