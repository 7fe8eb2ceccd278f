"""A belief about one member, and which of two beliefs wins.

A belief is a `Member`: its name, a uid drawn at every start, its address, its state and its
incarnation. Beliefs about the same name are totally ordered, first by incarnation, then by how
grave the state is, then by the remaining fields, which only ever differ when two processes claim
one name. `merge` keeps the greater one. The maximum of a total order is commutative, associative
and idempotent, a join semilattice, so members that have heard the same statements agree, whatever
the order and however often they heard them.

Only the member itself ever raises its incarnation, and that is what makes refutation work:
the accused answers with a greater incarnation, and no accuser can outbid it.

Source: SWIM (Das, Gupta and Motivala, 2002), section 4.2, for the order of alive, suspect and
confirm. Differs in one point: there a confirm is for ever, here an alive with a greater
incarnation brings a dead member back, since processes restart and networks heal.
Left out: tombstones, versions of the protocol per member.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, StrEnum

Address = tuple[str, int]
"""IP literal and port. UDP and TCP of one member always share the port."""


class State(StrEnum):
    """The state of a member in our belief. Graver states come later."""

    ALIVE = "alive"
    SUSPECT = "suspect"
    DEAD = "dead"
    LEFT = "left"


class Needs(Enum):
    """The incarnation that a statement needs to replace the belief we hold."""

    GREATER = ">"
    EQUAL_OR_GREATER = ">="


_GREATER = Needs.GREATER
_EQUAL = Needs.EQUAL_OR_GREATER

PRECEDENCE: dict[State, dict[State, Needs]] = {
    # held:         incoming alive, suspect, dead, left
    State.ALIVE: dict(zip(State, (_GREATER, _EQUAL, _EQUAL, _EQUAL), strict=True)),
    State.SUSPECT: dict(zip(State, (_GREATER, _GREATER, _EQUAL, _EQUAL), strict=True)),
    State.DEAD: dict(zip(State, (_GREATER, _GREATER, _GREATER, _EQUAL), strict=True)),
    State.LEFT: dict(zip(State, (_GREATER, _GREATER, _GREATER, _GREATER), strict=True)),
}
"""`PRECEDENCE[held][incoming]`: when a statement about a member replaces what we hold.

Source: SWIM section 4.2; `left` is a confirm spoken by the member itself, so it is graver.
"""


@dataclass(frozen=True, slots=True)
class Member:
    """One belief about one member. Equality ignores `changed_at_s`."""

    name: str
    """Stable identity, kept by its owner over restarts."""

    uid: bytes
    """Eight random bytes, drawn anew at every start: tells a restart from a refutation."""

    address: Address
    incarnation: int
    """Raised only by the member itself. Starts at its wall clock in milliseconds, so that a
    restart outranks its past; never compared with the clock of another process."""

    state: State = State.ALIVE
    meta: bytes = b""
    """Data of the application for its peers, at most 512 bytes. The protocol does not read it."""

    changed_at_s: float = field(default=0.0, compare=False)
    """Time at which we last saw the state or the uid change, on our own monotonic clock.

    Not a part of the belief: it is not sent, and equality ignores it.
    """

    @property
    def is_live(self) -> bool:
        """Whether the member is alive or suspect: a suspect counts as here until its time is up."""
        return self.state in (State.ALIVE, State.SUSPECT)


@dataclass(frozen=True, slots=True)
class Change:
    """A member appeared, or changed its state, its process, its address or its metadata."""

    member: Member
    previous: State | None
    """The state held before; None if we had never heard the name."""


def supersedes(incoming: Member, held: Member) -> bool:
    """Tell whether `incoming` replaces `held`, a belief about the same name.

    Equal beliefs do not supersede each other. Where incarnation and state are equal, the
    remaining fields decide in their natural order: arbitrary, but everywhere the same.
    """
    assert incoming.name == held.name
    if incoming.incarnation != held.incarnation:
        return incoming.incarnation > held.incarnation
    if incoming.state is not held.state:
        return PRECEDENCE[held.state][incoming.state] is Needs.EQUAL_OR_GREATER
    return _tie(incoming) > _tie(held)


def merge(held: Member, incoming: Member) -> Member:
    """Return the greater of two beliefs about one name; `held` itself if they are equal."""
    return incoming if supersedes(incoming, held) else held


def _tie(member: Member) -> tuple[bytes, Address, bytes]:
    return member.uid, member.address, member.meta
