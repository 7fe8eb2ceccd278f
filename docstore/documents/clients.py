"""Operations at their owner: whose they are, and what each of them waits for."""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from docstore.model.document import Row
from docstore.model.identity import OperationIdentity, fingerprint
from docstore.model.operation import Answer, Operation

DISK_FULL = Answer(503, "disk-full", "this node has no room; nothing was stored")
REPLICAS_FULL = Answer(503, "disk-full", "most replicas have no room; nothing was stored")


@dataclass(slots=True)
class Inflight:
    """One operation at its owner, with the identity that it keeps wherever it goes."""

    entry: str
    boot: int
    seq: int
    oldest: int
    attempt: int
    deadline: float
    slot: int
    operation: Operation
    created: bool | None = None
    """Its row brings a document into being, for the first time or again; None: the row was made
    elsewhere, or before, and says so itself."""
    made: Sequence[Row] = ()
    """The rows of a batch, if they were made here, and now."""
    arrived_at: float | None = None
    """When it came here, if it is measured (`measures.py`)."""

    def identity(self, version: int, fences: Sequence[Any] = ()) -> OperationIdentity:
        """Return what the row of this version remembers of the operation that makes it."""
        operation = self.operation
        mark = fingerprint(operation) if operation.key or operation.writer else 0
        created = bool(self.created) and version > 0
        return OperationIdentity(
            self.entry, self.boot, self.seq, self.oldest, operation.key, mark,
            tuple(operation.writer), created, fences, (), operation.principal,
        )  # fmt: skip


@dataclass(slots=True)
class Refusal:
    """An answer that rests on the state as of row n, to be given once that is decided."""

    inflight: Inflight
    answer: Answer
    n: int


@dataclass(slots=True)
class PastRead:
    """A confirmed read of older versions.

    until: the row that must be decided, and on this disk, before. first: the first version that is
    shown.
    """

    inflight: Inflight
    until: int
    first: int


@dataclass(slots=True)
class Clients:
    """Those of one slot that are not answered yet."""

    deferred: list[Inflight] = field(default_factory=list)
    """Until the term opens, or a standstill is over."""
    loading: dict[str, list[Inflight]] = field(default_factory=dict)
    """By link, until something of the document is read from the disk."""
    updates: deque[tuple[int, Inflight]] = field(default_factory=deque)
    """In the log, by n, until they are decided."""
    duplicates: list[tuple[int, Inflight]] = field(default_factory=list)
    """Retries of updates that are in the log already."""
    lacking: list[tuple[int, Inflight]] = field(default_factory=list)
    """Decided updates whose clients asked for more copies than a quorum."""
    refusals: list[Refusal] = field(default_factory=list)
    past_reads: list[PastRead] = field(default_factory=list)

    @property
    def is_busy(self) -> bool:
        """Whether something is under way here, not only deferred."""
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
        """Whether an update is in the log, or on its way into it."""
        loading = (each for waiting in self.loading.values() for each in waiting)
        return bool(self.updates) or any(not each.operation.is_read for each in loading)

    def in_the_log(self) -> list[Inflight]:
        """Return those that have a row in the log: they may take effect."""
        return [each for _, each in (*self.updates, *self.duplicates, *self.lacking)]

    def not_in_the_log(self) -> Iterator[Inflight]:
        """Yield the others."""
        yield from (refusal.inflight for refusal in self.refusals)
        yield from self.deferred
        yield from (read.inflight for read in self.past_reads)
        for waiting in self.loading.values():
            yield from waiting

    def duplicates_until(self, n: int) -> list[tuple[int, Inflight]]:
        """Take out, and return, the retries of updates up to row n."""
        ready = [entry for entry in self.duplicates if entry[0] <= n]
        self.duplicates = [entry for entry in self.duplicates if entry[0] > n]
        return ready

    def refusals_until(self, n: int) -> list[Refusal]:
        """Take out, and return, the refusals that rest on rows up to n."""
        ready = [refusal for refusal in self.refusals if refusal.n <= n]
        self.refusals = [refusal for refusal in self.refusals if refusal.n > n]
        return ready

    def taken_back(self, first: int) -> Iterator[Inflight]:
        """Take out, and yield, those that rest on rows from `first` on, which nobody has heard of.

        A refusal may rest on them as well.
        """
        while self.updates and self.updates[-1][0] >= first:
            yield self.updates.pop()[1]
        for entry in [entry for entry in self.duplicates if entry[0] >= first]:
            self.duplicates.remove(entry)
            yield entry[1]
        refusals, self.refusals = self.refusals, []
        yield from (refusal.inflight for refusal in refusals)
