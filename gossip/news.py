"""The news of the group that an application receives.

For each member the order is always Joined, then any number of Updated, Suspected and Recovered,
then Failed or Left; after that perhaps Joined again. There is no Failed without a Joined.
"""

from __future__ import annotations

from dataclasses import dataclass

from gossip.member import Address, Change, Member, State


@dataclass(frozen=True, slots=True)
class Joined:
    """A member has become live, for the first time or again."""

    member: Member


@dataclass(frozen=True, slots=True)
class Updated:
    """A live member restarted, moved to another address, or has other metadata."""

    member: Member


@dataclass(frozen=True, slots=True)
class Suspected:
    """A member did not answer another one. It still counts as live and can refute the suspicion."""

    member: Member


@dataclass(frozen=True, slots=True)
class Recovered:
    """A suspect has refuted the suspicion."""

    member: Member


@dataclass(frozen=True, slots=True)
class Failed:
    """A member is taken for dead. `Agent.explain` says why."""

    member: Member


@dataclass(frozen=True, slots=True)
class Left:
    """A member left the group on purpose."""

    member: Member


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two live processes claim one name. The process that held the name keeps it."""

    name: str
    held: Address
    claimed: Address


@dataclass(frozen=True, slots=True)
class UdpUnreachable:
    """A member answers over TCP only: a firewall may be in the way. At most once a minute."""

    name: str


@dataclass(frozen=True, slots=True)
class Stalled:
    """This process did not run for `lag_s` seconds, and extended its suspicions by that."""

    lag_s: float


@dataclass(frozen=True, slots=True)
class NewsLost:
    """The subscriber was too slow: `count` news are missing here. Read `members()` again."""

    count: int


News = (
    Joined
    | Updated
    | Suspected
    | Recovered
    | Failed
    | Left
    | Conflict
    | UdpUnreachable
    | Stalled
    | NewsLost
)


def news_of(change: Change) -> News | None:
    """Return the news in a change of a belief; None if applications are not concerned."""
    member, before = change.member, change.previous
    was_here = before in (State.ALIVE, State.SUSPECT)
    if not member.is_live:
        if not was_here:
            return None  # Known to be gone already, or never seen here.
        return Failed(member) if member.state is State.DEAD else Left(member)
    if not was_here:
        return Joined(member)
    if member.state is before:
        return Updated(member)
    return Suspected(member) if member.state is State.SUSPECT else Recovered(member)
