"""The phases of a group of Kafka clients: members join, the leader assigns, all is decided.

PreparingRebalance ends when all members have rejoined, or after the longest rebalance timeout
without those that have not. The first members of an empty group wait `FIRST_S` for more.
CompletingRebalance ends when the update with the leader's assignments is decided; members that do
not sync within the rebalance timeout are removed.
"""

from collections.abc import Callable
from typing import Any

from docstore.services.group_document import MEMBERS_MAX, SESSION_MS, TEXT_MAX, GroupState
from docstore.sessions.calling import Served
from docstore.sessions.core import Core
from docstore.sessions.deadlines import Deadlines
from docstore.sessions.kafka_group import (
    COMPLETING,
    EMPTY,
    PREPARING,
    STABLE,
    Change,
    KafkaGroup,
    KafkaMember,
    emptied,
    renamed,
)
from docstore.sessions.kafka_messages import Code, JoinAsked, Leaving, SyncAsked

FIRST_S = 0.5
METADATA_MAX = 16 << 20
"""Bytes of the metadata of a group's members, all of which the leader gets in one answer."""
NODE_MAX = 128 << 20
"""Bytes of metadata and assignments that a node keeps for all groups."""
CLIENT_MAX = 100
"""Characters of a client's name in the ids of its members."""

Key = tuple[str, str]
"""(link of the group, member)."""


