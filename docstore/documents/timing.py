"""Times and bounds of the replication protocol, with units and reasons."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadershipTimes:
    heartbeat_interval_s: float = 0.2
    """Interval between two heartbeats to each member."""
    owner_timeout_s: float = 1.2
    """Silence on the link after which a member may be replaced as owner; six heartbeats."""
    attempt_timeout_s: float = 0.3
    """Time for a quorum to answer a candidate before it backs off (rule T4)."""
    backoff_s: float = 0.02
    """Back-off between attempts at one ownership: doubled up to five times, with full jitter."""
    start_grace_s: float = 1.5
    """Time after a start in which slots are left to a preferred member that was not heard yet."""
    quorum_grace_s: float = 1.0
    """Silence of a quorum after which an owner takes no new updates (rule O6)."""
    quorum_lost_s: float = 2.0
    """Silence of a quorum after which the owner returns the operations in flight and yields."""
    unfit_s: float = 10.0
    """Time after yielding in which other nodes do not choose the node as owner."""
    lease_s: float = 1.0
    """Length of a read lease: a replica promises the slot to no other node meanwhile."""
    lease_guard_s: float = 0.05
    """Time that an owner deducts from a lease, besides 0.1 % for clocks of unequal rates."""
    hand_back_after_s: float = 5.0
    """Time that a preferred member must be up before its slots are handed back to it."""
    closing_max_s: float = 0.5
    """Longest time that a slot is closed for a hand-over before it is served again."""

    @property
    def vacant_after_s(self) -> float:
        """Return after how many seconds a slot without an owner counts in readiness.

        A hand-over takes less.
        """
        return self.owner_timeout_s / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingBounds:
    """Bounds of the operations that wait at an entry node."""

    owner_patience_s: float = 3.0
    """Time after which an update that no owner has taken is refused, before its deadline."""
    link_patience_s: float = 1.0
    """Time after which an update is refused if only this node has no connection to the owner."""
    retry_s: float = 0.7
    """Time after which an unanswered operation is sent again, under its identity."""
    drain_patience_s: float = 7.0
    """Time after which a stopping node answers waiting operations.

    So it ends within ten seconds (reliability line R38).
    """
    operations_max: int = 10_000
    bytes_max: int = 64 << 20
    """Maximum bytes of waiting operations.

    Above this or the bound on their number the answer is 503 (rule E3).
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class SendingBounds:
    resend_interval_s: float = 0.25
    """Time after which unacknowledged rows are sent again."""
    page_rows: int = 256
    """Rows in one message about one slot."""
    page_bytes: int = 1 << 20
    """Bytes of state in one message about one slot."""
    copies_max: int = 16
    """Slots that one owner copies to one replica at a time: enough to keep its disk busy, few
    enough that a page is stored before the owner asks again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryBounds:
    cache_bytes_per_slot: int = 256 << 10
    """Bytes of current documents cached per owned slot, with their overhead."""
    recall_rows: int = 65_536
    """Versions of a document that are read back for a retry from before this node's start. A retry
    of an older version is answered as undecided (reliability line R21)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    history_s: float = 0.0
    """Age from which superseded versions are compacted; 0 keeps them for ever."""
    tombstones_s: float = 86_400.0
    """Age from which tombstones are removed, where versions are compacted; a day of retries."""
    conflicts_s: float = 86_400.0
    """Age at which a losing branch is dropped, at levels 1 and 2."""
    trim_interval_s: float = 60.0
    """Interval between two compaction rounds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaConfig:
    leadership: LeadershipTimes = field(default_factory=LeadershipTimes)
    waiting: WaitingBounds = field(default_factory=WaitingBounds)
    sending: SendingBounds = field(default_factory=SendingBounds)
    memory: MemoryBounds = field(default_factory=MemoryBounds)
    retention: Retention = field(default_factory=Retention)

    copies_patience_s: float = 0.5
    """At level 2, how long an update waits for all live replicas once one other replica has it."""
    clock_ahead_us_max: int = 500_000
    """How far a clock may be ahead of the others before its stamps are held back."""
    remove_after_s: float = 0.0
    """Silence after which a member is proposed for removal; 0 for never."""
