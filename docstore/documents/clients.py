"""Operations at their owner that are not answered yet, by the event that each waits for."""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from docstore.model.document import Row
from docstore.model.identity import OperationIdentity, fingerprint
from docstore.model.operation import Answer, Operation

DISK_FULL = Answer(
    503, "disk-full", "the disk of this node is full, nothing was stored: retry at another node"
)
REPLICAS_FULL = Answer(
    503, "disk-full", "the disks of most replicas are full, nothing was stored: retry later"
)


@dataclass(slots=True)
class Inflight:
    """One operation at its owner, with the identity that it keeps over forwarding and retries."""

    entry: str
    boot: int
    seq: int
    oldest: int
    attempt: int
    deadline: float
    slot: int
    operation: Operation
    created: bool | None = None
    """Whether its row creates the document, anew or over a tombstone.

    None if another node or an earlier attempt made the row: then the row's identity says it.
    """
    made: Sequence[Row] = ()
    """Rows of a batch that this owner has appended for this very attempt."""
    arrived_at: float | None = None
    """Time of arrival, if the operation is measured (`measures.py`)."""

    def identity(
        self, version: int, fences: Sequence[Any] = (), agenda: Sequence[Any] = ()
    ) -> OperationIdentity:
        operation = self.operation
        mark = fingerprint(operation) if operation.key or operation.writer else 0
        created = bool(self.created) and version > 0
        return OperationIdentity(
            self.entry, self.boot, self.seq, self.oldest, operation.key, mark,
            tuple(operation.writer), created, fences, (), operation.principal,
            agenda,
        )  # fmt: skip


@dataclass(slots=True)
class Refusal:
    """A refusal that depends on row n; the client gets it once that row is decided."""

    inflight: Inflight
    answer: Answer
    n: int


@dataclass(slots=True)
class PastRead:
    """A confirmed read of older versions.

    until: row that must be decided, and on this disk, before the read. first: smallest version that
    is shown.
    """

    inflight: Inflight
    until: int
    first: int


@dataclass(slots=True)
class Clients:
    """The unanswered operations of one slot."""

    deferred: list[Inflight] = field(default_factory=list)
    """Operations that wait until the term opens, a closed slot reopens, or a write barrier ends."""
    loading: dict[str, list[Inflight]] = field(default_factory=dict)
    """Link -> operations that wait for a read of the document from the disk."""
    updates: deque[tuple[int, Inflight]] = field(default_factory=deque)
    """(n, operation) of undecided updates, by n."""
    duplicates: list[tuple[int, Inflight]] = field(default_factory=list)
    """Retries of updates that are in the log already."""
    lacking: list[tuple[int, Inflight]] = field(default_factory=list)
    """Decided updates whose clients asked for more copies than a quorum."""
    refusals: list[Refusal] = field(default_factory=list)
    past_reads: list[PastRead] = field(default_factory=list)

    @property
    def is_busy(self) -> bool:
        """Whether an operation is under way, and not only deferred."""
        return bool(
            self.updates
            or self.duplicates
            or self.refusals
            or self.lacking
            or self.loading
            or self.past_reads
        )

    @property
    def is_writing(self) -> bool:
        loading = (each for waiting in self.loading.values() for each in waiting)
        return bool(self.updates) or any(not each.operation.is_read for each in loading)

    def in_the_log(self) -> list[Inflight]:
        """Return the operations with a row in the log: they may take effect."""
        return [each for _, each in (*self.updates, *self.duplicates, *self.lacking)]

    def not_in_the_log(self) -> Iterator[Inflight]:
        yield from (refusal.inflight for refusal in self.refusals)
        yield from self.deferred
        yield from (read.inflight for read in self.past_reads)
        for waiting in self.loading.values():
            yield from waiting

    def duplicates_until(self, n: int) -> list[tuple[int, Inflight]]:
        ready = [entry for entry in self.duplicates if entry[0] <= n]
        self.duplicates = [entry for entry in self.duplicates if entry[0] > n]
        return ready

    def refusals_until(self, n: int) -> list[Refusal]:
        ready = [refusal for refusal in self.refusals if refusal.n <= n]
        self.refusals = [refusal for refusal in self.refusals if refusal.n > n]
        return ready

    def taken_back(self, first: int) -> Iterator[Inflight]:
        """Remove and yield operations that depend on rows from `first` on, which were never sent.

        Refusals may depend on these rows as well, so all refusals are yielded too.
        """
        while self.updates and self.updates[-1][0] >= first:
            yield self.updates.pop()[1]
        for entry in [entry for entry in self.duplicates if entry[0] >= first]:
            self.duplicates.remove(entry)
            yield entry[1]
        refusals, self.refusals = self.refusals, []
        yield from (refusal.inflight for refusal in refusals)
