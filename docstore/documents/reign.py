"""What an owner knows of one reign over one slot. All of it dies with the process (rule B2)."""

from dataclasses import dataclass, field
from enum import Enum, auto

from docstore.documents.clients import Clients
from docstore.documents.document_cache import DocumentCache
from docstore.model.document import Ballot, Row
from docstore.wire.messages import Evidence


class Phase(Enum):
    """How far a reign has come."""

    PREPARING = auto()
    """Promises are being gathered."""
    RECOVERING = auto()
    """The base is known; this log and a quorum are being brought to it."""
    OPEN = auto()
    """Serving."""


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
class Recovery:
    """How a reign comes to its base, until it is open; see `leadership/takeover.py`."""

    deadline: float
    """The attempt is given up then."""
    evidence: dict[str, Evidence] = field(default_factory=dict)
    """Replica -> what its log holds, of those that have promised."""
    best: Evidence | None = None
    """The base: the log that holds all that was ever decided."""
    identical: set[str] = field(default_factory=set)
    """Replicas whose evidence is the base itself."""


@dataclass(slots=True)
class Reign:
    """One reign, from the first promise to the end."""

    ballot: Ballot
    phase: Phase
    recovery: Recovery
    base: int = 0
    """End of the log that it began with."""
    ends: dict[str, int] = field(default_factory=dict)
    """Replica -> durable end under this ballot, for those that adopted it: what counts."""
    followers: dict[str, Follower] = field(default_factory=dict)
    lease_until: float = float("-inf")
    """Until when a quorum has promised to let nobody else have the slot (rule R2)."""
    closed_us: int = 0
    """A quorum gives no later row a time up to this one, whichever node owns the slot (R5)."""
    recovered: bool = False
    """A quorum has adopted the ballot: nothing below the base can come back."""
    fresh: list[Row] = field(default_factory=list)
    """Rows of this turn, not proposed yet."""
    cache: DocumentCache = field(default_factory=DocumentCache)
    clients: Clients = field(default_factory=Clients)
    closed_since: float | None = None
    """Set while it is about to be given away: whatever arrives is deferred."""
    closable_from: float = 0.0
    """Not to be closed again before: the last time took too long."""
    updates_deferred_until: float = 0.0
    """Of a node that stands still; 0 when nobody has ever asked for it."""
    opened_as: int = 0
    """How many reigns this process had opened by then, this one among them."""
    progress_at: float = 0.0
    """When it last decided something, or had nothing to decide."""

    def copies(self, n: int) -> int:
        """Return how many replicas hold the log up to row n, durably."""
        found = 0
        for end in self.ends.values():  # Once an update: a generator would cost more than this.
            if end >= n:
                found += 1
        return found

    @property
    def is_writing(self) -> bool:
        """Whether an update is under way, in the log already or on its way into it."""
        return bool(self.fresh) or self.clients.is_writing

    @property
    def is_busy(self) -> bool:
        """Whether something is under way that a client waits for."""
        return bool(self.fresh) or self.clients.is_busy
