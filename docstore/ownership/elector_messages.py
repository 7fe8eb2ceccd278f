"""Messages, events and effects of an Elector.

A datagram may be lost, late, duplicated or reordered: all of that is harmless.
"""

from typing import NamedTuple

# Messages between electors, sent as datagrams; flat tuples for msgpack.


class RequestVote(NamedTuple):
    """Candidate to all: may I lead `generation`? Answered by Granted.

    pre: a trial, which binds no voter. transfer: the leader has resigned, and asked for this.
    """

    generation: int
    last_generation: int
    last_number: int
    pre: bool
    transfer: bool


class Granted(NamedTuple):
    """Voter to candidate. generation: the requested one, or the voter's own if it refuses."""

    generation: int
    pre: bool
    is_granted: bool


class Lead(NamedTuple):
    """Leader to all, every heartbeat; answered by Follow. sent_s: by the leader's clock.

    succeed: the leader has resigned, and asks this follower to stand at once.
    """

    generation: int
    sent_s: float
    succeed: bool


class Follow(NamedTuple):
    """Follower to leader: acknowledges the Lead sent at `sent_s`, or reports a later generation."""

    generation: int
    sent_s: float
    last_generation: int
    last_number: int


Message = RequestVote | Granted | Lead | Follow


# Events and effects.


class Tick(NamedTuple):
    """Time has passed; expected a few times per heartbeat."""


class Received(NamedTuple):
    """A well-formed message of a peer."""

    sender: str
    message: Message


class Transfer(NamedTuple):
    """A request to transfer the lead. to: the successor, or "" for the most recent follower."""

    to: str


Event = Tick | Received | Transfer


class SaveVote(NamedTuple):
    """Store generation and vote durably before the later effects, and before the next event."""

    generation: int
    voted_for: str


class Send(NamedTuple):
    """Send a datagram; it may be lost."""

    to: str
    message: Message


class Changed(NamedTuple):
    """The known leader has changed. leader: None if there is none."""

    generation: int
    leader: str | None


Effect = SaveVote | Send | Changed
