"""A group's document: its members, the target of each partition, and the members that lead it.

It lies at `/core/groups/<name>` (consumers of topics) or `/core/roles/<name>` (roles by induction),
at level 3. Only its coordinator, the owner of its slot, writes it. Each update contains the whole
next state, the version on which it is based and the term that decided it.

`target` is the member that each partition should have. `tenure` is the member that may believe that
it leads the partition, with its token: the version of the row that granted it. So tokens also grow
over a group that was deleted and created again. A member's list of partitions is not stored, since
each pulse sends it.

A group whose members are Kafka clients has the member `kafka`. Its leader assigned the partitions,
so target and tenure are equal, and each generation grants all of them anew.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from docstore.model import json
from docstore.model.fields import Fields
from docstore.model.service import Malformed, Refusal, State, understood
from docstore.model.settings import quoted
from docstore.ownership.by_induction import Mode, Windows

GROUPS, ROLES = "/core/groups", "/core/roles"
FORMAT = 1
PARTITIONS_MAX = 4_096
MEMBERS_MAX = 1_000
TEXT_MAX = 200
CAPACITY_MAX = 1_000
SESSION_MS = (500, 3_600_000)
WINDOW_MS = (1, 4 * 3_600_000)
NUMBER_MAX = 1 << 62


class GroupPhase(StrEnum):
    """Progress of a group towards its target."""

    EMPTY = "Empty"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


EMPTY, RECONCILING, STABLE = GroupPhase

PHASES: Mapping[tuple[GroupPhase, GroupPhase], str] = {
    (EMPTY, EMPTY): "its settings change",
    (EMPTY, STABLE): "a member joins: all that is free is granted with it",
    (STABLE, STABLE): "members change, and what was free passes at once",
    (STABLE, RECONCILING): "a partition should move, and its member still has it",
    (RECONCILING, RECONCILING): "one of several moves is done, or members change",
    (RECONCILING, STABLE): "each member has its target",
    (STABLE, EMPTY): "the last member is gone",
    (RECONCILING, EMPTY): "the last member is gone",
}
"""(before, after) -> when. A deleted document means a dead group; only an empty group can be
deleted."""


class MemberDetails(NamedTuple):
    """A member. instance: a name that survives restarts, or "". since: generation of its join.

    capacity: weight of the member; 0 for a leaving one, which releases its partitions.
    """

    instance: str = ""
    host: str = ""
    capacity: int = 1
    since: int = 0


class Tenure(NamedTuple):
    """The member that may believe that it leads a partition; token: the row's version."""

    member: str
    token: int


class KafkaUse(NamedTuple):
    """The protocol that Kafka clients chose for a group, and the longest times that they asked for.

    type: `consumer` for consumers of topics. name: that of the assignor.
    """

    type: str
    name: str
    session_ms: int
    rebalance_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The times of a group in milliseconds: see `ownership/by_induction.py`.

    revoke_ms: the time that a member may take to release a partition.
    """

    mode: Mode = Mode.EXCLUSIVE
    session_ms: int = 6_000
    heartbeat_ms: int = 750
    window_ms: int = 3_000
    revoke_ms: int = 6_000

    def windows(self) -> Windows:
        """Return the times in the form that members use. Raises ValueError for invalid ones."""
        return Windows(
            mode=self.mode,
            session_s=self.session_ms / 1000,
            heartbeat_s=self.heartbeat_ms / 1000,
            window_s=self.window_ms / 1000,
        )

    def state(self) -> State:
        return {
            "mode": str(self.mode),
            "sessionMs": self.session_ms,
            "heartbeatMs": self.heartbeat_ms,
            "windowMs": self.window_ms,
            "revokeMs": self.revoke_ms,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupState:
    """State of the document. parts: topic -> partitions, or "" -> partitions for roles.

    kafka: None unless the members are Kafka clients.
    """

    parts: Mapping[str, int]
    settings: Settings = field(default_factory=Settings)
    generation: int = 0
    members: Mapping[str, MemberDetails] = field(default_factory=dict)
    target: Mapping[str, str] = field(default_factory=dict)
    tenure: Mapping[str, Tenure] = field(default_factory=dict)
    kafka: KafkaUse | None = None

    @property
    def partitions(self) -> list[str]:
        """Return the sorted names of all partitions: `7`, or `<topic>/7`."""
        return [
            f"{topic}/{number}" if topic else str(number)
            for topic in sorted(self.parts)
            for number in range(self.parts[topic])
        ]

    @property
    def is_exclusive(self) -> bool:
        """Whether at most one member may lead a partition at any moment."""
        return self.settings.mode is Mode.EXCLUSIVE

    @property
    def phase(self) -> GroupPhase:
        if not self.members:
            return EMPTY
        has = {partition: tenure.member for partition, tenure in self.tenure.items()}
        return STABLE if has == self.target else RECONCILING

    def state(self) -> State:
        """Return the document's state. Members are named once; other parts refer to their index."""
        places = {member: place for place, member in enumerate(self.members)}
        parts = {"partitions": self.parts[""]} if "" in self.parts else {"topics": self.parts}
        names = self.partitions
        return {
            "format": FORMAT,
            "state": str(self.phase),
            "generation": self.generation,
            **parts,
            "settings": self.settings.state(),
            "members": [[name, *member] for name, member in self.members.items()],
            "target": [places.get(self.target.get(each, ""), -1) for each in names],
            "tenure": [
                [places[held.member], held.token] if (held := self.tenure.get(each)) else []
                for each in names
            ],
            **({} if self.kafka is None else {"kafka": list(self.kafka)}),
        }

    def pack(self) -> bytes:
        """Return the document's state: the body of the update that writes it."""
        return json.dump(self.state())


