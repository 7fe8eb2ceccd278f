"""Events of the partitions of a node, made by their driver or by a simulator."""

from collections.abc import Sequence
from dataclasses import dataclass

from docstore.machines.events import (
    DrainAsked,
    LinkLost,
    LinkMade,
    Noticed,
    OperationAnswered,
    Persisted,
    QueriesAnswered,
    Received,
    Room,
    Surveyed,
    Tick,
    TurnEnded,
)
from docstore.storage.partitions import PartitionResult
from docstore.wire.streams_messages import Streaming


@dataclass(slots=True)
class ProduceAsked:
    """A client's request to append records by `deadline` (in seconds of the machine's clock).

    link: that of the partition's document. See `messages.Produce` for the other fields.
    """

    request: int
    link: str
    acks: str
    deadline: float
    producer: Sequence[str | int]
    flags: int
    records: int
    body: bytes
    trace: str = ""


@dataclass(slots=True)
class FetchAsked:
    """A reader's request for records of a partition that this node leads.

    origin: ("offset", n), ("beginning", 0), ("end", back), ("time", us since 1970), or ("written",
    us): not after the first record of a Kafka client with this time. isolation: "committed" or
    "uncommitted". deadline: time until which to wait for records; a past one means
    no wait. token: offset that must be committed before the answer; -1 for none. stale: whether a
    replica that does not lead may answer from the records that it knows to be committed. trace: as
    in an `Operation`.
    """

    request: int
    link: str
    origin: tuple[str, int]
    isolation: str
    bytes_max: int
    deadline: float
    token: int = -1
    stale: bool = False
    trace: str = ""


@dataclass(slots=True)
class NewsAsked:
    """A reader's question when one of several partitions has committed records for it.

    positions: link of a partition, and the offset of the first record that is new; the node leads
    all of them. deadline: as of a `FetchAsked`.
    """

    request: int
    positions: Sequence[tuple[str, int]]
    deadline: float


@dataclass(slots=True)
class NewsForgotten:
    """The reader of a NewsAsked does not wait any more. request: that of the question."""

    request: int


@dataclass(slots=True)
class LeaderAsked:
    """Question for the leader of a partition.

    refresh: whether to read the document first.
    """

    request: int
    link: str
    deadline: float
    refresh: bool = False


@dataclass(slots=True)
class FiguresAsked:
    """Question for the live figures of partitions; the answer has those that this node leads."""

    request: int
    links: Sequence[str]


@dataclass(slots=True)
class CommandAsked:
    """An operator's command for a partition whose controller this node is.

    command: ("elect", unclean), ("lead", node) or ("place", nodes).
    """

    request: int
    link: str
    command: tuple[str, object]


@dataclass(slots=True)
class DeletionAsked:
    """A request to delete the records of a partition that this node leads, below an offset.

    before: that offset; ALL_COMMITTED for the high watermark.
    """

    request: int
    link: str
    before: int
    deadline: float


StreamEvent = (
    Received[Streaming]
    | LinkMade
    | LinkLost
    | Tick
    | TurnEnded
    | Persisted
    | Room
    | QueriesAnswered[PartitionResult]
    | OperationAnswered
    | Surveyed
    | Noticed
    | ProduceAsked
    | FetchAsked
    | NewsAsked
    | NewsForgotten
    | LeaderAsked
    | FiguresAsked
    | CommandAsked
    | DeletionAsked
    | DrainAsked
)
