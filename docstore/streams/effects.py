"""Everything that the partitions of a node can ask of the world. Performed top to bottom.

Send never waits: a full queue drops, and timers repair. What speaks of this node's own disk (a
promise, an acknowledgement) is sent only after `Kept` has come back.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from docstore.machines.asking import Ask, Survey
from docstore.storage.partitions import PartitionQuery, PartitionWrite
from docstore.wire.streams_messages import Produced, Streaming

HIGH_NOT_KNOWN = -1
"""In place of a high watermark: a new leader does not know yet what an earlier one has shown."""


@dataclass(slots=True)
class Send:
    """Give the message to the link to `to`, or drop it."""

    to: str
    message: Streaming


@dataclass(slots=True)
class Keep:
    """Join the writes to the batch that forms; answered by Kept, after Room(False) perhaps."""

    token: int
    writes: Sequence[PartitionWrite]


@dataclass(slots=True)
class Look:
    """Answer the query from what is committed; answered by Looked."""

    token: int
    query: PartitionQuery


@dataclass(slots=True)
class Records:
    """What a fetch found: sealed batches, of which the first may begin below the offset wanted.

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
    """Who leads: node id or "" for nobody; of which epoch, in which incarnation."""

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


@dataclass(slots=True)
class Give:
    """Answer the request."""

    request: int
    outcome: Outcome


@dataclass(slots=True)
class Alarm:
    """Something that must never happen did; the replica concerned abstains. For the operator."""

    what: str


StreamEffect = Send | Keep | Look | Ask | Survey | Give | Alarm
