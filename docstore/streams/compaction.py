"""Compaction of a log by key: the records that a pass removes, and the batches that it writes.

A pass first notes the newest offset of each key in the batches that no pass has read yet. Then it
goes over the log from its start and removes each record that has a newer one of its key (rule
RC13). Offsets stay: a rewritten batch covers the offsets of those that it replaces, and lacks
records. So that much removed leaves little, small neighbours become one batch.

A tombstone, a record without a value, is removed some time after the last older record of its key.
A rewritten batch with tombstones has that time as its `first_us`; a batch that has lost some is
marked as purged (rule RC14).

A batch that is among the newest ones of its producer keeps its header, since the state of producers
comes from headers (rule RN2).
"""

from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

from docstore.model.streams_batch import (
    CODEC,
    JSON,
    KAFKA,
    PURGED,
    SPARSE,
    BatchHeader,
)
from docstore.streams.forms import records_of, seal_sparse
from docstore.streams.records import Record

SHORT_BYTES = 16
RECORD_BYTES = 16
"""About the size of a packed record besides its key, value and headers."""
RECORDS_MAX = 1 << 31
"""Offsets that one batch covers at most."""


def _short(key: bytes) -> bytes:
    """Return a short name for a key; only long ones are hashed, to that length exactly."""
    return key if len(key) < SHORT_BYTES else blake2b(key, digest_size=SHORT_BYTES).digest()


class NewestOffsets:
    """Key -> offset of its newest record, in the batches that were noted."""

    def __init__(self) -> None:
        self._offsets: dict[bytes, int] = {}
        self._deleted: set[bytes] = set()
        """Keys whose newest record is a tombstone."""
        self._shortened: set[bytes] = set()
        """The deleted keys of which this pass has removed an older record."""

    def __len__(self) -> int:
        return len(self._offsets)

    def note(self, header: BatchHeader, raw: bytes) -> None:
        """Note the keys of the next batch."""
        for offset, record in _records_if_readable(header, raw) or ():
            if record.key is None:
                continue
            key = _short(record.key)
            self._offsets[key] = offset
            if record.value is None:
                self._deleted.add(key)
            else:
                self._deleted.discard(key)

    def supersedes(self, offset: int, record: Record) -> bool:  # Tests replace this.
        """Say whether there is a newer record of the same key, so that this one is removed."""
        if record.key is None:
            return False
        key = _short(record.key)
        if self._offsets.get(key, -1) <= offset:
            return False
        if key in self._deleted:
            self._shortened.add(key)
        return True

    def has_shortened(self, record: Record) -> bool:
        """Say whether this pass has removed an older record of a tombstone's key."""
        return record.key is not None and _short(record.key) in self._shortened


class PassBounds(NamedTuple):
    """Bounds of one pass.

    start: log start. purge_below: offset from which tombstones stay. expired_us: tombstones that
    were compacted before are removed. now_us: time at which tombstones are compacted, not in the
    past.
    """

    start: int
    purge_below: int
    expired_us: int
    now_us: int


@dataclass(slots=True)
class Rewritten:
    """One batch in place of one or more, with the records that are kept.

    first_end: end of the first batch that it replaces. compacted_us: when its tombstones were
    compacted, 0 for none. keeps_header: whether it must stay alone. is_changed: whether there is
    anything to write. removed: number of records that are removed.
    """

    header: BatchHeader
    kept: list[tuple[int, Record]]
    size: int
    first_end: int
    compacted_us: int
    keeps_header: bool
    is_changed: bool
    removed: int

    def sealed(self, place: bytes) -> bytes:
        """Return the batch."""
        return seal_sparse(place, self.header._replace(first_us=self.compacted_us), self.kept)


