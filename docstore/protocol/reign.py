"""What an owner knows of one reign over one slot. All of it dies with the process (rule B2)."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from docstore.model.document import Ballot, Row
from docstore.model.operation import Answer, Operation
from docstore.protocol.identity import Identity, fingerprint
from docstore.protocol.jobs import Jobs
from docstore.wire import Evidence


class Phase(Enum):
    """How far a reign has come."""

    PREPARING = auto()
    """Promises are being gathered."""
    RECOVERING = auto()
    """The base is known; this log and a quorum are being brought to it."""
    OPEN = auto()
    """Serving."""


@dataclass(slots=True)
class Inflight:
    """One operation at its owner, with the identity that it keeps wherever it goes."""

    entry: str
    boot: int
    seq: int
    oldest: int
    attempt: int
    deadline: float
    operation: Operation
    created: bool | None = None
    """Its row brings a document into being, for the first time or again; None: the row was made
    elsewhere, or before, and says so itself."""

    def identity(self, version: int, fences: Sequence[Any] = ()) -> Identity:
        """Return what the row of this version remembers of the operation that makes it."""
        operation = self.operation
        mark = fingerprint(operation) if operation.key or operation.writer else 0
        created = bool(self.created) and version > 0
        return Identity(
            self.entry, self.boot, self.seq, self.oldest, operation.key, mark,
            tuple(operation.writer), created, fences,
        )  # fmt: skip


WHEREVER = -1
"""A copy goes on from where the replica says that it is: our last page may be lost, or slow."""


@dataclass(slots=True)
class Follower:
    """How far another replica has come under this reign.

    acked: greatest n that it told us is durable there. sent: greatest n that was sent.
    adopted: it stands at the base or beyond under our ballot, so that its answers count.
    """

    acked: int
    sent: int
    sent_at: float = 0.0
    adopted: bool = False
    reading: bool = False
    """Rows for it are being read from the disk."""
    copied: int | None = None
    """While a copy is under way: the n up to which pages were sent, or WHEREVER it has come."""


@dataclass(slots=True)
class Head:
    """A document at its owner: its newest row, and its newest decided one."""

    newest: Row | None
    decided: Row | None
    jobs: Jobs | None = None
    """The bulk jobs that wrote it; None until one asks."""


@dataclass(slots=True)
class Refusal:
    """An answer that rests on the state as of row n, to be given once that is decided."""

    inflight: Inflight
    answer: Answer
    n: int


@dataclass(slots=True)
class Reign:
    """One reign, from the first promise to the end."""

    ballot: Ballot
    phase: Phase
    deadline: float
    evidence: dict[str, Evidence] = field(default_factory=dict)
    base: int = 0
    best: Evidence | None = None
    identical: set[str] = field(default_factory=set)
    """Replicas whose evidence is the base itself."""
    ends: dict[str, int] = field(default_factory=dict)
    """Replica -> durable end under this ballot, for those that adopted it: what counts."""
    followers: dict[str, Follower] = field(default_factory=dict)
    lease_until: float = float("-inf")
    """Until when a quorum has promised to let nobody else have the slot (rule R2)."""
    rooted: bool = False
    """A quorum has adopted the ballot: nothing below the base can come back."""
    fresh: list[Row] = field(default_factory=list)
    """Rows of this turn, not proposed yet."""
    heads: dict[str, Head] = field(default_factory=dict)
    head_bytes: int = 0
    evict_above: int = 0
    """Bytes of documents in memory from which on it is worth looking for some to forget."""
    loading: dict[str, list[Inflight]] = field(default_factory=dict)
    """Link -> operations that wait until something of the document is read from the disk."""
    held: list[Inflight] = field(default_factory=list)
    """Operations that wait for the reign to open, or for a standstill to be over."""
    waiting: deque[tuple[int, Inflight]] = field(default_factory=deque)
    """Updates in the log, by n, to be answered when they are decided."""
    duplicates: list[tuple[int, Inflight]] = field(default_factory=list)
    """Retries of updates that are in the log already."""
    refusals: list[Refusal] = field(default_factory=list)
    lacking: list[tuple[int, Inflight]] = field(default_factory=list)
    """Decided updates whose clients asked for more copies than a quorum."""
    past_reads: list[tuple[int, Inflight]] = field(default_factory=list)
    """Confirmed reads of older versions, with the row that this disk must hold first."""
    closing_since: float | None = None
    """Set while it is about to be given away: what arrives waits in `held`."""
    open_until: float = 0.0
    """Not to be closed again before."""
    opened_as: int = 0
    """How many reigns this process had opened by then, this one among them."""
    progress_at: float = 0.0
    """When it last decided something, or had nothing to decide."""
    still_until: float = 0.0
    """Updates wait until then; 0 when nobody has ever asked for it."""

    @property
    def is_writing(self) -> bool:
        """Whether an update is under way, in the log already or on its way into it."""
        loading = (each for waiting in self.loading.values() for each in waiting)
        is_loading = any(not each.operation.is_read for each in loading)
        return bool(self.fresh or self.waiting or is_loading)

    @property
    def is_busy(self) -> bool:
        """Whether something is under way that a client waits for."""
        return bool(
            self.fresh
            or self.waiting
            or self.duplicates
            or self.refusals
            or self.lacking
            or self.loading
            or self.past_reads
        )
