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
    """Share of a member by the decided document, compared with the member's own list.

    assigned: partition -> token, of those that the member has and is to keep. revoked: those that
    it still has and must give up. kept: those in its list that it leads until the successor is
    confirmed. lost: those in its list that it no longer has.
    """

    assigned: dict[str, int]
    revoked: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()


@dataclass(slots=True)
class Heard:
    """State of one member, from its pulses under this term."""

    at: float
    """Arrival of the last pulse, by the clock of deadlines."""
    number: int = -1
    generation: int = -1
    """Generation that the newest pulse named as received."""
    listing: int = -1
    owned: frozenset[str] | None = None
    """List of partitions that the member has sent; None while it is not known."""
    answered: int = 0
    """Number of the newest pulse whose reply the member has received, as it says."""
    confirmed: dict[str, tuple[int, int]] = field(default_factory=dict)
    """partition -> (token, number of the pulse whose reply first confirmed that token)."""
    revoking: dict[str, float] = field(default_factory=dict)
    """partition -> time at which the member was first told to give it up."""
    is_fenced: bool = False
    told: MemberShare | None = None

    def take(self, pulse: Pulse) -> bool:
        """Take the contents of a pulse; return False if a newer pulse came first."""
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
        """Record the partitions confirmed in the reply to the newest pulse.

        assigned: partition -> token.
        """
        before = self.confirmed
        self.confirmed = {
            each: before[each] if before.get(each, (0, 0))[0] == token else (token, self.number)
            for each, token in assigned.items()
        }

    def leads(self, partition: str, token: int) -> bool:
        """Say whether the member is known to have received a reply that confirms a partition."""
        told, number = self.confirmed.get(partition, (0, 0))
        return told == token and number <= self.answered


@dataclass(frozen=True, slots=True)
class Index:
    """A decided version of a group, indexed by member, since pulses are frequent."""

    tenures: dict[str, list[tuple[str, int]]]
    """member -> (partition, token) of each partition that the member has."""
    moving: list[tuple[str, str]]
    """(partition, member) of each partition that should pass from that member."""
    draining: list[str]
    """Members with capacity 0, which give away their partitions."""

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
    """The next state, while the fate of its update is unknown."""
    joining: dict[str, list[Served]] = field(default_factory=dict)
    leaving: dict[str, list[Served]] = field(default_factory=dict)
    """member -> calls that wait until its join or leave is decided."""
    look_at: float = 0.0
    """Time at which to read its topics again."""

    @property
    def group(self) -> GroupState:
        """Return the decided state of the group."""
        found = self.known.found
        assert isinstance(found, GroupState)
        return found

    def is_leaving(self, member: str) -> bool:  # Tests replace this.
        """Say whether an update under way removes a member."""
        return self.draft is not None and member not in self.draft.members

    def share_of(self, member: str) -> MemberShare:
        """Return the share of a member (rules G2 and G4)."""
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
        """Say whether a partition's former member still leads, as the successor may not yet (G4).

        The successor leads once it has received the reply that confirms it, which may be lost or
        late.
        """
        successor = self.group.tenure.get(partition)
        if self.group.is_exclusive or successor is None:
            return False
        heard = self.heard.get(successor.member)
        return heard is None or not heard.leads(partition, successor.token)

    def released(self) -> Iterable[tuple[str, str]]:  # Tests replace this.
        """Yield (partition, member) of each moving partition that its member has released (G3 b).

        A partition that is missing in the member's list is released only if the member had already
        learnt that it should move. A partition that was just granted is not in the list either.
        """
        for partition, member in self.index.moving:
            heard = self.heard[member]
            is_absent = heard.owned is not None and partition not in heard.owned
            if is_absent and heard.generation == self.group.generation:
                yield partition, member

    def drained(self) -> Iterable[str]:
        """Yield the draining members that have no partition left."""
        for member in self.index.draining:
            if not self.index.tenures[member] and self.heard[member].owned == frozenset():
                yield member
