"""Removal of one rule of groups at a time; see `sessions_ablations.py`.

Where a second check covers the same rule, both are removed.
"""

from collections.abc import Callable, Iterable
from typing import Any

from docstore.machines import updates
from docstore.model import json
from docstore.model.operation import Answer, Operation
from docstore.services import groups as group_service
from docstore.services import offsets
from docstore.services.offsets import offset_link
from docstore.sessions import reconciling
from docstore.sessions.coordinated_group import CoordinatedGroup
from docstore.sessions.coordinating import Coordinating
from docstore.sessions.group_messages import Changed
from docstore.sessions.kafka_group import KafkaGroup
from docstore.sessions.member import GroupMember
from docstore.sessions.member_state import MemberState
from docstore.sessions.reconciling import Move
from tests.sim.actors import is_settled
from tests.sim.kafka_members import LINK, KafkaMember
from tests.sim.members import Participant
from tests.sim.sessions_shapes import Shape
from tests.sim.taken_away import Ablation, always, never, no_why, nothing

ROLES = Shape(
    groups=("/core/roles/r",), turns=(), lessees=0, members=4, partitions=4, ttl_ms=800, meddlers=0
)
CONSUMERS = Shape(
    groups=("/core/groups/g",), turns=(), lessees=0, members=4, partitions=2, ttl_ms=800,
    actor_kinds=("freeze", "freeze", "half"), meddlers=0,
)  # fmt: skip
GHOSTS = Shape(
    groups=("/core/roles/r",), turns=(), lessees=0, members=6, partitions=6, ttl_ms=2_500,
    kinds=("move", "move", "move", "cut"), actor_kinds=("ghost", "half", "half", "deaf"),
    meddlers=0, beats=3, ghosts=0.8, leaves_s=2.0, slots=1,
)  # fmt: skip
LATE = Shape(
    groups=("/core/roles/r",), turns=(), lessees=0, members=6, partitions=6, ttl_ms=2_500,
    kinds=("move",), actor_kinds=("half",), meddlers=0, beats=20, straggle=0.4, leaves_s=2.0,
)  # fmt: skip
CHANGES = Shape(
    groups=("/core/roles/r",), turns=(), lessees=0, members=5, partitions=5, ttl_ms=800,
    kinds=("move", "move", "delude"), actor_kinds=("deaf", "deaf", "half"), meddlers=0, slots=1,
)  # fmt: skip
SLOW = Shape(
    groups=("/core/roles/r",), turns=(), lessees=0, members=4, partitions=4, ttl_ms=800,
    kinds=("move",), actor_kinds=("die",), slowpokes=0.8, meddlers=0,
)  # fmt: skip
BOTH = Shape(
    groups=("/core/roles/r",), turns=(), lessees=0, members=4, partitions=4, ttl_ms=800,
    kinds=(), actor_kinds=(), mode="nonExclusive", meddlers=0, loss=0.0, trouble=0.0,
)  # fmt: skip
KAFKA = Shape(
    groups=(), turns=(), lessees=0, meddlers=0, members=0, kafka=4, partitions=2, ttl_ms=600,
    kinds=("delude", "delude", "move", "pause"), actor_kinds=("freeze", "half", "deaf"),
    slots=1, slowpokes=0.3, leaves_s=2.0, ghosts=0.3, beats=16, straggle=0.2, faults_s=24.0,
)  # fmt: skip

_changed: Callable[..., None] = Coordinating.changed
_fence: Callable[..., None] = Coordinating._fence
_told: Callable[..., list[Any]] = GroupMember._changed
_after: Callable[..., Any] = offsets._after


def _the_rest(self: Coordinating, known: Any) -> None:
    """Grant members of earlier terms only a part of their session."""
    _changed(self, known)
    for member, heard in self._governed[known.link].heard.items():
        key, is_new = (known.link, member), heard.number < 0 and known.tag[0] < known.epoch
        deadline = self._deadlines._known.get(key)
        if is_new and deadline is not None and not deadline.is_ending:
            self._deadlines.grant(key, deadline.span_s / 8)
            self._deadlines._known[key].span_s = deadline.span_s


def _released_though_to_stay(self: CoordinatedGroup) -> Iterable[tuple[str, str]]:
    """Treat absence as a release, although the partition stays the member's."""
    for partition, tenure in self.group.tenure.items():
        heard = self.heard[tenure.member]
        is_absent = heard.owned is not None and partition not in heard.owned
        if is_absent and heard.generation == self.group.generation:
            yield partition, tenure.member


def _released_at_any_time(self: CoordinatedGroup) -> Iterable[tuple[str, str]]:
    """Treat absence as a release, in a pulse of any generation."""
    for partition, member in self.index.moving:
        heard = self.heard[member]
        if heard.owned is not None and partition not in heard.owned:
            yield partition, member


