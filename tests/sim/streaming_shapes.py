"""Shapes of runs of streams, chosen by the seed so that all of them occur."""

from dataclasses import dataclass, replace
from random import Random

from docstore.streams.timing import (
    BatchMemory,
    CompactionBounds,
    ElectionTimes,
    ReplicationBounds,
    StreamsConfig,
    TransferBounds,
    Upkeep,
)
from tests.sim.nemesis import BESIDE
from tests.sim.streaming_nemesis import KINDS

FAULTS_S = 12.0


@dataclass(frozen=True, slots=True)
class Shape:
    """Parameters of a run."""

    size: int = 3
    slots: int = 2
    partitions: int = 1
    factor: int = 3
    least: int = 2
    kinds: tuple[str, ...] = KINDS
    beside: tuple[str, ...] = ()
    """Kinds of the second fault, where two strike at a time."""
    producers: int = 3
    consumers: int = 3
    numbered: bool = True
    """Two of three producers number their batches; otherwise none."""
    acks: str = "committed"
    trouble: float = 1.0
    """How often documents are not answered, or not as they should be, on a register."""
    loss: float = 0.02
    """Share of messages that are lost."""
    page_bytes: int = 1 << 20
    tail_bytes: int = 1 << 20
    in_flight_bytes: int = 8 << 20
    snapshot_batches: int = 1_000
    fail_back_s: float = 0.5
    max_lag_ms: int = 2_000
    retention_ms: int = 0
    retention_bytes: int = 0
    deletes: bool = False
    """A client deletes the records up to offsets."""
    cleanup: str = "delete"
    keys: int = 3
    """Keys of each producer, where topics are compacted."""
    keys_max: int = 1 << 17
    """Keys that compaction has in memory."""
    tombstone_s: float = 2.5
    unclean: bool = False
    """The topics allow unclean elections."""
    offline_retry_s: float = 2.0
    changes: bool = False
    """Nodes join the group, leave it and replace each other, where there are real replicas."""
    faults_s: float = FAULTS_S


def shape_of(seed: int, beside: tuple[str, ...] = BESIDE) -> Shape:
    """Return the shape of a seed's run: each kind of fault is in every second one.

    Two are in every fifth: after them less is promised, or less is asked of the run.
    beside: kinds of the faults that strike beside others; () for one fault at a time.
    """
    rng = Random(seed * 15_485_863 + 11)
    size = rng.choice((3, 3, 5))
    factor = rng.choice((1, 2, 3, 3, 3))
    kinds = tuple(kind for kind in KINDS if rng.random() < 0.5)
    shape = Shape(
        size=size,
        slots=rng.choice((1, 2, 4)),
        partitions=rng.choice((1, 1, 2, 3)),
        factor=factor,
        least=min(factor, rng.choice((1, 2, 2))),
        kinds=kinds or ("crash",),
        beside=beside,
        acks=rng.choice(("committed", "committed", "mixed")),
        page_bytes=rng.choice((1, 300, 1 << 20)),
        tail_bytes=rng.choice((0, 400, 1 << 20)),
        in_flight_bytes=rng.choice((300, 8 << 20)),
        snapshot_batches=rng.choice((3, 1_000)),
        max_lag_ms=rng.choice((300, 2_000)),
        retention_ms=rng.choice((0, 0, 1_000)),
        retention_bytes=rng.choice((0, 0, 1_500)),
    )
    if rng.random() < 0.2:
        shape = replace(
            shape,
            kinds=(*shape.kinds, "unclean"),
            unclean=rng.random() < 0.5,
            offline_retry_s=rng.choice((0.5, 2.0)),
        )
    if rng.random() < 0.2:
        shape = replace(shape, kinds=(*shape.kinds, "change"), changes=True)
    return replace(
        shape,
        deletes=rng.random() < 0.3,
        cleanup=rng.choice(("delete", "delete", "compact", "compact,delete")),
        keys=rng.choice((3, 40)),
        keys_max=rng.choice((2, 1 << 17)),
    )


UNCLEAN = Shape(
    kinds=("crash", "crash", "isolate"), size=4, factor=2, least=1, partitions=5, producers=10,
    consumers=5, max_lag_ms=300, unclean=True, offline_retry_s=0.5,
)  # fmt: skip
CHANGES = Shape(kinds=("change",), partitions=2, factor=2, changes=True)
_TAILS = Shape(kinds=("isolate", "isolate", "oneway", "cut"), acks="mixed", producers=6)
_ROT = Shape(kinds=("rot_batch",), partitions=2, max_lag_ms=300, tail_bytes=0)

AIMED = {
    "cut": _TAILS,
    "lost uncommitted": _TAILS,
    "produce sequence-gap": _TAILS,
    "batches rotten": _ROT,
    "begun_anew": _ROT,
    "elections because its leader damaged": _ROT,
    "elected outside the set": Shape(
        kinds=("crash", "crash", "storm", "isolate"), factor=2, least=2, max_lag_ms=300
    ),
    "unclean elections": UNCLEAN,
    "lost by unclean elections": UNCLEAN,
    "nodes left out": CHANGES,
    "orphans": Shape(kinds=("recreate", "recreate", "crash", "isolate"), partitions=3),
}
"""Event of less than every tenth run -> the shape of runs that often meet it."""


def config_of(shape: Shape) -> StreamsConfig:
    """Return the times and bounds of a shape's nodes."""
    return StreamsConfig(
        elections=ElectionTimes(unfit_s=2.0, offline_retry_s=shape.offline_retry_s),
        transfers=TransferBounds(fail_back_s=shape.fail_back_s),
        replication=ReplicationBounds(
            page_bytes=shape.page_bytes, in_flight_bytes=shape.in_flight_bytes
        ),
        memory=BatchMemory(tail_bytes=shape.tail_bytes),
        upkeep=Upkeep(
            save_s=1.0,
            snapshot_batches=shape.snapshot_batches,
            retention_s=0.5,
            scrub_s=2.0,
            orphans_s=1.0,
        ),
        compaction=CompactionBounds(
            step_bytes=shape.page_bytes,
            step_interval_s=0.0,
            joined_bytes=400,
            keys_max=shape.keys_max,
            rest=2,
            tombstone_us=int(shape.tombstone_s * 1e6),
        ),
    )
