"""The contract of storage for streams: sealed batches in order of offset, durable when told so.

A *partition* is one log of records, of which each replica keeps a copy. It is named
`<topic>/<number>@<incarnation>`, so that a topic that was deleted and made again is another one.
Records are kept as they travel: in sealed batches (`model/streams_batch.py`), as bytes. Offsets
count records from 0; an *end* is the offset that the next record gets.

Two implementations pass the same tests, as for documents (`store.py`): `streams_sqlite.py` for
nodes and `testing/partition_ledger.py` for simulations. A commit is all or nothing. It carries the
writes to all partitions of a node that gathered during the commit before it (group commit).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from docstore.model.document import NO_BALLOT, Ballot, Ballots
from docstore.model.streams_batch import Header
from docstore.storage.store import Status


@dataclass(frozen=True, slots=True)
class PartitionRecord:
    """What a replica keeps of a partition beside its batches.

    copy: drawn at random whenever the data are begun anew, so that a replica that lost what it
    had acknowledged is not taken for the one that acknowledged it. Never "", see DropPartition.
    ballots: (ballot, number of its first record), records counted from 1 as rows are.
    """

    name: str
    copy: str
    promised: Ballot = NO_BALLOT
    adopted: Ballot = NO_BALLOT
    ballots: Ballots = ()
    start: int = 0
    """The log start offset: records below it are let go of."""
    high: int = 0
    """The high watermark, a lower bound that is saved now and then."""
    producers: bytes = b""
    """What is known of idempotent producers from the batches below `producers_at`, packed."""
    producers_at: int = 0
    status: Status = Status.FULL


# Writes, applied in the order in which they stand in a commit.


@dataclass(frozen=True, slots=True)
class SavePartition:
    """Replace the record of a partition, or begin one."""

    record: PartitionRecord


@dataclass(frozen=True, slots=True)
class AppendBatches:
    """Add sealed batches (partition, bytes), each at the end of its partition."""

    batches: Sequence[tuple[str, bytes]]


@dataclass(frozen=True, slots=True)
class CutPartition:
    """Remove the batches from offset `end` on, which is the edge of one."""

    name: str
    end: int


@dataclass(frozen=True, slots=True)
class TrimPartition:
    """Remove up to `limit` batches that lie below offset `start` as a whole, the oldest first."""

    name: str
    start: int
    limit: int = 256


@dataclass(frozen=True, slots=True)
class ErasePartition:
    """Remove all batches of a partition, however many; its record stays."""

    name: str


@dataclass(frozen=True, slots=True)
class DropPartition:
    """Remove the record, and up to `limit` batches at a time; until all are gone, drop again.

    While some are left, `Oldest` finds them, and a start finds the partition with a record that
    says so, whose copy is "". Begin a partition of this name anew only after that, or after an
    Erase.
    """

    name: str
    limit: int = 256


def dropped(name: str) -> PartitionRecord:
    """Return what stands for the record of a partition of which a drop has left batches."""
    return PartitionRecord(name, "", status=Status.FAULTY)


PartitionWrite = (
    SavePartition | AppendBatches | CutPartition | TrimPartition | ErasePartition | DropPartition
)


def partitions_of(write: PartitionWrite) -> set[str]:
    """Return the names of the partitions that a write is about."""
    if isinstance(write, AppendBatches):
        return {name for name, _ in write.batches}
    return {write.record.name if isinstance(write, SavePartition) else write.name}


# Queries, answered from what is committed. Every batch that is returned has passed its CRC.


@dataclass(frozen=True, slots=True)
class Batches:
    """Sealed batches with records in offset..until-1, in order, until `bytes_max` is reached.

    The first is the one that holds `offset`; at least one when there is one, however large.
    """

    name: str
    offset: int
    until: int
    bytes_max: int = 1 << 20


@dataclass(frozen=True, slots=True)
class At:
    """Headers: of the first batch whose last record came at or after `us`; of none, or of one."""

    name: str
    us: int


@dataclass(frozen=True, slots=True)
class Oldest:
    """Headers of up to `limit` batches, the oldest first."""

    name: str
    limit: int


@dataclass(frozen=True, slots=True)
class Size:
    """One number: the bytes of all batches of a partition."""

    name: str


PartitionQuery = Batches | At | Oldest | Size


@dataclass(frozen=True, slots=True)
class CorruptPartition:
    """In the place of a result: a batch of this partition failed its CRC, or cannot be read."""

    name: str


PartitionResult = list[bytes] | list[Header] | list[int] | CorruptPartition


@dataclass(frozen=True, slots=True)
class PartitionRecovered:
    """A partition as found on disk.

    end: after its last batch; the record's start when it has none. size: bytes of its batches.
    headers: of the batches from `producers_at` on, in order; they say what producers wrote since.
    """

    record: PartitionRecord
    end: int
    last_us: int
    size: int
    headers: Sequence[Header] = ()


@dataclass(frozen=True, slots=True)
class StreamsRecovered:
    """All that is on the disk. is_old: older than what this node may have promised (rule RC5).

    It stays so over restarts until each partition is saved with another copy, or is dropped.
    """

    boot: int
    is_old: bool = False
    partitions: dict[str, PartitionRecovered] = field(default_factory=dict)


class StreamStore(Protocol):
    """Batches in order, for one node. One writer; readers see only what is committed."""

    async def open(self) -> StreamsRecovered:
        """Open or create, count the boot, and return what is there. Raises StoreBroken."""

    async def commit(self, writes: Sequence[PartitionWrite]) -> None:
        """Return once all of `writes` would survive a power cut; called one at a time.

        Raises DiskFull when there is no room: nothing of it is kept, and it may be tried again.
        Raises StoreBroken on any other failure: the process must end.
        """

    async def read(self, queries: Sequence[PartitionQuery]) -> list[PartitionResult]:
        """Answer queries from one consistent snapshot of what is committed, in their order."""

    async def size_bytes(self) -> int:
        """Return the bytes that it takes on disk, its log included."""

    async def close(self) -> None:
        """Finish what is under way and give everything back. Safe to call twice."""
