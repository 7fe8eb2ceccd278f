"""Everything that can reach the partitions of a node. Its driver, or a simulator, makes these."""

from collections.abc import Sequence
from dataclasses import dataclass

from docstore.machines.asking import Noticed, Told
from docstore.model.document import Row
from docstore.storage.partitions import PartitionResult
from docstore.wire.streams_messages import Streaming


@dataclass(slots=True)
class Received:
    """A message arrived from another node, decoded and known to be well formed."""

    sender: str
    message: Streaming


@dataclass(slots=True)
class LinkMade:
    """The connection to a node stands: what was lost with the one before may be sent again."""

    peer: str


@dataclass(slots=True)
class LinkLost:
    """The connection from or to a node has broken: it is not heard any more."""

    peer: str


@dataclass(slots=True)
class Tick:
    """50 ms or so have passed; the wall clock shows `wall_us`."""

    wall_us: int


@dataclass(slots=True)
class TurnEnded:
    """The driver has nothing more to say for now: seal, store and send what gathered."""


@dataclass(slots=True)
class Kept:
    """The writes of Keep `token`, and all before them, would survive a power cut."""

    token: int


@dataclass(slots=True)
class Room:
    """Whether the disk has room. Without it the same writes are tried until they are kept."""

    has_room: bool


@dataclass(slots=True)
class Looked:
    """What Looks found: (token, result), in the order of the tokens."""

    answers: Sequence[tuple[int, PartitionResult]]


@dataclass(slots=True)
class Surveyed:
    """What Survey `token` found: the newest rows of live documents under /core/streams/."""

    token: int
    rows: Sequence[Row]


@dataclass(slots=True)
class ProduceAsked:
    """A client of this node wants records appended, by `deadline` (on the clock of `now`).

    link: of the partition's document. See `messages.Produce` for the rest.
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
    """Somebody wants records of a partition that this node leads.

    origin: ("offset", n), ("beginning", 0), ("end", back) or ("time", us since 1970).
    isolation: "committed" or "uncommitted". deadline: until when to wait for records; one that is
    over means not at all. token: an offset that must be committed first; -1 for none.
    stale: whether a replica that does not lead may answer from what it knows to be committed.
    trace: as in an `Operation`.
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
class LeaderAsked:
    """Who leads a partition, as far as this node knows? refresh: read its document anew."""

    request: int
    link: str
    deadline: float
    refresh: bool = False


@dataclass(slots=True)
class FiguresAsked:
    """The live figures of these partitions, of those that this node leads."""

    request: int
    links: Sequence[str]


@dataclass(slots=True)
class CommandAsked:
    """An operator wants something of a partition whose controller this node is.

    command: ("elect", unclean), ("lead", node) or ("place", nodes).
    """

    request: int
    link: str
    command: tuple[str, object]


@dataclass(slots=True)
class DrainAsked:
    """Give the lead of all partitions away, and take none."""


StreamEvent = (
    Received
    | LinkMade
    | LinkLost
    | Tick
    | TurnEnded
    | Kept
    | Room
    | Looked
    | Told
    | Surveyed
    | Noticed
    | ProduceAsked
    | FetchAsked
    | LeaderAsked
    | FiguresAsked
    | CommandAsked
    | DrainAsked
)
