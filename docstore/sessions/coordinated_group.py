"""State of one group at its coordinator under one term: the pulses and lists of its members.

All of it is in memory. A new term begins empty: members get a whole session, their lists are
requested again, and times to revoke begin anew (rule G8).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from docstore.services.group_document import GroupState
from docstore.sessions.calling import Served
from docstore.sessions.group_messages import Pulse
from docstore.sessions.owned import Known
from docstore.sessions.reconciling import GroupChanges


@dataclass(frozen=True, slots=True)
class MemberShare:
    """A member's part, as the decided document has it, seen from its own list.

    assigned: partition -> token of what is its and stays. revoked: its still, to be given up.
    kept: led by it until its successor is confirmed. lost: of its list, and not its any more.
    """

    assigned: dict[str, int]
    revoked: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()


@dataclass(slots=True)
class Heard:
    """State of one member, from its pulses under this term."""

    at: float
    """When its last pulse arrived; by the clock of deadlines."""
    number: int = -1
    generation: int = -1
    """The one that it answered to, in its newest pulse."""
    listing: int = -1
    owned: frozenset[str] | None = None
    """Its list; None while it is not known."""
    answered: int = 0
    """The newest of its pulses whose reply it has taken, as it says."""
    confirmed: dict[str, tuple[int, int]] = field(default_factory=dict)
    """partition -> (token, number of the first pulse whose reply confirmed it), of all since."""
    revoking: dict[str, float] = field(default_factory=dict)
    """partition -> when it was first told to give it up."""
    is_fenced: bool = False
    told: MemberShare | None = None

    def take(self, pulse: Pulse) -> bool:
        """Take what a pulse says; False if a newer one was here first."""
        if pulse.number <= self.number:
            return False
        self.number, self.generation = pulse.number, pulse.generation
        self.answered = pulse.answered
        if pulse.owned is not None:
            self.listing, self.owned = pulse.listing, frozenset(pulse.owned)
        elif pulse.listing != self.listing:
            self.owned = None
        return True

    def confirm(self, assigned: Mapping[str, int]) -> None:
        """Tell it that it may lead these, in the reply to its newest pulse."""
        before = self.confirmed
        self.confirmed = {
            each: before[each] if before.get(each, (0, 0))[0] == token else (token, self.number)
            for each, token in assigned.items()
        }

    def leads(self, partition: str, token: int) -> bool:
        """Say whether it has heard that it may lead a partition, for all that is known here."""
        told, number = self.confirmed.get(partition, (0, 0))
        return told == token and number <= self.answered


@dataclass(frozen=True, slots=True)
class Index:
    """A decided version of a group, indexed by member: pulses are many."""

    tenures: dict[str, list[tuple[str, int]]]
    """member -> (partition, token) of all that it has."""
    moving: list[tuple[str, str]]
    """(partition, member) where the member has what another, or none, should have."""
    draining: list[str]
    """Members that give away what they have."""

    @classmethod
    def of(cls, group: GroupState) -> "Index":
        """Index a group."""
        tenures: dict[str, list[tuple[str, int]]] = {member: [] for member in group.members}
        moving = []
        for partition, (member, token) in group.tenure.items():
            tenures[member].append((partition, token))
            if group.target.get(partition) != member:
                moving.append((partition, member))
        draining = [name for name, each in group.members.items() if not each.capacity]
        return cls(tenures, moving, draining)


@dataclass(slots=True)
class CoordinatedGroup:
    """A group of which this node is the coordinator."""

    known: Known
    index: Index
    heard: dict[str, Heard] = field(default_factory=dict)
    changes: GroupChanges = field(default_factory=GroupChanges)
    draft: GroupState | None = None
    """The next state, while it is under way: of unknown fate, until it is known."""
    joining: dict[str, list[Served]] = field(default_factory=dict)
    leaving: dict[str, list[Served]] = field(default_factory=dict)
    """Calls that wait until a join, or a leave, is decided: member -> calls."""
    look_at: float = 0.0
    """When to look at its topics again."""

    @property
    def group(self) -> GroupState:
        """Return the group as it is decided."""
        found = self.known.found
        assert isinstance(found, GroupState)
        return found

    def is_leaving(self, member: str) -> bool:  # Tests replace this.
        """Say whether a member's end is under way, or what became of it is unknown."""
        return self.draft is not None and member not in self.draft.members

    def share_of(self, member: str) -> MemberShare:
        """Return a member's part (rules G2 and G4)."""
        group, owned = self.group, self.heard[member].owned or frozenset()
        assigned, revoked = {}, []
        for partition, token in self.index.tenures[member]:
            if group.target.get(partition) != member:
                revoked.append(partition)
            elif self.draft is None or not self._takes(self.draft, partition, member):
                assigned[partition] = token
        foreign = sorted(
            each
            for each in owned
            if each not in group.tenure or group.tenure[each].member != member
        )
        kept = tuple(each for each in foreign if self._is_kept(each))
        lost = tuple(each for each in foreign if each not in kept)
        return MemberShare(assigned, tuple(revoked), kept, lost)

    def _takes(self, draft: GroupState, partition: str, member: str) -> bool:  # Tests replace this.
        """Say whether an update of unknown fate takes a partition away from its member."""
        return (
            member not in draft.members
            or draft.target.get(partition) != member
            or draft.tenure.get(partition) != self.group.tenure[partition]
        )

    def _is_kept(self, partition: str) -> bool:
        """Say whether the former member still leads it: its successor may not yet (G4).

        The successor leads once it has the reply that says so, which may be lost or late.
        """
        successor = self.group.tenure.get(partition)
        if self.group.is_exclusive or successor is None:
            return False
        heard = self.heard.get(successor.member)
        return heard is None or not heard.leads(partition, successor.token)

    def released(self) -> Iterable[tuple[str, str]]:  # Tests replace this.
        """Yield (partition, member) of what was given up and should be another's (G3 b).

        Absence in a list is a release only if the member had learnt, as it sent it, that the
        partition should be another's: one that it was just granted is not in its list either.
        """
        for partition, member in self.index.moving:
            heard = self.heard[member]
            is_absent = heard.owned is not None and partition not in heard.owned
            if is_absent and heard.generation == self.group.generation:
                yield partition, member

    def drained(self) -> Iterable[str]:
        """Yield the members that have given away all that they had."""
        for member in self.index.draining:
            if not self.index.tenures[member] and self.heard[member].owned == frozenset():
                yield member
