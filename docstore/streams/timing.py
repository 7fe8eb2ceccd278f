"""Times and bounds of streams, with units and reasons."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionTimes:
    """When a leader is replaced, and how another one is found."""

    owner_timeout_s: float = 1.2
    """Silence after which a leader may be replaced, as for owners of documents."""
    veto_s: float = 0.25
    """Time for which one answer that the leader is heard keeps it from being replaced."""
    gather_s: float = 0.2
    """How long an election waits for the answers of all replicas that are alive."""
    confirm_s: float = 0.5
    """How long a candidate has to confirm that it leads before the next one is elected."""
    offline_retry_s: float = 2.0
    """Pause between two elections of a partition that found no replica to lead."""
    stuck_s: float = 2.0
    """Time after which a leader resigns if its disk stored nothing while requests wait."""
    unfit_s: float = 10.0
    """Time after such a resignation during which the node is not elected again."""
    pause_s: float = 0.5
    """Stall of its process after which a leader asks followers whether its epoch is the newest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferBounds:
    """Bounds on moves of leads and of replicas."""

    fail_back_s: float = 60.0
    """How long the preferred leader must have been in step before it leads again; 0 for never."""
    transfers_max: int = 5
    """Leads that one controller moves at a time."""
    yield_s: float = 0.5
    """How long a leader that yields defers new records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationBounds:
    """Bounds on what followers are sent, and on when they count as in sync."""

    unlinked_s: float = 0.3
    """Time without a connection after which a follower leaves the live replica set."""
    join_s: float = 0.5
    """Time that a follower must be in step before it joins the live replica set."""
    resend_s: float = 0.25
    """Time after which batches that a follower has not acknowledged are sent again."""
    page_bytes: int = 1 << 20
    """Bytes of batches in one message about one partition."""
    in_flight_bytes: int = 8 << 20
    """Bytes sent to one follower and not acknowledged; heartbeats may wait behind these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchMemory:
    """Bounds of memory for batches, and for the requests of producers that wait."""

    batch_bytes: int = 1 << 20
    """Bytes of the records of one batch, unless the topic says less."""
    tail_bytes: int = 1 << 20
    """Bytes of the newest batches of a partition that are kept in memory."""
    tails_bytes: int = 64 << 20
    """Bytes of the newest batches of all partitions that are kept in memory."""
    waiting_max: int = 10_000
    waiting_bytes_max: int = 64 << 20
    """Bytes of requests that may wait at a node; further requests are answered with 503."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Upkeep:
    """Intervals of background checks, and how long old state is kept."""

    save_s: float = 5.0
    """Interval at which high watermarks that moved are saved."""
    snapshot_batches: int = 1_000
    """Batches between two saves of producer state; a start reads at most this many headers."""
    retention_s: float = 60.0
    """Interval between two passes over a partition for records that are too old, or too many."""
    scrub_s: float = 3600.0
    """Interval between two readings of the whole disk, to find damage."""
    linger_s: float = 1.0
    """Time that the document of a deleted partition is kept, for its replicas to see it."""
    orphans_s: float = 60.0
    """Interval between two audits of a topic by the controllers of its partitions; 0 for never."""
    strays_s: float = 600.0
    """Interval in which each replica on the disk reads its document about once."""
    producer_expiry_us: int = 86_400_000_000
    """Time after which an idle producer is forgotten, by its partition's times and rule D6."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionBounds:
    """Bounds on the compaction of logs by key."""

    step_bytes: int = 256 << 10
    """Bytes of batches that one step reads."""
    step_interval_s: float = 0.05
    """Pause between two steps of compaction, so that the node has time for other work."""
    joined_bytes: int = 256 << 10
    """Approximate greatest size of a batch that is joined from smaller ones."""
    keys_max: int = 1 << 17
    """Keys in memory; a pass over more of them takes in only the older part of the log."""
    growth: float = 1.5
    """Factor by which a log must have grown to be compacted again at once."""
    rest: int = 10
    """Number of `retention_s` after which a log that has grown by less is compacted again."""
    tombstone_us: int = 86_400_000_000
    """Time for which a tombstone stays after the last older record of its key, as in Kafka."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsConfig:
    """The times and bounds of streams."""

    elections: ElectionTimes = field(default_factory=ElectionTimes)
    transfers: TransferBounds = field(default_factory=TransferBounds)
    replication: ReplicationBounds = field(default_factory=ReplicationBounds)
    memory: BatchMemory = field(default_factory=BatchMemory)
    upkeep: Upkeep = field(default_factory=Upkeep)
    compaction: CompactionBounds = field(default_factory=CompactionBounds)

    ask_timeout_s: float = 3.0
    """Time for one operation on a document; afterwards its fate is unknown."""
