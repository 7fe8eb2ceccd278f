"""The events of a replica. Its driver, or a simulator, makes these."""

from collections.abc import Sequence
from dataclasses import dataclass

from docstore.documents.membership.change import Change
from docstore.documents.retention.pins import Pins
from docstore.machines.events import (
    DrainAsked,
    LinkLost,
    LinkMade,
    Persisted,
    QueriesAnswered,
    Received,
    Room,
    Tick,
    TurnEnded,
)
from docstore.model.operation import Operation
from docstore.storage.store import Recovered, Result
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
class DiskFilled:
    """A batch could not be stored for want of room: this is what is on disk instead."""

    recovered: Recovered


@dataclass(slots=True)
class PinsRead:
    """What is needed of the past was read anew: it is not let go of."""

    pins: Pins


@dataclass(slots=True)
class ViewChanged:
    """Membership's opinion of who is alive has changed; a hint, never counted."""

    alive: frozenset[str]


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
class BarrierAsked:
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
    | Received[ReplicaMessage]
    | Persisted
    | DiskFilled
    | Room
    | QueriesAnswered[Result]
    | ViewChanged
    | LinkLost
    | LinkMade
    | TurnEnded
    | Tick
    | ResyncAsked
    | CompactAsked
    | PinsRead
    | SlotCorrupted
    | ChangeAsked
    | DrainAsked
    | BarrierAsked
    | ReadIndexAsked
)
