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
    """Records that a producer wants appended, and the entry node that gets the answer."""

    entry: str
    id: int
    acks: str
    deadline: float
    producer: tuple[str, int, int] | None
    flags: int
    records: int
    body: bytes
    base: int = -1
    """Offset of the first record; -1 until it is appended."""
    repeated: bool = False
    is_confirmed: bool = False
    """Whether a read since the records arrived has confirmed this epoch."""
    is_answered: bool = False
    number: int = 0
    """Number in the purgatory."""

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
    """Durable end of this copy as acknowledged under this epoch; it never shrinks."""
    has_joined: bool = False
    """Whether the follower has acknowledged under this epoch, so that `acked` counts."""
    is_copied: bool = False
    """Whether all its records are from this leader in this term, from the log start on."""
    sent: int = 0
    begins: tuple[int, int] = (-1, -1)
    """(base of the batch with which the follower begins, log start inside that batch)."""
    in_flight: deque[tuple[int, int]] = field(default_factory=deque)
    """(end, bytes) of each page that was sent and is not acknowledged."""
    in_flight_bytes: int = 0
    is_looking: bool = False
    """Whether a page for the follower is being read from the disk."""
    progress_at: float = NEVER
    told: tuple[int, int] = (0, 0)
    """(high watermark, log start) that were sent to the follower last."""
    news: int = 0
    """Number sent with `told`, which the follower repeats when it acknowledges."""
    start_news: int = 0
    """Number of the first message that told the log start in `told`."""
    probe: int = 0
    """Greatest number that the follower has repeated."""
    linked_at: float = NEVER
    """When the connection to the follower was last seen open."""
    caught_up_at: float = NEVER
    """Latest time for which the follower is known to have had the whole log."""
    target: tuple[int, float] = (0, NEVER)
    """(end, time) of the leader's log: `caught_up_at` once the follower acknowledges that end."""
    in_step_since: float | None = None
    noticed_at: float = NEVER
    """When the document was last sent to the follower, because it did not attach."""

    def knows_start(self, start: int) -> bool:
        """Say whether the follower is known to have this log start on its disk."""
        return self.told[1] == start and self.probe >= self.start_news


@dataclass(slots=True)
class Leading:
    """A partition that this node leads, or is the candidate for."""

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
    compression: str
    followers: dict[str, FollowerState]
    changing: tuple[Copy, ...] | None = None
    """Live replica set of an update whose fate is unknown; None when there is none."""
    is_promised: bool = False
    """Whether our promise of this epoch is durable; until then we send followers nothing."""
    is_online: bool = False
    """Whether the document names us as the leader."""
    probe: int = 0
    """Number of the open question to followers whether this epoch is the newest; 0 if none."""
    last_probe: int = 0
    probed_at: float = NEVER
    yielding_to: str | None = None
    yield_until: float = NEVER
    resigned_at: float = NEVER
    gathered: list[PendingAppend] = field(default_factory=list)
    """Requests that were accepted and are sealed at the end of the turn."""
    deferred: deque[PendingAppend] = field(default_factory=deque)
    """Requests not judged yet, as this node may not be the leader any more."""
    committing: list[tuple[int, int, PendingAppend]] = field(default_factory=list)
    """Heap of (end, number, request) that wait for the high watermark to reach the end."""
    storing: list[tuple[int, int, PendingAppend]] = field(default_factory=list)
    """Heap of (end, number, request) that wait for the leader's own disk to reach the end."""

    @property
    def copy(self) -> Copy | None:
        """Return our own copy, as the live replica set names it."""
        return next((each for each in self.recorded if each[1] == self.log.copy), None)

    @property
    def required(self) -> set[Copy]:  # Tests replace this.
        """Return the copies that must have a record before it is committed.

        These are the members of the live replica set, and of the one that an update of unknown fate
        would record.
        """
        return {*self.recorded, *(self.changing or ())}

    @property
    def knows_high(self) -> bool:
        """Say whether our high watermark is at least any that an earlier leader has shown."""
        return self.log.high >= self.base

    @property
    def shown_high(self) -> int:  # Tests replace this.
        """Return the high watermark as every answer shows it (RC9)."""
        return self.log.high if self.knows_high else HIGH_NOT_KNOWN

    @property
    def defers(self) -> bool:
        """Say whether requests of producers must wait before they are judged."""
        return not self.is_online or bool(self.probe) or self.yielding_to is not None

    @property
    def waits(self) -> bool:
        """Say whether a request waits for a record to be stored or committed."""
        return bool(self.committing or self.storing)


Leads = dict[str, Leading]
"""Name -> partition, for all that a node leads."""


def in_set(copies: Sequence[Copy], node: str) -> bool:
    """Say whether a set of copies names a node, whichever data its copy has."""
    return any(copy[0] == node for copy in copies)
