"""Records of partitions, their tails and the file's own line as columns, each with a checksum.

The checksums cover the keys too, as in `packing.py`.
"""

from typing import NamedTuple, cast

from docstore.storage.packing import ballots_packed, ballots_unpacked, opened, sealed
from docstore.storage.partitions import PartitionRecord
from docstore.storage.store import Status

BASE_BITS = 44
"""Bits of a key for the offset: 17 million million records."""

NUMBER_MAX = (1 << (63 - BASE_BITS)) - 2
"""Greatest number of a partition in one file; the next number bounds the last one's keys."""

_BASE = (1 << BASE_BITS) - 1


class Tail(NamedTuple):
    """Range of the batches of a partition, and their bytes; 0 for none.

    last_us: arrival time of the last record, from the last batch.
    """

    number: int
    name: str
    first: int = 0
    end: int = 0
    size: int = 0
    last_us: int = 0

    def id_of(self, offset: int) -> int:
        """Return the key of a batch that begins at `offset`."""
        assert 0 <= offset <= _BASE
        return self.number << BASE_BITS | offset

    @property
    def beyond(self) -> int:
        """Return a number greater than the key of any batch of this partition."""
        return self.number + 1 << BASE_BITS


def base_of(key: int) -> int:
    """Return the offset at which the batch with this key begins."""
    return key & _BASE


class FileLine(NamedTuple):
    """The one line of `file`.

    boot: number of opens of the file. is_old: whether the file was older than this node's promises,
    and some partition is still in that state. schema: see `NodeLine`.
    """

    format: int
    boot: int
    is_old: int
    schema: int


def columns_of(number: int, record: PartitionRecord) -> tuple[object, ...]:
    return sealed((
        number, record.name, record.copy, *record.promised, *record.adopted,
        ballots_packed(record.ballots), record.start, record.high, record.producers_at,
        record.status.value, record.producers,
    ))  # fmt: skip


def record_of(columns: tuple[object, ...]) -> tuple[int, PartitionRecord] | None:
    """Return (number, record) of these columns, None if it is damaged."""
    fields = opened(columns)
    if fields is None:
        return None
    # The checksum vouches for the types as well.
    number, name, copy, epoch, owner, by_epoch, by_owner, ballots, *rest = cast(
        "tuple[int, str, str, int, str, int, str, bytes, int, int, int, str, bytes]", fields
    )
    start, high, producers_at, status, producers = cast("tuple[int, int, int, str, bytes]", rest)
    return number, PartitionRecord(
        name,
        copy,
        promised=(epoch, owner),
        adopted=(by_epoch, by_owner),
        ballots=ballots_unpacked(ballots),
        start=start,
        high=high,
        producers=producers,
        producers_at=producers_at,
        status=Status(status),
    )
