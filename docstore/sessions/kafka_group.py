"""State of one group of Kafka clients at its coordinator under one term.

The phases are Kafka's. A member is in memory from its join; the document has the members of the
newest decided generation. A new term begins with those, and without their metadata and
assignments: the members that need these rejoin (rule KG5).
"""

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import inf

from docstore.services.group_document import (
    PARTITIONS_MAX,
    WINDOW_MS,
    GroupState,
    KafkaUse,
    MemberDetails,
    Tenure,
)
from docstore.sessions.calling import Served
from docstore.sessions.kafka_messages import Code, JoinAsked, SyncAsked
from docstore.sessions.owned import Known


class KafkaPhase(StrEnum):
    """Phase of a group of Kafka clients, by Kafka's names."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"


EMPTY, PREPARING, COMPLETING, STABLE = KafkaPhase


@dataclass(slots=True)
class KafkaMember:
    """A member. protocols: name -> metadata in the order of preference; {} if not known yet."""

    id: str
    instance: str
    session_s: float
    rebalance_s: float
    client: str = ""
    host: str = ""
    protocols: Mapping[str, bytes] = field(default_factory=dict)
    assignment: bytes | None = None
    """Its assignment in the present generation; None if it is not known under this term."""
    joining: Served | None = None
    syncing: Served | None = None
    """The call that waits for the end of the join, or of the sync."""

    @classmethod
    def of(cls, member: str, join: JoinAsked) -> "KafkaMember":
        """Return the member that a request describes."""
        return cls(
            member,
            join.instance,
            join.session_ms / 1000,
            max(0, min(join.rebalance_ms, WINDOW_MS[1])) / 1000,
            join.client,
            join.host,
            dict(join.protocols),
        )

    def is_same(self, join: JoinAsked) -> bool:
        """Say whether a join repeats the protocols of the join before."""
        return list(self.protocols.items()) == [(name, each) for name, each in join.protocols]

    @property
    def weight(self) -> int:
        """Return the bytes of its metadata and its assignment."""
        return sum(map(len, self.protocols.values())) + len(self.assignment or b"")


@dataclass(slots=True)
class Change:
    """A change of the group's document that waits for its turn.

    make: returns the next state, None for no change. then: called with whether it was applied.
    """

    make: Callable[[GroupState], GroupState | None]
    then: Callable[[bool], None]


@dataclass(slots=True)
class KafkaGroup:
    """A group of which this node is the coordinator."""

    known: Known
    is_sure: bool
    """Whether it began with a version that was decided, and not with one of a listing."""
    members: dict[str, KafkaMember] = field(default_factory=dict)
    pending: set[str] = field(default_factory=set)
    """Ids that were given out, with which no process has joined yet."""
    phase: KafkaPhase = EMPTY
    generation: int = 0
    """The newest generation that was sent to members."""
    type: str = ""
    protocol: str = ""
    leader: str = ""
    ends_at: float = inf
    """Time at which the phase ends with the members that have answered."""
    is_first: bool = False
    """Whether the join phase began with an empty group, and so waits for more members."""
    is_deciding: bool = False
    """Whether the leader has sent the assignments of this generation."""
    changes: deque[Change] = field(default_factory=deque)
    is_writing: bool = False

    @classmethod
    def of(cls, known: Known) -> "KafkaGroup":
        """Return the group as its document has it (rule KG5)."""
        group = cls(known, known.is_sure)
        document, use = group.document, group.document.kafka
        group.generation = document.generation
        if use is not None:
            group.phase, group.type, group.protocol = STABLE, use.type, use.name
            group.members = {
                name: KafkaMember(
                    name, each.instance, use.session_ms / 1000, use.rebalance_ms / 1000, "",
                    each.host,
                )
                for name, each in document.members.items()
            }  # fmt: skip
        return group

    @property
    def document(self) -> GroupState:
        """Return the decided state."""
        found = self.known.found
        assert isinstance(found, GroupState)
        return found

    @property
    def is_ours(self) -> bool:
        """Whether no member of docstore's own protocol is in the group."""
        return not self.document.members or self.document.kafka is not None

    @property
    def rebalance_s(self) -> float:
        """Return how long members may take to rejoin."""
        return max((each.rebalance_s for each in self.members.values()), default=0.0)

    def instance(self, name: str) -> KafkaMember | None:
        """Return the member with an instance name, if there is one."""
        found = [each for each in self.members.values() if name and each.instance == name]
        return found[0] if found else None

    def fault_of(self, member: str, instance: str, generation: int | None = None) -> str:
        """Return why a request is not one of a member in its newest generation, "" if it is.

        generation: None for a request that names none.
        """
        static = self.instance(instance)
        if static is not None and static.id != member:
            return Code.FENCED_INSTANCE
        if member not in self.members:
            return Code.UNKNOWN_MEMBER
        is_past = generation is not None and self.is_past(generation)
        return Code.ILLEGAL_GENERATION if is_past else ""

    def is_past(self, generation: int) -> bool:  # Tests replace this.
        """Say whether a generation is not the newest that was sent to members (rule KG3)."""
        return generation != self.generation

    def has_protocol(self, join: JoinAsked, but: str = "") -> bool:
        """Say whether all members with known metadata share a protocol with a join.

        but: the member that the join replaces.
        """
        others = [each.protocols for name, each in self.members.items() if name != but]
        if others and join.type != self.type:
            return False
        shared = {name for name, _ in join.protocols}
        return bool(shared.intersection(*(each for each in others if each)))

    def elect(self) -> None:
        """Choose the protocol that most members prefer, and a leader."""
        listed = [each.protocols for each in self.members.values()]
        shared = set(listed[0]).intersection(*listed)
        votes = Counter(next(name for name in each if name in shared) for each in listed)
        self.protocol = max(votes, key=lambda name: (votes[name], name))
        if self.leader not in self.members:
            self.leader = next(iter(self.members))

    def joined(self, member: KafkaMember) -> dict[str, object]:
        """Return the answer to a join; the leader gets the metadata of all members."""
        listed = [
            [each.id, each.instance, each.protocols[self.protocol]]
            for each in (self.members.values() if member.id == self.leader else ())
        ]
        return {
            "generation": self.generation, "type": self.type, "protocol": self.protocol,
            "leader": self.leader, "member": member.id, "members": listed,
        }  # fmt: skip

    def decided(self, sync: SyncAsked) -> GroupState:
        """Return the document of this generation, with the assignments of the leader.

        Every partition is granted anew, so each member has the token of this generation.
        """
        parts = covered(self.document.parts, sync.parts) or self.document.parts
        members = {
            name: MemberDetails(each.instance, each.host, since=self.generation)
            for name, each in self.members.items()
        }
        draft = replace(
            self.document, generation=self.generation, parts=parts, members=members, kafka=self.use
        )
        target = {
            each: sync.assigned[each]
            for each in draft.partitions
            if sync.assigned.get(each) in members
        }
        return self.granted(replace(draft, target=target))

    def granted(self, draft: GroupState) -> GroupState:
        """Return a draft in which each partition is granted by the row that it becomes."""
        token = self.known.tag[1] + 1
        return replace(
            draft, tenure={each: Tenure(member, token) for each, member in draft.target.items()}
        )

    @property
    def use(self) -> KafkaUse:
        """Return the protocol and times, as the document has them."""
        session_s = max(each.session_s for each in self.members.values())
        return KafkaUse(
            self.type, self.protocol, int(session_s * 1000), int(self.rebalance_s * 1000)
        )

    def laggards(self) -> Sequence[str]:
        """Return the members without which the present phase can end."""
        is_here: Callable[[KafkaMember], object] = (
            (lambda each: each.joining) if self.phase is PREPARING else (lambda each: each.syncing)
        )
        return [name for name, each in self.members.items() if is_here(each) is None]


def covered(parts: Mapping[str, int], more: Mapping[str, int]) -> dict[str, int]:
    """Return the topics of a group with those that its members read or commit; {} if too many."""
    found = {topic: max(parts.get(topic, 0), more.get(topic, 0)) for topic in [*parts, *more]}
    return found if sum(found.values()) <= PARTITIONS_MAX else {}


def extended(document: GroupState, more: Mapping[str, int]) -> GroupState | None:
    """Return a document with further partitions; None if it has them, or would have too many."""
    parts = covered(document.parts, more)
    if not parts or parts == document.parts:
        return None
    generation = document.generation + (document.kafka is None)
    return replace(document, parts=parts, generation=generation)


def emptied(document: GroupState, generation: int) -> GroupState:
    """Return a document after the last member has left."""
    return replace(document, generation=generation, members={}, target={}, tenure={}, kafka=None)


def renamed(document: GroupState, former: str, member: str) -> GroupState:
    """Return a document in which a static member has another id."""
    names = {name: member if name == former else name for name in document.members}
    return replace(
        document,
        members={names[name]: each for name, each in document.members.items()},
        target={each: names[name] for each, name in document.target.items()},
    )