def _leads_at_once(self: GroupMember, sent: Any, reply: Changed) -> list[Any]:
    """Lead assigned partitions without a claim."""
    told = _told(self, sent, reply)
    assert self.induced is not None
    for partition, token in reply.assigned.items():
        if partition not in self._me.revoking:
            stamp = self.stamps[sent.number]  # type: ignore[attr-defined]
            self.induced.confirmed(self.place_of(partition), token, stamp, stamp)
    return told


_answered: Callable[..., list[Any]] = GroupMember._answered


def _stamped(self: GroupMember, number: int, reply: Any, stamp: float, now: float) -> list[Any]:
    """Remember the stamp, and treat assignments of any generation as new."""
    self.stamps = {number: stamp}  # type: ignore[attr-defined]
    if isinstance(reply, Changed):
        reply = reply._replace(generation=max(reply.generation, self._me.generation))
    return _answered(self, number, reply, stamp, now)


def _fenced_and_gone(self: Coordinating, governed: CoordinatedGroup) -> None:
    """Free the partitions of a fenced member at once."""
    _fence(self, governed)
    governed.changes.gone.update(
        member for member, heard in governed.heard.items() if heard.is_fenced
    )


def _believes_on(self: GroupMember, why: str) -> list[Any]:
    """Keep all beliefs although fenced."""
    return []


def _unfenced(state: Any, said: Any) -> Any:
    """Accept claims and commits with any token."""
    return state | said


def _unclaimed(state: Any, said: Any) -> Any:
    """Accept commits with a token that has claimed nothing."""
    return state | said if said["token"] > state["token"] else _after(state, said)


def _read_only(self: Participant, member: GroupMember, partition: str, token: int) -> None:
    """Read where to begin, and claim nothing."""
    if not self._leads(member, partition, token):
        return
    link = offset_link(self.link, partition)

    def told(answer: Answer | None) -> None:
        if not is_settled(answer):
            self.later(0.2, self._claim, member, partition, token)
            return
        row = None if answer is None or not answer.is_success else answer.row
        offset = -1 if row is None else json.load(row.state)["offset"]
        self.arena.watch.of_groups.claimed(link, token, offset)
        self._commit(member, partition, token, offset + 1)

    self.submit(Operation(verb="GET", link=link), told)


def _claim_nothing(self: KafkaMember, number: int, partition: str, token: int) -> None:
    """Read where a generation begins, and claim nothing."""
    link = offset_link(LINK, partition)

    def told(answer: Answer | None) -> None:
        if not is_settled(answer):
            self.later(0.2, self._fetch, number, partition)
        elif number == self._round:
            row = None if answer is None or not answer.is_success else answer.row
            offset = -1 if row is None else json.load(row.state)["offset"]
            self.arena.watch.of_groups.claimed(link, self.generation, offset)
            self._commit(number, partition, offset + 1)

    self.submit(Operation(verb="GET", link=link), told)


def _not_both(move: Move) -> bool:
    return not move.has_holder or move.is_released


GROUP_RULES = {
    "sessions-not-granted-in-full": Ablation(
        "G8", ((Coordinating, "changed", _the_rest),), CHANGES
    ),
    "groups-updated-without-a-tag": Ablation(
        "G9",
        ((updates, "Conditions", nothing), (group_service, "why_not", no_why)),
        ROLES,
    ),
    "tenure-with-the-target": Ablation("G3", ((reconciling, "PASSES", {"": always}),), ROLES),
    "released-though-to-stay": Ablation(
        "G3",
        ((CoordinatedGroup, "released", _released_though_to_stay),),
        GHOSTS,
    ),
    "released-in-an-old-pulse": Ablation(
        "G3",
        ((CoordinatedGroup, "released", _released_at_any_time),),
        GHOSTS,
    ),
    "led-when-assigned": Ablation(
        "GM2",
        ((GroupMember, "_changed", _leads_at_once), (GroupMember, "_answered", _stamped)),
        LATE,
    ),
    "confirmed-after-the-release": Ablation(
        "GM3",
        ((MemberState, "is_past", never), (MemberState, "has", always)),
        LATE,
    ),
    "fenced-and-gone": Ablation("G5", ((Coordinating, "_fence", _fenced_and_gone),), SLOW),
    "fenced-and-believing": Ablation("GM4", ((GroupMember, "_drop", _believes_on),), SLOW),
    "not-claimed": Ablation(
        "GO1",
        ((Participant, "_claim", _read_only), (offsets, "_after", _unclaimed)),
        CONSUMERS,
    ),
    "commits-with-any-token": Ablation("GO2", ((offsets, "_after", _unfenced),), CONSUMERS),
    "kafka-generations-unchecked": Ablation("KG3", ((KafkaGroup, "is_past", never),), KAFKA),
    "kafka-not-claimed": Ablation(
        "KG4",
        ((KafkaMember, "_claim", _claim_nothing), (offsets, "_after", _unclaimed)),
        KAFKA,
    ),
    "a-gap-between-leaders": Ablation("G4", ((reconciling, "PASSES", {"": _not_both}),), BOTH),
}
