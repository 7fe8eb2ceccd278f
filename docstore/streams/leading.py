"""State of a leader for one partition: its followers, live replica set and waiting requests."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from docstore.machines.core import NEVER
from docstore.streams.effects import HIGH_NOT_KNOWN
from docstore.streams.log import PartitionLog
from docstore.streams.replica_set import Copy


@dataclass(slots=True)
class PendingAppend:
    """Records that a producer wants appended, and the node to answer."""

    entry: str
    id: int
    acks: str
    deadline: float
    producer: tuple[str, int, int] | None
    flags: int
    records: int
    body: bytes
    base: int = -1
    """Offset of the first record, -1 until they have one."""
    repeated: bool = False
    is_confirmed: bool = False
    """Whether this epoch was confirmed after its arrival."""
    is_answered: bool = False

    @property
    def end(self) -> int:
        """Return the offset after the last record."""
        return self.base + self.records


@dataclass(slots=True)
class FollowerState:
    """State of one follower, as the leader knows it."""

    node: str
    copy: str = ""
    is_full: bool = True
    is_attached: bool = False
    acked: int = 0
    """It has the log up to here, durably, under this epoch: true for good of this copy."""
    has_joined: bool = False
    """It has acknowledged something under this epoch, so that `acked` counts."""
    sent: int = 0
    in_flight: deque[tuple[int, int]] = field(default_factory=deque)
    """(end, bytes) of what was sent and is not acknowledged."""
    in_flight_bytes: int = 0
    is_looking: bool = False
    """Whether a page for it is being read from the disk."""
    progress_at: float = NEVER
    told: tuple[int, int] = (0, 0)
    """(high watermark, log start) that were sent to it last."""
    news: int = 0
    """The number with which it acknowledges them."""
    probe: int = 0
    """The newest number that it has repeated."""
    linked_at: float = NEVER
    """When the connection was last seen open."""
    caught_up_at: float = NEVER
    """When it last had all that the leader had at that moment."""
    target: tuple[int, float] = (0, NEVER)
    """(end of the leader's log, when): once acknowledged, it has caught up as of then."""
    in_step_since: float | None = None
    noticed_at: float = NEVER
    """When the partition's document was last sent to it, though it should know it."""


@dataclass(slots=True)
class Leading:
    """One partition that this node leads, or is about to."""

    log: PartitionLog
    epoch: int
    base: int
    """End of the log when this epoch began."""
    recorded: tuple[Copy, ...]
    """The live replica set, as the document is known to say."""
    eligible: tuple[Copy, ...]
    least: int
    """min.insync: records are committed only while the live replica set has this many."""
    max_lag_ms: int
    max_lag_records: int
    followers: dict[str, FollowerState]
    changing: tuple[Copy, ...] | None = None
    """The live replica set that an update may already have recorded, or may still record."""
    is_online: bool = False
    """Whether the document names us as the leader."""
    probe: int = 0
    """A question to all followers whether this epoch still stands; 0 when there is none open."""
    last_probe: int = 0
    probed_at: float = NEVER
    yielding_to: str | None = None
    yield_until: float = NEVER
    resigned_at: float = NEVER
    gathered: list[PendingAppend] = field(default_factory=list)
    """Judged, and not sealed before the turn ends."""
    deferred: deque[PendingAppend] = field(default_factory=deque)
    """Requests not judged yet: this node may not be the leader any more."""
    committing: list[tuple[int, int, PendingAppend]] = field(default_factory=list)
    """Heap of (end, number, request) until the high watermark reaches the end."""
    storing: list[tuple[int, int, PendingAppend]] = field(default_factory=list)
    """The same, until the leader's own disk has the records."""

    @property
    def copy(self) -> Copy | None:
        """Return our own copy, as the live replica set names it."""
        return next((each for each in self.recorded if each[1] == self.log.copy), None)

    @property
    def required(self) -> set[Copy]:  # Tests replace this.
        """Return the copies that must have a record to commit it, of all sets that may be recorded.

        The one known, and the one that an update of unknown fate would record.
        """
        return {*self.recorded, *(self.changing or ())}

    @property
    def knows_high(self) -> bool:
        """Say whether our high watermark is not below what an earlier leader may have shown."""
        return self.log.high >= self.base

    @property
    def shown_high(self) -> int:  # Tests replace this.
        """Return the high watermark as every answer shows it (RC9)."""
        return self.log.high if self.knows_high else HIGH_NOT_KNOWN

    @property
    def defers(self) -> bool:
        """Say whether what producers want has to wait before it is judged."""
        return not self.is_online or bool(self.probe) or self.yielding_to is not None

    @property
    def waits(self) -> bool:
        """Say whether a request waits for a record to be stored or committed."""
        return bool(self.committing or self.storing)


Leads = dict[str, Leading]
"""Name -> the partition, of all that a node leads."""


def in_set(copies: Sequence[Copy], node: str) -> bool:
    """Say whether a node is named in a set of copies, with whatever data."""
    return any(copy[0] == node for copy in copies)
