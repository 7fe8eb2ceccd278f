"""The effects of the partitions of a node, and the outcomes of requests."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from docstore.machines.effects import Alarm, Ask, Give, Persist, Read, Send, Survey
from docstore.storage.partitions import PartitionQuery, PartitionWrite
from docstore.wire.streams_messages import Produced, Streaming

HIGH_NOT_KNOWN = -1
"""Value of an answer's high watermark while a new leader does not know the true one."""


@dataclass(slots=True)
class Records:
    """Result of a fetch: sealed batches, of which the first may begin below the offset wanted.

    offset: where the reader begins. until: end for this reader, which must ignore records from
    there on. high, end, start: high watermark, log end and log start of the partition; high may be
    HIGH_NOT_KNOWN. stale_us: time since the replica that answered heard of the leader, 0 for the
    leader itself. owner: leader when the record at `offset` was appended. incarnation: that of the
    topic.
    """

    batches: Sequence[bytes]
    offset: int
    until: int
    high: int
    end: int
    start: int
    epoch: int
    stale_us: int = 0
    owner: str = ""
    incarnation: str = ""


@dataclass(slots=True)
class Problem:
    """Reason why a request failed.

    status: HTTP status. unknown: whether the request may still have taken effect. more: further
    members of the problem document, such as the next offset.
    """

    status: int
    code: str
    detail: str
    unknown: bool = False
    more: Mapping[str, object] = field(default_factory=dict)


@dataclass(slots=True)
class Led:
    """Leader of a partition.

    leader: node id, "" for none. name: the partition's name, which includes the incarnation.
    """

    leader: str
    epoch: int
    name: str


@dataclass(slots=True)
class Figures:
    """Live figures of the partitions that this node leads: link -> figures, as in JSON answers."""

    partitions: Mapping[str, Mapping[str, object]]


@dataclass(slots=True)
class Begun:
    """Answer to an operator: the command has begun."""


@dataclass(slots=True)
class Deleted:
    """Answer to a deletion of records.

    start: log start of the partition, durable like a committed record.
    """

    start: int


@dataclass(slots=True)
class News:
    """Answer to a waiting reader: there are records, another leader, or its time is over."""


Outcome = Produced | Records | News | Problem | Led | Figures | Begun | Deleted

StreamEffect = (
    Send[Streaming]
    | Persist[PartitionWrite]
    | Read[PartitionQuery]
    | Ask
    | Survey
    | Give[Outcome]
    | Alarm
)
