"""A topic: how many partitions a stream has, how many replicas each has, and what is retained.

Its document lies at `/core/streams/<name>`, at level 3. A client creates it with the settings that
it gives, and may change some of them later; the document contains all settings. The owner of the
document is the topic's controller (`provisioning.py`), which creates and changes the partitions
accordingly.
"""

from dataclasses import dataclass
from enum import StrEnum

from docstore.errors import BadRequest
from docstore.model import json, patch
from docstore.model.fields import Fields
from docstore.model.paths import SUFFIXES, canonical_link
from docstore.model.service import Malformed, Refusal, ServiceOptions, State, understood
from docstore.model.settings import quoted
from docstore.streams.replica_set import COMPRESSIONS, LAG_MS, LAG_RECORDS, REPLICAS_MAX, STREAMS

FORMAT = 1
NAME_BYTES_MAX = 255
PARTITIONS_MAX = 10_000
REPLICAS = 3
"""Replicas of each partition, unless the topic sets another number or the group is smaller."""
BATCH_BYTES = (1 << 10, 1 << 20)
"""Least and greatest bound of a batch; the greatest is the default."""
RETENTION_MS = 7 * 86_400_000
NO_BOUND_MAX = 1 << 62
CLEANUPS = ("delete", "compact", "compact,delete")
"""How records are removed: by retention, by key or both; the names are those of Kafka."""
CHANGEABLE = frozenset(
    {"partitions", "retention", "minInSync", "maxLag", "compression", "cleanup", "unclean"}
)
"""Fields that a client may change."""


class Provision(StrEnum):
    """Progress of the topic's partitions towards the topic's document."""

    PENDING = "pending"
    INSUFFICIENT = "insufficient-resources"
    """The group has fewer members than a partition must have replicas."""
    PROVISIONED = "provisioned"


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """State of a topic's document.

    incarnation: changes when a topic is deleted and one of the same name is created.
    """

    name: str
    incarnation: str
    partitions: int = 1
    replication_factor: int = 1
    min_in_sync: int = 1
    """Least number of replicas in step for a record to be committed."""
    retention_ms: int = RETENTION_MS
    retention_bytes: int = 0
    """Bytes that a partition retains; 0 for no bound."""
    cleanup: str = CLEANUPS[0]
    max_lag_ms: int = 2_000
    max_lag_records: int = 0
    """Greatest lag of a replica that is in step; 0 for no bound."""
    batch_bytes_max: int = BATCH_BYTES[1]
    compression: str = COMPRESSIONS[0]
    unclean: bool = False
    """Whether a replica that lacks committed records may lead when no other can."""
    resolution: Provision = Provision.PENDING

    @property
    def compacts(self) -> bool:
        """Say whether only the newest record of each key is kept."""
        return self.cleanup != "delete"

    @property
    def expires(self) -> bool:
        """Say whether records are deleted as `retention` says."""
        return self.cleanup != "compact"

    @property
    def link(self) -> str:
        """Return where the document lies."""
        return topic_link(self.name)

    def state(self) -> State:
        """Return the document's state."""
        return {
            "format": FORMAT,
            "name": self.name,
            "incarnation": self.incarnation,
            "partitions": self.partitions,
            "replicationFactor": self.replication_factor,
            "minInSync": self.min_in_sync,
            "retention": {"ms": self.retention_ms, "bytes": self.retention_bytes},
            "maxLag": {"ms": self.max_lag_ms, "records": self.max_lag_records},
            "batchBytesMax": self.batch_bytes_max,
            "compression": self.compression,
            "cleanup": self.cleanup,
            "unclean": self.unclean,
            "resolution": str(self.resolution),
        }

    def pack(self) -> bytes:
        """Return the document's state as bytes."""
        return json.dump(self.state())


def topic_link(name: str) -> str:
    """Return the link of a topic's document.

    Raises Refusal if the name is not a valid topic name.
    """
    check_name(name)
    return f"{STREAMS}/{name}"


def check_name(name: str) -> None:
    """Raise Refusal (400) unless this is a valid topic name, which is an id of limited length."""
    if not name or len(name.encode(errors="surrogatepass")) > NAME_BYTES_MAX:
        raise Malformed(
            f"the name of a topic must have 1 to {NAME_BYTES_MAX} bytes; got {quoted(name)}"
        )
    if "/" in name or "%" in name or name in SUFFIXES:
        raise Malformed(
            "the name of a topic must not contain / or %, nor be the name "
            f"of a utility; got {quoted(name)}"
        )
    try:
        canonical_link(f"{STREAMS}/{name}")
    except BadRequest as error:
        raise Malformed(f"name: {error}") from None


