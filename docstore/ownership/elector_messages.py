"""What an Elector says to its peers, what can reach it, and what it asks of who drives it.

A datagram may be lost, late, doubled, and come after a later one: nothing here minds.
"""

from typing import NamedTuple

# What they say to each other, by datagrams: flat, so that msgpack carries it.


class Stand(NamedTuple):
    """Candidate to all: may I lead `generation`? Answered by Granted.

    pre: it binds nobody. transfer: the leader before has let go, and asked for this.
    """

    generation: int
    last_generation: int
    last_number: int
    pre: bool
    transfer: bool


class Granted(NamedTuple):
    """Voter to candidate. generation: the one asked for, or the voter's own if it refuses."""

    generation: int
    pre: bool
    is_granted: bool


class Lead(NamedTuple):
    """Leader to all, every heartbeat; answered by Follow. sent_s: by the leader's clock.

    succeed: the leader has let go, and asks this follower to stand at once.
    """

    generation: int
    sent_s: float
    succeed: bool


class Follow(NamedTuple):
    """Follower to leader: heard what was sent then. A later generation says that it is over."""

    generation: int
    sent_s: float
    last_generation: int
    last_number: int


Message = Stand | Granted | Lead | Follow


# Events and effects.


class Tick(NamedTuple):
    """Time has passed; to be told a few times per heartbeat."""


class Received(NamedTuple):
    """A message of a peer has come, well formed."""

    sender: str
    message: Message


class Transfer(NamedTuple):
    """The user wants another to lead. to: whom, or "" for the most recent of those that follow."""

    to: str


Event = Tick | Received | Transfer


class Keep(NamedTuple):
    """Make this durable before anything else of the list is done, and before the next event."""

    generation: int
    voted_for: str


class Send(NamedTuple):
    """Send a datagram; it may be lost."""

    to: str
    message: Message


class Changed(NamedTuple):
    """Somebody leads, or nobody that is known of (None)."""

    generation: int
    leader: str | None


Effect = Keep | Send | Changed
