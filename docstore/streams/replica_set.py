"""A partition's document: its replicas, its leader and epoch, and the copies eligible to lead.

It lies at `/core/streams/<topic>/partitions/<number>`, at level 3. Only nodes write it. Each update
contains the whole next state, and is conditional on the tag of the version that it is based on, so
that two writers do not overwrite each other. The owner of the document rejects a transition that
`ownership/by_lag.py` does not allow.
"""

from dataclasses import dataclass
from functools import lru_cache

from docstore.model import json
from docstore.model.fields import Fields
from docstore.model.service import Malformed, Refusal, ServiceOptions, State, understood
from docstore.model.settings import quoted
from docstore.ownership.by_lag import LED, Copy, Resolution, may_follow

__all__ = [
    "STREAMS", "Copy", "PartitionService", "ReplicaSet", "Resolution", "link_of", "partition_link",
    "partition_name", "replica_set_of",
]  # fmt: skip

STREAMS = "/core/streams"
PARTITIONS = "partitions"
_BELOW = f"{STREAMS}/"
FORMAT = 1
"""Format of the document, so that later versions can read what older ones wrote."""
REPLICAS_MAX = 16
LAG_MS = (100, 86_400_000)
LAG_RECORDS = (0, 1 << 40)
"""Least and greatest lag that a topic may allow."""
EPOCH_MAX = 1 << 62
COMPRESSIONS = ("none", "zstd")
"""Codecs by which a leader compresses batches that are not compressed by their producer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSet:
    """State of a partition's document.

    epoch: grows by one with each election; replicas reject messages of smaller epochs.
    """

    incarnation: str
    replicas: tuple[str, ...]
    """Node ids in order of preference; the first should lead."""
    adding: tuple[str, ...] = ()
    leaving: tuple[str, ...] = ()
    """Replicas to remove once those in `adding` are filled."""
    epoch: int = 0
    leader: str = ""
    candidate: str = ""
    lrs: tuple[Copy, ...] = ()
    """The live replica set, in which each copy has every committed record."""
    elr: tuple[Copy, ...] = ()
    """Eligible copies outside `lrs`: they left it while it was too small to commit a record."""
    min_in_sync: int = 1
    max_lag_ms: int = 2_000
    max_lag_records: int = 0
    """Greatest lag of a member of `lrs`; 0 for no bound."""
    compression: str = COMPRESSIONS[0]
    unclean: int = 0
    """Epoch of the last election that may have lost committed records; 0 for none."""
    resolution: Resolution = Resolution.OFFLINE

    def pack(self) -> bytes:
        """Return the document's state, which is the body of an update."""
        return json.dump(
            {
                "format": FORMAT,
                "incarnation": self.incarnation,
                "replicas": self.replicas,
                "preferred": self.replicas[0],
                "adding": self.adding,
                "leaving": self.leaving,
                "epoch": self.epoch,
                "leader": self.leader,
                "candidate": self.candidate,
                "lrs": self.lrs,
                "elr": self.elr,
                "minInSync": self.min_in_sync,
                "maxLag": {"ms": self.max_lag_ms, "records": self.max_lag_records},
                "compression": self.compression,
                "unclean": self.unclean,
                "resolution": self.resolution,
            }
        )


def replica_set_of(state: State) -> ReplicaSet:
    """Return a document's state as a value. Raises Refusal if it cannot be a partition's."""
    fields = Fields(state)
    fields.whole("format", FORMAT, FORMAT)
    preferred, lag = fields.text("preferred"), fields.inner("maxLag")
    found = ReplicaSet(
        incarnation=fields.text("incarnation"),
        replicas=fields.texts("replicas"),
        adding=fields.texts("adding"),
        leaving=fields.texts("leaving"),
        epoch=fields.whole("epoch", 0, EPOCH_MAX),
        leader=fields.text("leader"),
        candidate=fields.text("candidate"),
        lrs=fields.pairs("lrs"),
        elr=fields.pairs("elr"),
        min_in_sync=fields.whole("minInSync", 1, REPLICAS_MAX),
        max_lag_ms=lag.whole("ms", *LAG_MS),
        max_lag_records=lag.whole("records", *LAG_RECORDS),
        compression=fields.choice("compression", COMPRESSIONS, default=COMPRESSIONS[0]),
        unclean=fields.whole("unclean", 0, EPOCH_MAX),
        resolution=_resolution(fields.text("resolution")),
    )
    lag.end()
    fields.end()
    why = _why_not_whole(found, preferred) or _why_not_led(found)
    if why:
        raise Malformed(why)
    return found