def asked_topic(asked: State, *, incarnation: str, members: int) -> Topic:
    """Return the topic that a client asks to create. Raises Refusal.

    members: number of nodes of the group.
    """
    fields = Fields(asked)
    found = _topic(fields, incarnation, replicas=min(REPLICAS, members))
    fields.end()
    return found


def topic_of(state: State) -> Topic:
    """Return the topic of a document's state. Raises Refusal if it is not a valid one."""
    fields = Fields(state)
    fields.whole("format", FORMAT, FORMAT)
    incarnation, resolution = fields.text("incarnation"), fields.text("resolution")
    if not incarnation or "@" in incarnation:
        raise Malformed(f"`incarnation` must be an id; got {quoted(incarnation)}")
    if resolution not in set(Provision):
        raise Malformed(
            f"`resolution` must be one of {', '.join(Provision)}; got {quoted(resolution)}"
        )
    found = _topic(fields, incarnation, Provision(resolution))
    fields.end()
    return found


def read_topic(state: bytes) -> Topic | None:
    """Return the topic of a document's state, None if this node does not understand it."""
    return understood(topic_of, state)


def _topic(
    fields: Fields,
    incarnation: str,
    resolution: Provision = Provision.PENDING,
    *,
    replicas: int = 1,
) -> Topic:
    name = fields.text("name")
    check_name(name)
    factor = fields.whole("replicationFactor", 1, REPLICAS_MAX, default=replicas)
    retention, lag = fields.inner("retention"), fields.inner("maxLag")
    found = Topic(
        name=name,
        incarnation=incarnation,
        partitions=fields.whole("partitions", 1, PARTITIONS_MAX, default=1),
        replication_factor=factor,
        min_in_sync=fields.whole("minInSync", 1, factor, default=max(1, factor - 1)),
        retention_ms=retention.whole("ms", 0, NO_BOUND_MAX, default=RETENTION_MS),
        retention_bytes=retention.whole("bytes", 0, NO_BOUND_MAX, default=0),
        cleanup=fields.choice("cleanup", CLEANUPS, default=CLEANUPS[0]),
        max_lag_ms=lag.whole("ms", *LAG_MS, default=2_000),
        max_lag_records=lag.whole("records", *LAG_RECORDS, default=0),
        batch_bytes_max=fields.whole("batchBytesMax", *BATCH_BYTES, default=BATCH_BYTES[1]),
        compression=fields.choice("compression", COMPRESSIONS, default=COMPRESSIONS[0]),
        unclean=fields.flag("unclean", default=False),
        resolution=resolution,
    )
    retention.end()
    lag.end()
    return found


def check_change(asked: State) -> None:
    """Raise Refusal unless a client may ask for this change (a merge patch, RFC 7396)."""
    for name in sorted(asked.keys() - CHANGEABLE):
        raise Malformed(f"`{name}` of a topic cannot be changed: leave it out")


def _of_partitions(topic: Topic) -> tuple[int | str, ...]:
    """Return the settings that partitions' documents repeat, and the number of partitions."""
    return (
        topic.partitions, topic.min_in_sync, topic.max_lag_ms, topic.max_lag_records,
        topic.compression,
    )  # fmt: skip


class TopicService:
    """Service of topics' documents. Requests of clients are checked before they reach it."""

    options = ServiceOptions(path=STREAMS, kind="docstore:Topic", put_creates=False, methods=())
    checks = True

    def check(self, state: State) -> None:
        """Raise Refusal unless this can be a topic's state."""
        topic_of(state)

    def patch(self, state: State, change: State) -> State | None:
        """Merge the change; if partitions are affected, set the topic to be provisioned again."""
        before, after = topic_of(state), topic_of(patch.merge(state, change))
        if (after.name, after.incarnation, after.replication_factor, after.batch_bytes_max) != (
            before.name, before.incarnation, before.replication_factor, before.batch_bytes_max
        ):  # fmt: skip
            detail = "name, incarnation, replicationFactor and batchBytesMax cannot be changed"
            raise Refusal(detail, status=409)
        if after.partitions < before.partitions:
            raise Refusal(
                (
                    f"`partitions` must be at least {before.partitions}, as many as "
                    f"now; got {after.partitions}"
                ),
                status=409,
            )
        merged = after.state()
        if _of_partitions(after) != _of_partitions(before) and "resolution" not in change:
            merged["resolution"] = str(Provision.PENDING)
        return None if merged == state else merged
