"""Blocks of a backup, deflated: consecutive rows of logs, or versions of levels 1 and 2. Pure.

Nodes send blocks and backup files hold them. A row has all fields that it has on disk; the file's
checksum covers them.
"""

import zlib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgpack

from docstore.model.document import Row

DEFLATED = 1
"""The fastest level of zlib: output of a third of the size, in a tenth of the slowest level's
time."""


class BadBackup(Exception):
    """The files of a backup are damaged or do not belong together; the message is one line."""


class LogChunk(NamedTuple):
    """Consecutive rows of a slot, read from one replica.

    kept: last row up to which the history was compacted. held: number of rows up to `kept` that are
    left. floor: the next version of a link without rows is floor + 1. These three matter only if a
    slot is read from its beginning.
    """

    slot: int
    kept: int
    floor: int
    held: int
    rows: Sequence[Row]


class Branch(NamedTuple):
    """A version of a document of level 1 or 2. standing: a BranchStatus."""

    row: Row
    standing: int


class Block(NamedTuple):
    """Content of a block: chunks of logs, or branches."""

    log: Sequence[LogChunk] = ()
    branches: Sequence[Branch] = ()

    @property
    def rows(self) -> int:
        return len(self.branches) + sum(len(each.rows) for each in self.log)


def pack_block(block: Block) -> bytes:
    packed: bytes = msgpack.packb((block.log, block.branches))
    return zlib.compress(packed, DEFLATED)


def unpack_block(packed: bytes) -> Block:
    try:
        log, branches = msgpack.unpackb(zlib.decompress(packed))
        return Block(
            [
                LogChunk(slot, kept, floor, held, _rows(rows))
                for slot, kept, floor, held, rows in log
            ],
            [Branch(Row(*row), standing) for row, standing in branches],
        )
    except (ValueError, TypeError, zlib.error, msgpack.UnpackException) as error:
        raise BadBackup(f"a block is damaged: {error}") from None


def _rows(found: Iterable[Sequence[Any]]) -> list[Row]:
    return [Row(*fields) for fields in found]


class Coverage:
    """Checks that chunks of a slot's log hold every row up to `until`, in order, without a hole.

    after: rows up to that one are in an earlier backup; 0: the slot is read from its beginning.

    Rows up to `kept` may be missing, so their number must be `held`. The other marks do not always
    show a compaction between two pages: the eviction of a tombstone may change neither.
    """

    def __init__(self, slot: int, after: int, until: int) -> None:
        self._name = f"slot {slot}"
        self._after = after
        self._until = until
        self._last = after
        self._marks: tuple[int, int, int] | None = None
        self._held = 0

    def add(self, stretch: LogChunk) -> None:
        """Check the next rows. Raises BadBackup."""
        if self._after == 0:
            marks = (stretch.kept, stretch.floor, stretch.held)
            if self._marks not in (None, marks):
                raise BadBackup(f"{self._name}: history was compacted while it was read")
            self._marks = marks
        kept = stretch.kept if self._after == 0 else self._after
        for row in stretch.rows:
            if row.n <= self._last or row.n > max(kept, self._last) + 1 or row.n > self._until:
                raise BadBackup(f"{self._name}: row {row.n} comes after row {self._last}")
            self._last = row.n
            self._held += row.n <= stretch.kept

    def end(self) -> tuple[int, int]:
        """Return (kept, floor) of a slot that was read from its beginning. Raises BadBackup."""
        kept, floor, held = self._marks or (0, -1, 0)
        if self._marks and self._held != held:
            raise BadBackup(f"{self._name}: {self._held} rows instead of {held} up to {kept}")
        if max(self._last, kept) != self._until:
            raise BadBackup(f"{self._name}: rows end at {self._last} instead of {self._until}")
        return kept, floor
