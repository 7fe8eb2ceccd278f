"""The next state of a group: its members, where partitions should be, and which may pass on.

Every partition moves by itself (rule G7): no member stops, and no move waits for all members. When
the tenure of a partition passes to its target is a table, `PASSES` (rules G3 and G4).
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from docstore.services.assigning import assign
from docstore.services.group_document import GroupState, MemberDetails, Tenure


@dataclass(slots=True)
class GroupChanges:
    """Changes for the next update of a group, which have all happened.

    joins: new members, or members with another capacity. gone: members that left, or whose session
    is over. released: (partition, member) of each moving partition that its member gave up. parts:
    the present numbers of partitions of its topics; None for no change.
    """

    joins: dict[str, MemberDetails] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    released: set[tuple[str, str]] = field(default_factory=set)
    parts: Mapping[str, int] | None = None

    def __bool__(self) -> bool:
        """Say whether there is anything to do."""
        return bool(self.joins or self.gone or self.released or self.parts is not None)


class Move(NamedTuple):
    """A partition that another member than its present one should have."""

    has_holder: bool
    """Whether a member of the group still has the tenure."""
    is_released: bool
    """Whether the present member has released it after it learnt of the move."""
    is_exclusive: bool


PASSES: Mapping[str, Callable[[Move], bool]] = {  # Tests replace this.
    "no member has it: free, or its member left, or its session is over": lambda m: (
        not m.has_holder
    ),
    "its member has given it up": lambda m: m.has_holder and m.is_released,
    "not exclusive, so two may lead it for a while: it passes at once": lambda m: (
        not m.is_exclusive
    ),
}
"""Reason -> condition under which a tenure passes to its target; no other case (G3, G4)."""


def reconciled(link: str, group: GroupState, changes: GroupChanges, token: int) -> GroupState:
    """Return the group after some changes; an equal group if they change nothing.

    link: that of the group's document. token: version of the row that the update will create.
    """
    members, successors = _members(group, changes)
    parts = group.parts if changes.parts is None else changes.parts
    draft = replace(group, members=members, parts=parts)
    if members != group.members or parts != group.parts:
        should = {each: successors.get(member, member) for each, member in group.target.items()}
        target = assign(link, draft.partitions, capacities=_capacities(draft), held=should)
        draft = replace(draft, target=target, generation=group.generation + 1)
    return replace(draft, tenure=_tenure(draft, changes.released, token))


def predecessor(group: GroupState, member: str) -> str:
    """Return the live member that this one waits behind, "" for none (rule G6).

    When two processes have the same instance, the later one gets exactly the partitions of the
    earlier one, once that has ended. Until then it is assigned nothing.
    """
    own = group.members[member]
    if not own.instance or not group.is_exclusive:
        return ""
    earlier = [
        other
        for other, each in group.members.items()
        if each.instance == own.instance and (each.since, other) < (own.since, member)
    ]
    return min(earlier, key=lambda other: (group.members[other].since, other), default="")


def _members(
    group: GroupState, changes: GroupChanges
) -> tuple[dict[str, MemberDetails], dict[str, str]]:
    """Return the members after the changes, and former member -> successor of its partitions."""
    after = {name: each for name, each in group.members.items() if name not in changes.gone}
    for name, each in changes.joins.items():
        since = after[name].since if name in after else group.generation + 1
        if name not in changes.gone:
            after[name] = each._replace(since=since)
    latest = {each.instance: name for name, each in after.items() if each.instance}
    if not group.is_exclusive:
        after = {
            name: each
            for name, each in after.items()
            if not each.instance or latest[each.instance] == name
        }
    successors: dict[str, str] = {}
    for name, each in group.members.items():
        same = [
            other for other in after if each.instance and after[other].instance == each.instance
        ]
        if name not in after and same:
            successors[name] = min(same, key=lambda other: (after[other].since, other))
    return after, successors


def _capacities(group: GroupState) -> dict[str, int]:
    """Return member -> weight, for the members that partitions are assigned to."""
    return {
        name: each.capacity
        for name, each in group.members.items()
        if each.capacity and not predecessor(group, name)
    }


def _tenure(
    group: GroupState, released: Collection[tuple[str, str]], token: int
) -> dict[str, Tenure]:
    """Return the tenures after the changes, in the order of the partitions."""
    after: dict[str, Tenure] = {}
    for partition in group.partitions:
        held, successor = group.tenure.get(partition), group.target.get(partition)
        if held is not None and held.member == successor:
            after[partition] = held
            continue
        move = Move(
            has_holder=held is not None and held.member in group.members,
            is_released=held is not None and (partition, held.member) in released,
            is_exclusive=group.is_exclusive,
        )
        if not any(passes(move) for passes in PASSES.values()):
            assert held is not None
            after[partition] = held
        elif successor is not None:
            after[partition] = Tenure(successor, token)
    return after
