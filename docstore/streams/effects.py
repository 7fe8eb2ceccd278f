"""The effects of the partitions of a node, and the outcomes of requests."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from docstore.machines.effects import Alarm, Ask, Give, Persist, Read, Send, Survey
from docstore.storage.partitions import PartitionQuery, PartitionWrite
from docstore.wire.streams_messages import Produced, Streaming

HIGH_NOT_KNOWN = -1
"""In place of a high watermark: a new leader does not know yet what an earlier one has shown."""


@dataclass(slots=True)
class Records:
    """Result of a fetch: sealed batches, of which the first may begin below the offset wanted.

    offset: where the answer begins. until: where it ends for this reader, who must not look at
    records from there on. high, end, start: the partition's; high may be HIGH_NOT_KNOWN.
    stale_us: for how long the replica that answered has not heard of the leader, 0 for the leader
    itself. owner: the leader when the record at `offset` was appended. incarnation: of the topic.
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
    """Why there is no answer. status: as in HTTP. unknown: whether it may have happened.

    more: members of the problem document, such as the next offset.
    """

    status: int
    code: str
    detail: str
    unknown: bool = False
    more: Mapping[str, object] = field(default_factory=dict)


@dataclass(slots=True)
class Led:
    """Leader of a partition: node id, "" for none; its epoch; the name with the incarnation."""

    leader: str
    epoch: int
    name: str


@dataclass(slots=True)
class Figures:
    """link -> live figures of the partitions that this node leads, as they are shown."""

    partitions: Mapping[str, Mapping[str, object]]


@dataclass(slots=True)
class Begun:
    """An operator's command is under way."""


Outcome = Produced | Records | Problem | Led | Figures | Begun

StreamEffect = (
    Send[Streaming]
    | Persist[PartitionWrite]
    | Read[PartitionQuery]
    | Ask
    | Survey
    | Give[Outcome]
    | Alarm
)
