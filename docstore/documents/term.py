"""An owner's state of one leadership term over one slot, in memory only (rule B2)."""

from dataclasses import dataclass, field
from enum import Enum, auto

from docstore.documents.clients import Clients
from docstore.documents.document_cache import DocumentCache
from docstore.model.document import Ballot, Row
from docstore.wire.messages import Evidence


class Phase(Enum):
    PREPARING = auto()
    """The node collects promises."""
    RECOVERING = auto()
    """The base is known; this log and the logs of a quorum are being brought to it."""
    OPEN = auto()
    """Serving."""


WHEREVER = -1
"""For `Follower.copied`: unknown, as a page may be lost or slow; the replica reports it."""


@dataclass(slots=True)
class Follower:
    """The progress of another replica under this term.

    acked: greatest n that it has reported as durable. sent: greatest n sent to it. adopted: it has
    adopted this term's ballot, so that its answers count.
    """

    acked: int
    sent: int
    sent_at: float = 0.0
    adopted: bool = False
    reading: bool = False
    """Rows for it are being read from the disk."""
    copied: int | None = None
    """During a copy: the n up to which pages were sent, or WHEREVER if that is unknown."""


@dataclass(slots=True)
class Recovery:
    """The state of a new owner that gathers the rows it takes over, until its term is open.

    See `leadership/takeover.py`.
    """

    deadline: float
    """Time at which the node abandons the attempt."""
    evidence: dict[str, Evidence] = field(default_factory=dict)
    """Replica that has promised -> the state of its log."""
    best: Evidence | None = None
    """The base: the log that holds every decided row."""
    identical: set[str] = field(default_factory=set)
    """Replicas whose log equals the base."""


@dataclass(slots=True)
class Term:
    """One leadership term, from the first promise to its end."""

    ballot: Ballot
    phase: Phase
    recovery: Recovery
    base: int = 0
    """End of the log that the term began with."""
    ends: dict[str, int] = field(default_factory=dict)
    """Replica that has adopted this ballot -> its durable end. A quorum of these decides."""
    followers: dict[str, Follower] = field(default_factory=dict)
    lease_until: float = float("-inf")
    """Expiry of the read lease: a quorum promises the slot to no other node before (R2)."""
    closed_us: int = 0
    """Instant that a quorum has closed: no later row of any owner has a time up to it (R5)."""
    recovered: bool = False
    """A quorum has adopted the ballot: nothing below the base can come back."""
    fresh: list[Row] = field(default_factory=list)
    """Rows of this turn, not proposed yet."""
    cache: DocumentCache = field(default_factory=DocumentCache)
    clients: Clients = field(default_factory=Clients)
    closed_since: float | None = None
    """Time since which the slot is closed for a hand-over; operations that arrive wait."""
    closable_from: float = 0.0
    """Earliest time at which the slot may be closed again, after a closing that took too long."""
    updates_deferred_until: float = 0.0
    """End of the write barrier; 0.0 if there never was one."""
    opened_as: int = 0
    """Number of terms that this process had opened, this one included."""
    progress_at: float = 0.0
    """Time at which this term last decided a row or had no row to decide."""

    def copies(self, n: int) -> int:
        """Count the replicas that durably hold the log up to row n."""
        found = 0
        for end in self.ends.values():  # Runs for every update: faster than a generator.
            if end >= n:
                found += 1
        return found

    @property
    def is_writing(self) -> bool:
        return bool(self.fresh) or self.clients.is_writing

    @property
    def is_busy(self) -> bool:
        return bool(self.fresh) or self.clients.is_busy
