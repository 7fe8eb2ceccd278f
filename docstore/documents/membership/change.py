"""Changes of the group, and the three configurations that each change takes.

Pure functions on configurations. The register chooses the configuration (`register.py`).
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import assert_never

from docstore.errors import Picklable
from docstore.ownership.configuration import Configuration, MemberEntry, Stage, with_votes

MEMBERS_MIN = 3
"""Smallest number of members without force (rule M6): two nodes survive no loss."""


class Kind(StrEnum):
    JOIN = "join"
    LEAVE = "leave"
    REMOVE = "remove"
    REPLACE = "replace"
    CANCEL = "cancel"
    SPREAD = "spread"
    """Moves votes to other members; requested by the register itself."""


@dataclass(frozen=True, slots=True)
class Change:
    """A requested change.

    node: leaves, is removed or is replaced. entry: joins, or replaces `node`. force: allows fewer
    than three remaining members.
    """

    kind: Kind
    node: str = ""
    entry: MemberEntry | None = None
    force: bool = False


class ChangeRefused(Picklable):
    """A refused change. status: as in HTTP."""

    def __init__(self, status: int, code: str, detail: str) -> None:
        super().__init__(detail)
        self.status, self.code, self.detail = status, code, detail


def begin(now: Configuration, change: Change) -> Configuration:
    """Return the configuration that a change begins with. Raises ChangeRefused."""
    if change.kind is Kind.CANCEL:
        return _cancelled(now)
    if now.stage is not Stage.STABLE:
        detail = f"configuration {now.id} is {now.stage}: one change at a time, or cancel it"
        raise ChangeRefused(409, "change-in-flight", detail)
    match change.kind:
        case Kind.JOIN:
            return _learning(now, now.members, (*now.members, _newcomer(now, change)))
        case Kind.REPLACE:
            return _replace(now, change)
        case Kind.SPREAD:
            return _learning(now, now.members, now.members)
        case Kind.LEAVE | Kind.REMOVE:
            return _remove(now, change)
        case _:
            assert_never(change.kind)


def advanced(now: Configuration) -> Configuration:  # Tests replace this.
    """Return the next step of a change that is under way.

    The voters stay those that the change began with: the joint majorities were majorities of them.
    """
    if now.stage is Stage.LEARNING:
        return replace(now, id=now.id + 1, stage=Stage.JOINT)
    assert now.stage is Stage.JOINT
    return replace(
        now, id=now.id + 1, stage=Stage.STABLE, members=now.next_members, next_members=()
    )


def _learning(
    now: Configuration, members: tuple[MemberEntry, ...], coming: tuple[MemberEntry, ...]
) -> Configuration:
    ordered = with_votes(sorted(coming, key=lambda each: each.id))
    return replace(now, id=now.id + 1, stage=Stage.LEARNING, members=members, next_members=ordered)


def _cancelled(now: Configuration) -> Configuration:
    """Return a configuration of the old members: their majority has all that both sets decided."""
    if now.stage is Stage.STABLE:
        raise ChangeRefused(409, "no-change", "no change is under way: there is nothing to cancel")
    members = tuple(replace(each, lost=False) for each in now.members)
    return replace(now, id=now.id + 1, stage=Stage.STABLE, members=members, next_members=())


def _newcomer(now: Configuration, change: Change) -> MemberEntry:
    entry = change.entry
    if entry is None:
        raise ChangeRefused(400, "malformed", f"{change.kind} must name the joining node")
    for member in now.members:
        if member.id == entry.id and change.node != entry.id:
            detail = f"{entry.id} is a member already; to give it a new disk, use replace"
            raise ChangeRefused(409, "already-a-member", detail)
        if member.store_id == entry.store_id:
            detail = f"the disk of {entry.id} belongs to the member {member.id}: give an empty disk"
            raise ChangeRefused(409, "already-a-member", detail)
        if (member.host, member.port) == (entry.host, entry.port) and member.id != change.node:
            detail = (
                f"{entry.host}:{entry.port} is the address of {member.id}: give another address"
            )
            raise ChangeRefused(409, "address-taken", detail)
    return replace(entry, votes=False)  # `with_votes` decides over all members.


def _replace(now: Configuration, change: Change) -> Configuration:
    _known(now, change.node)
    entry = _newcomer(now, change)
    rest = tuple(each for each in now.members if each.id != change.node)
    members = now.members
    if entry.id == change.node:
        # The old disk counts until the change is over, but can no longer answer under this name.
        members = tuple(replace(each, lost=each.id == change.node) for each in now.members)
    return _learning(now, members, (*rest, entry))


def _remove(now: Configuration, change: Change) -> Configuration:
    _known(now, change.node)
    rest = tuple(each for each in now.members if each.id != change.node)
    holding = sum(not each.observes for each in rest)
    fewer = holding < sum(not each.observes for each in now.members)
    if fewer and (holding == 0 or (holding < MEMBERS_MIN and not change.force)):
        detail = f"{holding} members would remain; fewer than {MEMBERS_MIN} need force"
        raise ChangeRefused(409, "too-few-members", detail)
    return _learning(now, now.members, rest)


def _known(now: Configuration, node: str) -> None:
    if all(member.id != node for member in now.members):
        raise ChangeRefused(
            404,
            "not-a-member",
            f"{node or 'the empty name'} is not a member: name one of the group",
        )
