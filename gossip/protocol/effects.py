"""The outputs of the state machine.

The list that `Swim.step` returns is performed from top to bottom. No effect waits for another:
a datagram that cannot be sent at once is lost, which the protocol expects of networks anyway.
"""

from __future__ import annotations

from dataclasses import dataclass

from gossip.member import Address, Change
from gossip.messages import DatagramMessage, StreamMessage
from gossip.protocol.events import Exchange, Timer


@dataclass(frozen=True, slots=True)
class Send:
    """Send one datagram with these messages in this order. Failure is silence."""

    to: Address
    messages: tuple[DatagramMessage, ...]


@dataclass(frozen=True, slots=True)
class Ask:
    """Connect over TCP, send `message`, take one answer.

    Comes back as Answered, or as Unanswered after `timeout_s` seconds at the latest.
    """

    exchange: Exchange
    to: Address
    message: StreamMessage
    timeout_s: float


@dataclass(frozen=True, slots=True)
class Reply:
    """Answer the request that came on this stream, then close it."""

    stream: int
    message: StreamMessage


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Fire `timer` at `at_s` on the monotonic clock. Replaces the time of an equal timer."""

    timer: Timer
    at_s: float


@dataclass(frozen=True, slots=True)
class Notify:
    """Tell the application that a member appeared or changed."""

    change: Change


@dataclass(frozen=True, slots=True)
class ReportSeed:
    """Report to `Agent.join` how one seed answered: "" is well, else why not."""

    address: Address
    failure: str


@dataclass(frozen=True, slots=True)
class ReportUnreachable:
    """Tell the operator that a member answers over TCP only: its datagrams are lost."""

    name: str


@dataclass(frozen=True, slots=True)
class ReportConflict:
    """Tell the operator that two live processes claim one name. The one we hold stays."""

    name: str
    held: Address
    claimed: Address


@dataclass(frozen=True, slots=True)
class Departed:
    """The rumour that we leave was sent often enough. No effect follows this one."""


Effect = (
    Send
    | Ask
    | Reply
    | SetTimer
    | Notify
    | ReportSeed
    | ReportUnreachable
    | ReportConflict
    | Departed
)
