"""The inputs of the state machine, and the tickets that come back to it.

A ticket is the name of a timer or an exchange, with its purpose. Tickets are never cancelled: an
outdated one does not match the present state and is ignored.
"""

from __future__ import annotations

from dataclasses import dataclass

from gossip.member import Address
from gossip.messages import DatagramMessage, StreamMessage, Sync, SyncAnswer


@dataclass(frozen=True, slots=True)
class ProbeDue:
    """The probe interval is over: judge the last probe, begin the next one."""


@dataclass(frozen=True, slots=True)
class AckDue:
    """The direct ping of this number should have been answered by now."""

    sequence: int


@dataclass(frozen=True, slots=True)
class NackDue:
    """The ping sent for another member should have been answered by now."""

    sequence: int


@dataclass(frozen=True, slots=True)
class SuspicionDue:
    """The time that this member had for refuting may be up."""

    name: str
    incarnation: int


@dataclass(frozen=True, slots=True)
class GossipDue:
    """Rumours wait, and the gossip interval is over."""


@dataclass(frozen=True, slots=True)
class SyncDue:
    """Time to compare tables with a random live peer."""


@dataclass(frozen=True, slots=True)
class ReconnectDue:
    """Time to look whether one of the dead is back."""


@dataclass(frozen=True, slots=True)
class SeedDue:
    """Time to check whether a live member is known at this seed."""

    address: Address


@dataclass(frozen=True, slots=True)
class LeaveDue:
    """The time for telling others that we leave is up."""


Timer = (
    ProbeDue
    | AckDue
    | NackDue
    | SuspicionDue
    | GossipDue
    | SyncDue
    | ReconnectDue
    | SeedDue
    | LeaveDue
)


@dataclass(frozen=True, slots=True)
class PingExchange:
    """A ping over TCP, sent because the ping datagram of this sequence number was not answered."""

    sequence: int
    name: str
    incarnation: int


@dataclass(frozen=True, slots=True)
class DigestExchange:
    """A comparison of sums with the member that we knew by this name and incarnation."""

    name: str
    incarnation: int


@dataclass(frozen=True, slots=True)
class SyncExchange:
    """An exchange of tables with the member that we knew by this name and incarnation."""

    name: str
    incarnation: int


@dataclass(frozen=True, slots=True)
class SeedExchange:
    """An exchange of tables with the member at a seed's address."""

    address: Address


Exchange = PingExchange | DigestExchange | SyncExchange | SeedExchange


@dataclass(frozen=True, slots=True)
class Started:
    """The sockets are bound: begin. Comes first, and once."""


@dataclass(frozen=True, slots=True)
class Received:
    """A datagram arrived; `messages` are its valid messages in their order."""

    sender: Address
    messages: tuple[DatagramMessage, ...]


@dataclass(frozen=True, slots=True)
class TableBegun:
    """A part of a large table arrived on a stream, and it is not the last one."""

    table: Sync | SyncAnswer


@dataclass(frozen=True, slots=True)
class Asked:
    """A request arrived on a stream. The effects hold one Reply, or none if it deserves none."""

    stream: int
    message: StreamMessage


@dataclass(frozen=True, slots=True)
class Answered:
    """An exchange that we asked for brought this answer."""

    exchange: Exchange
    message: StreamMessage


@dataclass(frozen=True, slots=True)
class Unanswered:
    """An exchange that we asked for failed: refused by the other host, or out of time."""

    exchange: Exchange
    is_refused: bool


@dataclass(frozen=True, slots=True)
class TimerFired:
    """A timer's time has come. Datagrams that had arrived by then were delivered before."""

    timer: Timer


@dataclass(frozen=True, slots=True)
class Stalled:
    """This process did not run for `lag_s` seconds, so it may have missed answers."""

    lag_s: float


@dataclass(frozen=True, slots=True)
class SeedAdded:
    """The application knows one more address where a member may be found."""

    address: Address


@dataclass(frozen=True, slots=True)
class ProbeAsked:
    """The application lost its own connection to this member: probe it now."""

    name: str


@dataclass(frozen=True, slots=True)
class LeaveRequested:
    """The application wants this member to leave. Ends in the effect Departed."""


Event = (
    Started
    | Received
    | TableBegun
    | Asked
    | Answered
    | Unanswered
    | TimerFired
    | Stalled
    | SeedAdded
    | ProbeAsked
    | LeaveRequested
)