def _resolution(text: str) -> Resolution:
    try:
        return Resolution(text)
    except ValueError:
        raise Malformed(
            f"`resolution` must be one of {', '.join(Resolution)}; got {quoted(text)}"
        ) from None


def _why_not_whole(found: ReplicaSet, preferred: str) -> str:
    """Return why the sets of a document contradict each other, "" if they do not."""
    replicas = set(found.replicas)
    live = [node for node, _ in found.lrs]
    if not found.incarnation or "@" in found.incarnation:
        return "incarnation is an id"
    if not found.replicas or preferred != found.replicas[0]:
        return "preferred is the first of the replicas"
    if not replicas.issuperset((*found.adding, *found.leaving)):
        return "adding and leaving are of the replicas"
    if not replicas.issuperset((*live, *(node for node, _ in found.elr))):
        return "lrs and elr are copies of the replicas"
    if len(set(live)) < len(live) or set(found.lrs) & set(found.elr) or _repeats(found.elr):
        return "lrs has one copy of a node, and elr others"
    return "unclean is an epoch that was" if found.unclean > found.epoch else ""


def _repeats(copies: tuple[Copy, ...]) -> bool:
    return len(set(copies)) < len(copies)


def _why_not_led(found: ReplicaSet) -> str:
    """Return why leader and candidate contradict the resolution, "" if they do not."""
    if found.resolution is Resolution.DELETED:
        return ""
    is_led, is_found = found.resolution in LED, found.resolution is Resolution.CANDIDATE_FOUND
    may = {node for node, _ in found.lrs}
    if (found.leader not in may) if is_led else found.leader:
        return "a member of lrs leads, but only while the partition is led"
    if (found.candidate not in may) if is_found else found.candidate:
        return "a member of lrs is the candidate, but only while one is found"
    return ""


def partition_link(topic: str, number: int) -> str:
    """Return the link of a partition's document."""
    return f"{STREAMS}/{topic}/{PARTITIONS}/{number}"


def is_of_partitions(path: str) -> bool:
    """Say whether a path is that of the partitions of a topic."""
    return path.startswith(_BELOW) and path.split("/")[4:] == [PARTITIONS]


def partition_name(link: str, incarnation: str) -> str:  # Tests replace this.
    """Return the name of the data at nodes: `<topic>/<n>@<incarnation>` (rule RF4)."""
    return f"{_place(link)}@{incarnation}"


def incarnation_of(name: str) -> str:
    """Return the incarnation that is part of a partition's name."""
    return name.rpartition("@")[2]


@lru_cache(maxsize=4096)
def _place(link: str) -> str:
    topic, _, number = link[len(STREAMS) + 1 :].split("/")
    return f"{topic}/{number}"


def is_partition(link: str) -> bool:
    """Say whether a link is that of a partition's document."""
    return is_of_partitions(link.rpartition("/")[0])


def topic_link_of(link: str) -> str:
    """Return the link of the topic that a partition's document belongs to."""
    return link[: link.index("/", len(STREAMS) + 1)]


def is_topic(link: str) -> bool:
    """Say whether a link is that of a topic's document."""
    return link.startswith(_BELOW) and link.count("/") == 3


def link_of(name: str) -> str:
    """Return the link of the document of the partition with this name."""
    topic, _, number = name.rpartition("@")[0].partition("/")
    return f"{STREAMS}/{topic}/{PARTITIONS}/{number}"


def read_replica_set(state: bytes) -> ReplicaSet | None:
    """Return the value of a document's state, None if this node does not understand it."""
    return understood(replica_set_of, state)


class PartitionService:
    """The service of partitions' documents. A client reads them; only nodes write."""

    options = ServiceOptions(
        path=f"{STREAMS}/*/{PARTITIONS}",
        kind="docstore:Partition",
        put_creates=False,
        methods=(),
    )
    checks = True

    def check(self, state: State) -> None:
        """Raise Refusal unless this can be a partition's state."""
        replica_set_of(state)

    def patch(self, before: State, after: State) -> State | None:
        """Return the change, which is the whole next state, if the transition is allowed."""
        replica_set_of(after)
        why = may_follow(before, after)
        if why:
            raise Refusal(why, status=409)
        return None if after == before else after