class Joins:
    """Leads groups through their phases."""

    def __init__(
        self,
        core: Core,
        deadlines: Deadlines[Key],
        change: Callable[[KafkaGroup, Change], None],
    ) -> None:
        self._core = core
        self._deadlines = deadlines
        self._change = change
        self._timed: dict[str, KafkaGroup] = {}
        """Groups in a phase that ends by time."""
        self._weights: dict[str, int] = {}
        """Group -> bytes of its metadata and assignments."""
        self._weight = 0

    # Joins

    def asked(self, served: Served, group: KafkaGroup) -> None:
        """Admit a process to the next generation."""
        join = JoinAsked(*served.argument)
        fault = self._fault_of(group, join)
        if fault:
            answer(served, fault)
        elif join.member in group.pending:
            self._forget_id(group, join.member)
            self._admit(served, group, join.member, join)
        elif join.member:
            self._rejoin(served, group, group.members[join.member], join)
        else:
            self._join_anew(served, group, join)

    def _fault_of(self, group: KafkaGroup, join: JoinAsked) -> str:
        """Return why a join is refused, "" if it is not."""
        if not SESSION_MS[0] <= join.session_ms <= SESSION_MS[1]:
            return Code.SESSION_TIMEOUT
        static = group.instance(join.instance)
        former = join.member or ("" if static is None else static.id)
        if not group.is_ours or not join.type or not join.protocols:
            return Code.OTHER_PROTOCOL
        if not group.has_protocol(join, but=former):
            return Code.OTHER_PROTOCOL
        if join.member and join.member not in group.pending:
            return group.fault_of(join.member, join.instance)
        if not self._has_room(group, join, former):
            return Code.GROUP_FULL
        return ""

    def _has_room(self, group: KafkaGroup, join: JoinAsked, former: str) -> bool:
        others = [each for name, each in group.members.items() if name != former]
        own = sum(len(each) for _, each in join.protocols)
        size = sum(each.weight for each in others) + own
        texts = (join.instance, join.host, join.type, *(name for name, _ in join.protocols))
        return (
            len(others) + len(group.pending) - (join.member in group.pending) < MEMBERS_MAX
            and size <= METADATA_MAX
            and self._weight + own <= NODE_MAX
            and all(len(each) <= TEXT_MAX for each in texts)
        )

    def _join_anew(self, served: Served, group: KafkaGroup, join: JoinAsked) -> None:
        """Give a new process an id; a static one takes the place of the member before it."""
        named = "".join(
            each for each in join.client[:CLIENT_MAX] if each.isalnum() or each in "-_."
        )
        member = f"{named or 'kafka'}-{self._core.new_run():016x}"
        static = group.instance(join.instance)
        if static is not None:
            self._replace(served, group, static, KafkaMember.of(member, join), join)
        elif join.needs_id and not join.instance:
            group.pending.add(member)
            self._deadlines.grant((group.known.link, member), join.session_ms / 1000)
            answer(served, Code.MEMBER_ID_REQUIRED, member=member)
        else:
            self._admit(served, group, member, join)

    def _admit(self, served: Served, group: KafkaGroup, member: str, join: JoinAsked) -> None:
        group.members[member] = KafkaMember.of(member, join)
        group.type = join.type
        self._park(served, group, group.members[member])
        self._prepare(group)

    def _rejoin(
        self, served: Served, group: KafkaGroup, member: KafkaMember, join: JoinAsked
    ) -> None:
        """Take a member's join; it begins a rebalance unless it only repeats the one before."""
        is_repeated = member.is_same(join) and (
            group.phase is COMPLETING or (group.phase is STABLE and member.id != group.leader)
        )
        if is_repeated:
            self._deadlines.renew((group.known.link, member.id))
            answer(served, "", **group.joined(member))
            return
        after = group.members[member.id] = KafkaMember.of(member.id, join)
        after.joining, after.syncing = member.joining, member.syncing
        group.type = join.type
        self._park(served, group, after)
        self._prepare(group)

    def _replace(
        self,
        served: Served,
        group: KafkaGroup,
        former: KafkaMember,
        after: KafkaMember,
        join: JoinAsked,
    ) -> None:
        """Let a restarted static member go on in its place, with a new id.

        In a stable group with the same protocols this is no rebalance, but one update. The answer
        names the former id as the leader's, so that a restarted leader assigns nothing.
        """
        link, generation = group.known.link, group.generation
        is_quiet = group.phase is STABLE and former.is_same(join)
        after.assignment = former.assignment
        group.members = {
            after.id if name == former.id else name: after if name == former.id else each
            for name, each in group.members.items()
        }
        refuse_waiting(former, Code.FENCED_INSTANCE)
        self._deadlines.drop((link, former.id))
        self._deadlines.grant((link, after.id), after.session_s)
        if not is_quiet:
            self._park(served, group, after)
            self._prepare(group)
            return
        told = group.joined(after) | {"members": []}
        group.leader = after.id if group.leader == former.id else group.leader

        def rename(document: GroupState) -> GroupState | None:
            is_there = former.id in document.members and group.generation == generation
            return group.granted(renamed(document, former.id, after.id)) if is_there else None

        def then(is_done: bool) -> None:
            if is_done:
                answer(served, "", **told)
            else:
                answer(served, Code.REBALANCING)
                self._prepare(group)

        self._change(group, Change(rename, then))

    def _park(self, served: Served, group: KafkaGroup, member: KafkaMember) -> None:
        refuse_waiting(member, Code.REBALANCING)
        member.joining = served
        self._weigh(group)
        self._deadlines.grant((group.known.link, member.id), member.session_s)

    def _weigh(self, group: KafkaGroup) -> None:
        link, weight = group.known.link, sum(each.weight for each in group.members.values())
        self._weight += weight - self._weights.get(link, 0)
        self._weights[link] = weight

    # Phases

    def _prepare(self, group: KafkaGroup) -> None:
        """Begin the join phase, unless it has begun; end it if all members are there."""
        if group.phase is not PREPARING:
            for each in group.members.values():
                if each.syncing is not None:
                    answer(each.syncing, Code.REBALANCING)
                    each.syncing = None
            group.is_first = group.phase is EMPTY
            wait_s = FIRST_S if group.is_first else group.rebalance_s
            group.phase = PREPARING
            self._time(group, wait_s)
        if not group.is_first and not group.laggards():
            self._complete(group)

    def _complete(self, group: KafkaGroup) -> None:
        """End the join phase with the members that are there: they are the next generation."""
        for name in group.laggards():
            self._remove(group, name)
        group.generation = max(group.generation, group.document.generation) + 1
        group.is_deciding = False
        if not group.members:
            self._empty(group)
            return
        group.elect()
        group.phase = COMPLETING
        self._time(group, group.rebalance_s)
        for each in group.members.values():
            served, each.joining, each.assignment = each.joining, None, None
            self._deadlines.grant((group.known.link, each.id), each.session_s)
            assert served is not None
            answer(served, "", **group.joined(each))
        self._weigh(group)

    def _empty(self, group: KafkaGroup) -> None:
        group.phase, group.leader, group.protocol = EMPTY, "", ""
        self.forget(group.known.link)

        def empty(document: GroupState) -> GroupState | None:
            if document.kafka is None or group.members:
                return None
            return emptied(document, max(group.generation, document.generation + 1))

        self._change(group, Change(empty, lambda is_done: None))

    def sync(self, served: Served, group: KafkaGroup, sync: SyncAsked) -> None:
        """Answer with the member's assignment, or keep the call until it is decided."""
        fault = group.fault_of(sync.member, sync.instance, sync.generation)
        if not fault and (sync.type or group.type, sync.name or group.protocol) != (
            group.type,
            group.protocol,
        ):
            fault = Code.OTHER_PROTOCOL
        elif not fault and self._weight + sum(map(len, sync.assignments.values())) > NODE_MAX:
            fault = Code.GROUP_FULL
        if fault or group.phase is PREPARING:
            answer(served, fault or Code.REBALANCING)
            return
        member = group.members[sync.member]
        self._deadlines.renew((group.known.link, member.id))
        if group.phase is COMPLETING:
            if member.syncing is not None:
                answer(member.syncing, Code.REBALANCING)
            member.syncing = served
            if member.id == group.leader and not group.is_deciding:
                self._decide(group, sync)
        elif member.assignment is None:
            # Only the former coordinator had the assignments (rule KG5).
            answer(served, Code.REBALANCING)
            self._prepare(group)
        else:
            answer(served, "", **_assigned(group, member))

    def _decide(self, group: KafkaGroup, sync: SyncAsked) -> None:
        """Update the document with the leader's assignments, then answer all members."""
        group.is_deciding = True
        generation = group.generation

        def is_present() -> bool:
            return group.phase is COMPLETING and group.generation == generation

        def make(document: GroupState) -> GroupState | None:
            return group.decided(sync) if is_present() and group.is_ours else None

        def then(is_done: bool) -> None:
            if not is_present():
                return
            if not is_done:
                self._prepare(group)
                return
            group.phase = STABLE
            self.forget(group.known.link)
            self._assign(group, sync)
            for each in group.members.values():
                self._deadlines.renew((group.known.link, each.id))
                if each.syncing is not None:
                    answer(each.syncing, "", **_assigned(group, each))
                    each.syncing = None

        self._change(group, Change(make, then))

    def _assign(self, group: KafkaGroup, sync: SyncAsked) -> None:
        for each in group.members.values():
            each.assignment = sync.assignments.get(each.id, b"")
        self._weigh(group)

    # Ends

    def leave(self, group: KafkaGroup, leaving: Leaving) -> str:
        """Remove a member that leaves; return why it is none, "" if it was."""
        static = group.instance(leaving.instance)
        member = leaving.member or ("" if static is None else static.id)
        if member in group.pending:
            self._forget_id(group, member)
            return ""
        fault = group.fault_of(member, leaving.instance)
        if not fault:
            self._remove(group, member)
            self._prepare(group)
        return fault

    def expired(self, group: KafkaGroup, name: str) -> None:
        """Remove a silent member, or an id that no process has joined with.

        A member that waits for the end of the join phase sends no heartbeats.
        """
        if name in group.pending:
            self._forget_id(group, name)
            return
        member = group.members[name]
        if member.joining is not None:
            self._deadlines.grant((group.known.link, name), member.session_s)
            return
        self._remove(group, name)
        self._prepare(group)

    def tick(self) -> None:
        """End the phases whose time is over, without the members that have not answered."""
        for group in [each for each in self._timed.values() if each.ends_at <= self._core.heard_s]:
            if group.phase is PREPARING:
                group.is_first = False
                self._complete(group)
            elif late := group.laggards():
                for name in late:
                    self._remove(group, name)
                self._prepare(group)
            else:
                self._time(group, group.rebalance_s)  # The update is not decided yet.

    def left(self, link: str) -> None:
        """Drop a group of which this node is no longer the coordinator."""
        self.forget(link)
        self._weight -= self._weights.pop(link, 0)

    def forget(self, link: str) -> None:
        """Drop the end of a group's phase."""
        self._timed.pop(link, None)

    def _time(self, group: KafkaGroup, seconds: float) -> None:
        group.ends_at = self._core.heard_s + seconds
        self._timed[group.known.link] = group

    def _remove(self, group: KafkaGroup, name: str) -> None:
        member = group.members.pop(name)
        self._weigh(group)
        self._deadlines.drop((group.known.link, name))
        refuse_waiting(member, Code.UNKNOWN_MEMBER)

    def _forget_id(self, group: KafkaGroup, name: str) -> None:
        group.pending.discard(name)
        self._deadlines.drop((group.known.link, name))


def answer(served: Served, code: str, **more: Any) -> None:
    """Answer a call of a Kafka client. code: "" for success."""
    served.reply({"code": str(code), **more})


def refuse_waiting(member: KafkaMember, code: str) -> None:
    """Answer the calls of a member that wait."""
    for served in (member.joining, member.syncing):
        if served is not None:
            answer(served, code)
    member.joining = member.syncing = None


def _assigned(group: KafkaGroup, member: KafkaMember) -> dict[str, Any]:
    return {"type": group.type, "protocol": group.protocol, "assignment": member.assignment}
