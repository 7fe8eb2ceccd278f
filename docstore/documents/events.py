"""Everything that can reach a replica. Whoever drives it (a node, a simulator) makes these."""

from collections.abc import Sequence
from dataclasses import dataclass

from docstore.documents.membership.change import Change
from docstore.documents.retention.needs import Needs
from docstore.model.operation import Operation
from docstore.storage.store import Recovered, Result
from docstore.wire.link_messages import PROTOCOL
from docstore.wire.messages import ReplicaMessage


@dataclass(slots=True)
class Requested:
    """A client of this node wants this, by `deadline` (on the clock of `now`)."""

    request: int
    operation: Operation
    deadline: float


@dataclass(slots=True)
class BatchRequested:
    """What a client of this node sent together, by `deadline`: each is answered by itself.

    first: the number of the first request; each of the others has one more than the one before.
    """

    first: int
    operations: Sequence[Operation]
    deadline: float


@dataclass(slots=True)
class Received:
    """A message arrived from a peer, decoded and known to be well formed.

    configuration: the id of the one that the sender counted by when it said this.
    """

    sender: str
    message: ReplicaMessage
    configuration: int = 1


@dataclass(slots=True)
class Persisted:
    """The batch of Persist `token`, and every one before it, would survive a power cut."""

    token: int


@dataclass(slots=True)
class DiskFilled:
    """A batch could not be stored for want of room: this is what is on disk instead."""

    recovered: Recovered


@dataclass(slots=True)
class Room:
    """Whether the disk has room for rows; without it, what is stored all the same may find none."""

    has_room: bool


@dataclass(slots=True)
class QueriesAnswered:
    """What Reads found: (token, result), in the order of the tokens."""

    answers: Sequence[tuple[int, Result]]


@dataclass(slots=True)
class NeedsRead:
    """What is needed of the past was read anew: it is not let go of."""

    needs: Needs


@dataclass(slots=True)
class ViewChanged:
    """Membership's opinion of who is alive has changed; a hint, never counted."""

    alive: frozenset[str]


@dataclass(slots=True)
class LinkLost:
    """The connection from or to a peer has broken: it is not heard any more."""

    peer: str


@dataclass(slots=True)
class LinkMade:
    """The connection to a peer stands: what was lost with the one before may be sent again.

    protocol: of the connection, the greatest that both sides speak.
    """

    peer: str
    protocol: int = PROTOCOL


@dataclass(slots=True)
class TurnEnded:
    """The driver has nothing more to say for now: propose, write and send what gathered."""


@dataclass(slots=True)
class Tick:
    """50 ms or so have passed; the wall clock shows `wall_us`."""

    wall_us: int


@dataclass(slots=True)
class ResyncAsked:
    """Bring the replicas of these slots up to date, as far as they are ours."""

    slots: Sequence[int]


@dataclass(slots=True)
class CompactAsked:
    """Let go, once, of what another version had replaced before an instant (wall clock, in us)."""

    before_us: int


@dataclass(slots=True)
class SlotCorrupted:
    """Our log of this slot is not what it should be: a checksum says so, or other replicas."""

    slot: int


@dataclass(slots=True)
class ChangeAsked:
    """Somebody wants the group changed; answered by ChangeAnswered."""

    request: int
    change: Change


@dataclass(slots=True)
class DrainAsked:
    """Give all slots away, and take no more."""


@dataclass(slots=True)
class StillnessAsked:
    """Propose nothing new for so many seconds, a fraction of one: a cut is being made."""

    seconds: float


@dataclass(slots=True)
class ReadIndexAsked:
    """How far are those of these slots decided that this node owns? Answered by ReadIndexAnswered.

    deadline: on the clock of `now`; what no quorum has confirmed by then is left out. at_us: how
    far at that instant; slots in which it is yet to come, or not settled yet, are left out as well.
    """

    request: int
    slots: Sequence[int]
    deadline: float
    at_us: int = 0


Event = (
    Requested
    | BatchRequested
    | Received
    | Persisted
    | DiskFilled
    | Room
    | QueriesAnswered
    | ViewChanged
    | LinkLost
    | LinkMade
    | TurnEnded
    | Tick
    | ResyncAsked
    | CompactAsked
    | NeedsRead
    | SlotCorrupted
    | ChangeAsked
    | DrainAsked
    | StillnessAsked
    | ReadIndexAsked
)