def rewritten(
    header: BatchHeader,
    raw: bytes,
    newest: NewestOffsets,
    bounds: PassBounds,
    *,
    keeps_header: bool,
) -> Rewritten:
    """Return a batch without the records that a pass removes.

    A batch of a later version, which this node cannot read, stays as it is.
    """
    records = _records_if_readable(header, raw)
    if records is None:
        return Rewritten(header, [], 0, header.end, 0, True, is_changed=False, removed=0)
    before_us = _compacted_us(header)
    kept = [
        (offset, record)
        for offset, record in records
        if offset >= bounds.start and not newest.supersedes(offset, record)
    ]
    tombstones = [record for _, record in kept if _is_tombstone(record)]
    flags, compacted_us = header.flags, before_us if tombstones else 0
    if tombstones and (not before_us or any(map(newest.has_shortened, tombstones))):
        compacted_us = bounds.now_us
    elif tombstones and before_us < bounds.expired_us:
        left = [
            (offset, record)
            for offset, record in kept
            if offset >= bounds.purge_below or not _is_tombstone(record)
        ]
        flags |= PURGED if len(left) < len(kept) else 0
        kept = left
        compacted_us = before_us if any(_is_tombstone(record) for _, record in kept) else 0
    if not keeps_header:
        kept = [(offset, _timed(record, header.last_us)) for offset, record in kept]
    return Rewritten(
        header._replace(flags=flags),
        kept,
        sum(map(_size, kept)),
        header.end,
        compacted_us,
        keeps_header,
        is_changed=len(kept) < len(records) or compacted_us != before_us,
        removed=len(records) - len(kept),
    )


def joined(one: Rewritten, other: Rewritten, bytes_max: int) -> Rewritten | None:
    """Return one batch for two adjacent ones, None if they must stay apart.

    Batches of two terms stay apart, as the end of a term is where logs may differ; so do those
    whose tombstones expire at different times, and purged ones from others.
    """
    first, last = one.header, other.header
    times = {one.compacted_us, other.compacted_us} - {0}
    if (
        one.keeps_header
        or other.keeps_header
        or first.epoch != last.epoch
        or (first.flags ^ last.flags) & PURGED
        or len(times) > 1
        or one.size + other.size > bytes_max
        or last.end - first.base > RECORDS_MAX
    ):
        return None
    flags = first.flags & last.flags & JSON | (first.flags | last.flags) & (KAFKA | CODEC | PURGED)
    header = BatchHeader(
        first.base, last.end - first.base, first.epoch, 0, last.last_us, "", 0, 0, flags, 0
    )
    return Rewritten(
        header,
        one.kept + other.kept,
        one.size + other.size,
        one.first_end,
        max(times, default=0),
        keeps_header=False,
        is_changed=True,
        removed=one.removed + other.removed,
    )


def cut_out(place: bytes, raw: bytes, header: BatchHeader, first: int, end: int) -> bytes:
    """Return the part of a rewritten batch at the offsets first..end-1, as a batch."""
    kept = [(offset, record) for offset, record in records_of(header, raw) if first <= offset < end]
    part = header._replace(
        base=first, records=end - first, first_us=_compacted_us(header), producer=""
    )
    return seal_sparse(place, part, kept)


def _compacted_us(header: BatchHeader) -> int:
    """Return when the tombstones of a batch were compacted, 0 if they were not."""
    return header.first_us if header.flags & SPARSE else 0


def _records_if_readable(header: BatchHeader, raw: bytes) -> list[tuple[int, Record]] | None:
    try:
        return list(records_of(header, raw))
    except ValueError:
        return None


def _is_tombstone(record: Record) -> bool:
    return record.value is None and record.key is not None


def _timed(record: Record, at_us: int) -> Record:
    """Return a record with its time, which was that of its batch unless the client set one."""
    return record if record.client_us is not None else record._replace(client_us=at_us)


def _size(pair: tuple[int, Record]) -> int:
    key, value, headers, _ = pair[1]
    size = RECORD_BYTES + len(key or b"") + len(value or b"")
    return size + sum(len(name) + len(content or b"") for name, content in headers)