def new_group(asked: State, *, parts: Mapping[str, int]) -> GroupState:
    """Return a new group as a client requests it; its times are optional. Raises Refusal."""
    fields = Fields(asked)
    found = GroupState(parts=_checked(parts, topics_min=1), settings=settings_of(fields))
    fields.end()
    return found


def settings_of(fields: Fields) -> Settings:
    """Take the settings out of an object. Raises Refusal; 422 for invalid combinations of times."""
    mode = fields.text("mode", default=str(Mode.EXCLUSIVE))
    if mode not in set(Mode):
        raise Malformed(f"`mode` must be one of {', '.join(Mode)}; got {quoted(mode)}")
    session_ms = fields.whole("sessionMs", *SESSION_MS, default=6_000)
    usual = Windows.of(Mode(mode), session_ms / 1000)
    found = Settings(
        mode=Mode(mode),
        session_ms=session_ms,
        heartbeat_ms=fields.whole("heartbeatMs", *WINDOW_MS, default=int(usual.heartbeat_s * 1000)),
        window_ms=fields.whole("windowMs", *WINDOW_MS, default=int(usual.window_s * 1000)),
        revoke_ms=fields.whole("revokeMs", 0, WINDOW_MS[1], default=session_ms),
    )
    try:
        found.windows()
    except ValueError as error:
        raise Refusal(str(error), status=422) from None
    return found


def group_of(state: State) -> GroupState:
    """Return the group in a document's state. Raises Refusal if it is not a group."""
    fields = Fields(state)
    fields.whole("format", FORMAT, FORMAT)
    phase, generation = fields.text("state"), fields.whole("generation", 0, NUMBER_MAX)
    parts: dict[str, int] = (
        dict(fields.inner("topics").rest())
        if "topics" in state
        else {"": fields.whole("partitions", 1, PARTITIONS_MAX)}
    )
    times = fields.inner("settings")
    settings = settings_of(times)
    times.end()
    bare = GroupState(parts=_checked(parts), settings=settings, generation=generation)
    members = _members(fields.array("members"))
    names = list(members)
    targets, tenures = fields.array("target"), fields.array("tenure")
    kafka = _kafka(fields.array("kafka")) if "kafka" in state else None
    fields.end()
    found = GroupState(
        parts=bare.parts,
        settings=settings,
        generation=generation,
        members=members,
        kafka=kafka,
        target=_by_partition(
            bare, targets, lambda each: _name(names, each) if each != -1 else None
        ),
        tenure=_by_partition(
            bare, tenures, lambda each: Tenure(_name(names, each[0]), each[1]) if each else None
        ),
    )
    if phase != found.phase:
        raise Malformed(
            f"`state` must be {found.phase}, which follows from members, "
            f"target and tenure; got {quoted(phase)}"
        )
    return found


def read_group(state: bytes) -> GroupState | None:
    """Return the group in a document; None if it is not one."""
    return understood(group_of, state)


def _checked(parts: Mapping[str, Any], topics_min: int = 0) -> dict[str, int]:
    """Return the partitions. Raises Refusal. A new group of Kafka clients has no topics yet."""
    counts = list(parts.values())
    if len(counts) < topics_min or not all(type(each) is int and each >= 1 for each in counts):
        raise Malformed("`partitions` of a topic, or of roles, must be a whole number, 1 or more")
    if sum(counts) > PARTITIONS_MAX:
        raise Refusal(
            f"a group must have at most {PARTITIONS_MAX} partitions; got {sum(counts)}", status=422
        )
    return dict(parts)


def _kafka(listed: Sequence[Any]) -> KafkaUse:
    kinds = [type(each) for each in listed]
    if kinds != [str, str, int, int]:
        raise Malformed("`kafka` must be [type, name, sessionMs, rebalanceMs]")
    return KafkaUse(*listed)


def _members(listed: Sequence[Any]) -> dict[str, MemberDetails]:
    members: dict[str, MemberDetails] = {}
    for each in listed:
        if not isinstance(each, list) or len(each) != 5:
            raise Malformed("each of `members` must be [id, instance, host, capacity, since]")
        members[str(each[0])] = checked_member(MemberDetails(*each[1:]))
    if len(members) != len(listed) or len(members) > MEMBERS_MAX:
        raise Malformed(
            f"`members` must have at most {MEMBERS_MAX} members, each once; got {len(listed)}"
        )
    return members


def checked_member(member: MemberDetails) -> MemberDetails:
    """Return a member whose fields have the right types. Raises Refusal."""
    texts: tuple[object, ...] = (member.instance, member.host)
    if not all(isinstance(each, str) and len(each) <= TEXT_MAX for each in texts):
        raise Malformed(f"`instance` and `host` must be strings of at most {TEXT_MAX} characters")
    numbers: tuple[object, ...] = (member.capacity, member.since)
    if not all(type(each) is int for each in numbers) or not 0 <= member.capacity <= CAPACITY_MAX:
        raise Malformed(f"`capacity` must be a whole number from 0 to {CAPACITY_MAX}")
    return member


def _by_partition(group: GroupState, listed: Sequence[Any], read: Any) -> dict[str, Any]:
    names = group.partitions
    if len(listed) != len(names):
        raise Malformed(
            f"`target` and `tenure` must have {len(names)} elements each; got {len(listed)}"
        )
    try:
        found = {name: read(each) for name, each in zip(names, listed, strict=True)}
    except (TypeError, IndexError, KeyError):
        raise Malformed("`target` and `tenure` must contain indexes into `members`") from None
    return {name: each for name, each in found.items() if each is not None}


def _name(names: Sequence[str], place: Any) -> str:
    if type(place) is not int or not 0 <= place < len(names):
        raise IndexError(place)
    return names[place]
