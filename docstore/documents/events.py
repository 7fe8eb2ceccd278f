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
    """A client's request, to be answered by `deadline` (on the clock of `now`)."""

    request: int
    operation: Operation
    deadline: float


@dataclass(slots=True)
class BatchRequested:
    """Requests that a client sent together; each is answered separately.

    first: number of the first request; the numbers of the others follow.
    """

    first: int
    operations: Sequence[Operation]
    deadline: float


@dataclass(slots=True)
class DiskFilled:
    """A batch was not stored because the disk is full. recovered: the contents of the disk."""

    recovered: Recovered


@dataclass(slots=True)
class PinsRead:
    """The retention pins were read again."""

    pins: Pins


@dataclass(slots=True)
class ViewChanged:
    """Gossip's opinion about live members has changed; a hint, never counted as a vote."""

    alive: frozenset[str]


@dataclass(slots=True)
class ResyncAsked:
    """A request to bring the replicas of these slots up to date, where this node owns them."""

    slots: Sequence[int]


@dataclass(slots=True)
class CompactAsked:
    """A request to compact versions that were superseded before an instant (wall clock, in us)."""

    before_us: int


@dataclass(slots=True)
class SlotCorrupted:
    """This node's log of a slot is damaged, by a checksum or by comparison with other replicas."""

    slot: int


@dataclass(slots=True)
class ChangeAsked:
    """A request to change the group, answered by ChangeAnswered."""

    request: int
    change: Change


@dataclass(slots=True)
class BarrierAsked:
    """A request to defer new updates for a fraction of a second, while a cut is made."""

    seconds: float


@dataclass(slots=True)
class ReadIndexAsked:
    """A question for the last decided row of each of `slots` that this node owns.

    Answered by ReadIndexAnswered. deadline: on the clock of `now`; slots that no quorum has
    confirmed by then are left out. at_us: asks for the decided rows up to that instant. Slots are
    left out in which the instant is in the future or its rows are not decided yet.
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
