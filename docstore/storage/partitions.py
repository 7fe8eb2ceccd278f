"""The contract of storage for streams: sealed batches by offset, durable once acknowledged.

A *partition* is one log of records, of which each replica keeps a copy. Its name is
`<topic>/<number>@<incarnation>`, so that a topic that was deleted and created again is a different
one. Storage keeps records as they travel: in sealed batches of bytes (`model/streams_batch.py`).
Offsets count records from 0; an *end* is the offset of the next record.

Two implementations pass the same tests, as for documents (`store.py`): `streams_sqlite.py` for
nodes and `tests/memory/partition_ledger.py` for simulations. A commit is all or nothing. It carries
the writes to all partitions of a node that gathered during the commit before it (group commit).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from docstore.model.document import NO_BALLOT, Ballot, Ballots
from docstore.model.streams_batch import BatchHeader
from docstore.storage.store import Status


@dataclass(frozen=True, slots=True)
class PartitionRecord:
    """The state of a replica's partition besides its batches.

    copy: random id of the data, drawn again whenever the data begin again, so that a replica that
    lost acknowledged data is not taken for the one that acknowledged them. Never "", see
    DropPartition. ballots: (ballot, number of its first record); records count from 1, like rows.
    """

    name: str
    copy: str
    promised: Ballot = NO_BALLOT
    adopted: Ballot = NO_BALLOT
    ballots: Ballots = ()
    start: int = 0
    """The log start offset: records below it are deleted."""
    high: int = 0
    """A lower bound of the high watermark, saved now and then."""
    producers: bytes = b""
    """The packed state of idempotent producers after the batches below `producers_at`."""
    producers_at: int = 0
    status: Status = Status.FULL


# Writes, applied in their order in a commit.


@dataclass(frozen=True, slots=True)
class SavePartition:
    """Replace or create the record of a partition."""

    record: PartitionRecord


@dataclass(frozen=True, slots=True)
class AppendBatches:
    """Append sealed batches (partition, bytes), each at the end of its partition."""

    batches: Sequence[tuple[str, bytes]]


@dataclass(frozen=True, slots=True)
class ReplaceBatches:
    """Replace the batches of a range of offsets by one batch of the same range.

    The range begins and ends with a batch, and the last batch of the partition is not in it.
    """

    name: str
    batch: bytes


@dataclass(frozen=True, slots=True)
class CutPartition:
    """Truncate a partition: remove the batches from offset `end` on, a batch boundary."""

    name: str
    end: int


@dataclass(frozen=True, slots=True)
class TrimPartition:
    """Remove up to `limit` batches that lie entirely below offset `start`, oldest first."""

    name: str
    start: int
    limit: int = 256


@dataclass(frozen=True, slots=True)
class ErasePartition:
    """Remove all batches of a partition. Its record stays."""

    name: str


@dataclass(frozen=True, slots=True)
class DropPartition:
    """Remove the record, and up to `limit` batches at a time. Repeat it until all are gone.

    While batches are left, `Oldest` finds them, and a start finds the partition with a record whose
    copy is "". Create a partition of this name again only after that, or after an Erase.
    """

    name: str
    limit: int = 256


def dropped(name: str) -> PartitionRecord:
    """Return the record of a partition whose drop has left batches."""
    return PartitionRecord(name, "", status=Status.FAULTY)


PartitionWrite = (
    SavePartition
    | AppendBatches
    | ReplaceBatches
    | CutPartition
    | TrimPartition
    | ErasePartition
    | DropPartition
)


def partitions_of(write: PartitionWrite) -> set[str]:
    """Return the names of the partitions that a write changes."""
    if isinstance(write, AppendBatches):
        return {name for name, _ in write.batches}
    return {write.record.name if isinstance(write, SavePartition) else write.name}


# Queries, answered from committed batches. Every returned batch has passed its CRC.


@dataclass(frozen=True, slots=True)
class Batches:
    """Sealed batches with records in offset..until-1, in order, until `bytes_max` is reached.

    The first batch holds `offset`; it is returned whatever its size.
    """

    name: str
    offset: int
    until: int
    bytes_max: int = 1 << 20


@dataclass(frozen=True, slots=True)
class At:
    """The header of the first batch whose last record arrived at or after `us`: one or none."""

    name: str
    us: int


@dataclass(frozen=True, slots=True)
class Oldest:
    """Headers of up to `limit` batches, oldest first."""

    name: str
    limit: int


@dataclass(frozen=True, slots=True)
class Size:
    """One number: the total size of a partition's batches in bytes."""

    name: str


PartitionQuery = Batches | At | Oldest | Size


@dataclass(frozen=True, slots=True)
class CorruptPartition:
    """A result of a query that met a batch with a wrong CRC, or an unreadable one."""

    name: str


PartitionResult = list[bytes] | list[BatchHeader] | list[int] | CorruptPartition


@dataclass(frozen=True, slots=True)
class PartitionRecovered:
    """A partition as found on disk.

    end: after its last batch; the record's start when it has none. size: bytes of its batches.
    headers: of the batches from `producers_at` on, in order, to recompute the state of producers.
    """

    record: PartitionRecord
    end: int
    last_us: int
    size: int
    headers: Sequence[BatchHeader] = ()


@dataclass(frozen=True, slots=True)
class StreamsRecovered:
    """The content of the disk.

    is_old: whether the content is older than promises that this node may have made (rule RC5). It
    stays old over restarts until each partition is saved with another copy, or dropped.
    """

    boot: int
    is_old: bool = False
    partitions: dict[str, PartitionRecovered] = field(default_factory=dict)


class StreamStore(Protocol):
    """Batches in order, for one node. One writer; readers see only committed batches."""

    async def open(self) -> StreamsRecovered:
        """Open or create, count the boot, and return the content. Raises StoreBroken."""

    async def commit(self, writes: Sequence[PartitionWrite]) -> None:
        """Return once all of `writes` would survive a power cut; called one at a time.

        Raises DiskFull when there is no room: the store keeps nothing of the commit, and the caller
        may retry it. Raises StoreBroken on any other failure: the process must end.
        """

    async def read(self, queries: Sequence[PartitionQuery]) -> list[PartitionResult]:
        """Answer queries in their order, from one consistent snapshot of the committed batches."""

    async def close(self) -> None:
        """Finish the operations under way and release everything. Safe to call twice."""
