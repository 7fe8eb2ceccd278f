"""The protocol's times and bounds, with units and reasons, by what they are about."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadershipTimes:
    """When a slot gets another owner, and for how long its owner may go on."""

    heartbeat_interval_s: float = 0.2
    """Between two heartbeats to each member."""

    owner_timeout_s: float = 1.2
    """Silence on the link after which a member may be replaced as owner; six heartbeats."""

    attempt_timeout_s: float = 0.3
    """Time for a quorum to answer a candidate before it backs off (rule T4)."""

    backoff_s: float = 0.02
    """Doubled up to five times, with full jitter, between attempts at one ownership."""

    start_grace_s: float = 1.5
    """After a start, slots that another member prefers are left to it for this long, unless it has
    been heard of: then it is known what it holds and whether it wants more."""

    quorum_grace_s: float = 1.0
    """An owner that has not heard a quorum for this long takes no new updates (rule O6)."""

    quorum_lost_s: float = 2.0
    """After this long it gives up what is in flight and yields."""

    unfit_s: float = 10.0
    """For this long after yielding others skip it as owner."""

    lease_s: float = 1.0
    """With leases: for so long a replica lets nobody but the owner that asked have a slot."""

    lease_guard_s: float = 0.05
    """Taken off a lease by who holds it, beside a thousandth for clocks that do not run equal."""

    hand_back_after_s: float = 5.0
    """For how long a preferred member must be back before its slots are given back to it."""

    closing_max_s: float = 0.5
    """Longest time that a slot is closed for a hand-over before it is served again."""

    @property
    def vacant_after_s(self) -> float:
        """Return for how long a slot lacks an owner before nodes are not ready for it.

        A hand-over is over by then.
        """
        return self.owner_timeout_s / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingBounds:
    """What waits at an entry node, and for how long."""

    owner_patience_s: float = 3.0
    """An update that no owner has taken for so long is refused, before its deadline."""

    link_patience_s: float = 1.0
    """The same when there is an owner, and only this node has no connection to it."""

    retry_s: float = 0.7
    """After which an operation without an answer is asked for again, under its identity."""

    drain_patience_s: float = 7.0
    """What waits at a node that stops is answered after so long: it ends within ten
    (reliability line R38)."""

    operations_max: int = 10_000
    bytes_max: int = 64 << 20
    """Beyond either the answer is 503 (rule E3)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SendingBounds:
    """How replicas are sent what they need."""

    resend_interval_s: float = 0.25
    """After which what a replica has not acknowledged is sent again."""

    page_rows: int = 256
    """Rows in one message about one slot."""

    page_bytes: int = 1 << 20
    """Bytes of state in one message about one slot."""

    copies_max: int = 16
    """Slots that one owner copies to one replica at the same time: enough to keep its disk busy,
    few enough that a page is on it before we ask again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryBounds:
    """What an owner keeps of its documents, and looks for."""

    cache_bytes_per_slot: int = 256 << 10
    """Current documents kept in memory per owned slot, in bytes with all that is around them."""

    recall_rows: int = 65_536
    """How many versions of a document are read back when a retry of an update of it asks for one
    that was made before this node's start. What may lie deeper is answered as unknown
    (reliability line R21)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """For how long what is old is kept."""

    history_s: float = 0.0
    """Age from which superseded versions are let go of; 0 keeps them for ever."""

    tombstones_s: float = 86_400.0
    """Age from which tombstones are let go of, where superseded versions are; a day of retries."""

    conflicts_s: float = 86_400.0
    """For how long a branch that lost is kept, at levels 1 and 2."""

    trim_interval_s: float = 60.0
    """Between two looks at each slot for old versions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaConfig:
    """The times and bounds of one replica."""

    leadership: LeadershipTimes = field(default_factory=LeadershipTimes)
    waiting: WaitingBounds = field(default_factory=WaitingBounds)
    sending: SendingBounds = field(default_factory=SendingBounds)
    memory: MemoryBounds = field(default_factory=MemoryBounds)
    retention: Retention = field(default_factory=Retention)

    copies_patience_s: float = 0.5
    """At level 2, how long live replicas are waited for once another one has the update."""

    clock_ahead_us_max: int = 500_000
    """How far a clock may run ahead of the others' before its stamps are held back."""

    remove_after_s: float = 0.0
    """Silence after which a member is proposed for removal; 0 means never."""
