"""Actors in roles and in consumer groups, each with a machine of `docstore/sessions/member.py`."""

from typing import Any

from docstore.model import json
from docstore.model.operation import ANY_TOMBSTONE, Answer, Conditions, Operation
from docstore.ownership.by_induction import Acquired, Event, Fenced, Mode, Revoked
from docstore.services.group_document import GROUPS, GroupState, MemberDetails, Settings
from docstore.services.offsets import nothing_read, offset_link
from docstore.sessions.group_messages import (
    Again,
    Changed,
    Leave,
    Pulse,
    Refused,
    Reply,
    Request,
    Wait,
    kind_of,
    reply_of,
)
from docstore.sessions.member import GroupMember
from docstore.sessions.member_events import (
    Answered,
    Ended,
    Finished,
    LeaveAsked,
    MemberEvent,
    Report,
    SendRequest,
    Tick,
)
from docstore.wire.sessions_messages import Reply as NodeReply
from tests.sim.actors import Actor, Query, Sent, is_settled
from tests.sim.clocks import RATE_ERROR
from tests.sim.groups_invariants import gap_s
from tests.sim.sessions_shapes import Shape

AGAIN_S = 0.2
WAIT_S = 20.0
LATE_MAX_S = 3.0
"""Greatest delay of a write that is late on purpose."""


def settings_for(shape: Shape) -> Settings:
    """Return the times of a shape's groups."""
    session_ms, mode = shape.ttl_ms, Mode(shape.mode)
    slower, faster = 1.0 - RATE_ERROR, 1.0 + RATE_ERROR
    exclusive_ms = int(session_ms * slower / faster * 0.999 if shape.is_tight else session_ms / 2)
    return Settings(
        mode=mode,
        session_ms=session_ms,
        heartbeat_ms=session_ms // shape.beats,
        window_ms=exclusive_ms if mode is Mode.EXCLUSIVE else session_ms * 3,
        revoke_ms=session_ms,
    )


class Participant(Actor):
    """One process that takes part in a group; it leaves, and comes back, now and then."""

    def __init__(self, name: str, arena: Any, shape: Shape, link: str) -> None:
        super().__init__(name, arena)
        self.shape = shape
        self.link = link
        self.is_of_consumers = link.startswith(f"{GROUPS}/")
        self.member: GroupMember | None = None
        self._ids = 0
        self._ticks = 0
        self._committed: dict[str, int] = {}
        """partition -> the offset that is to be committed next."""

    def beliefs(self) -> list[str]:
        """Return the partitions that it leads, where only one member may lead."""
        return self.led() if self.shape.mode == "exclusive" else []

    def led(self) -> list[str]:
        """Return what it believes to lead at this moment."""
        member, now = self.member, self.clock.now()
        if member is None or member.induced is None:
            return []
        led = [each for each in member.induced.held if member.induced.leads_partition(each, now)]
        return [f"{self.link}#{member.name_of(each)}" for each in led]

    def excuse(self, seconds: float) -> None:
        """Allow a gap for this time, followed by one as after a crash."""
        self.arena.watch.of_groups.excuse(seconds + gap_s(self.shape.ttl_ms / 1000))

    # Lives

    def begin(self) -> None:
        """Create the group unless it exists, and join it."""
        self.member = None
        topics = {"t": self.shape.partitions} if self.is_of_consumers else {}
        parts = topics or {"": self.shape.partitions}
        group = GroupState(parts=parts, settings=settings_for(self.shape))
        operation = Operation(
            verb="POST", link=self.link, body=group.pack(), recreate_below=ANY_TOMBSTONE
        )
        self.submit(operation, self._there)

    def _there(self, answer: Answer | None) -> None:
        if not is_settled(answer):
            self.later(AGAIN_S, self.begin)
            return
        instance = self.name if self.shape.instances else ""
        self.member = GroupMember(self._new_id, MemberDetails(instance=instance))
        self._feed(Tick())
        if self.rng.random() < 0.6 and self.world.now < self.shape.faults_s:
            self.later(0.5 + self.rng.random() * self.shape.leaves_s, self._leave, self.member)

    def _new_id(self) -> str:
        self._ids += 1
        return f"{self.name}.{self.life}.{self._ids}"

    def _leave(self, member: GroupMember) -> None:
        if self.member is member and self.world.now < self.shape.faults_s:
            drain = self.rng.random() < 0.5
            if not drain:
                self.excuse(settings_for(self.shape).revoke_ms / 1000)
            self._feed(LeaveAsked(drain))

    # The machine

    def _feed(self, event: MemberEvent) -> None:
        member = self.member
        if member is None:
            return
        for effect in member.step(event, self.clock.now()):
            match effect:
                case SendRequest():
                    self._say(member, effect)
                case Report(happening):
                    self._happened(member, happening)
                case Ended(why):
                    self.arena.watch.count(f"member {why}")
                    self.member = None
                    self.later(self.rng.random() * 2.0, self.begin)
        if self.member is member:
            self._ticks += 1
            self.at(min(member.next_at(self.clock.now()), self.clock.now() + 60), self._tick,
                    self._ticks)  # fmt: skip

    def _tick(self, tick: int) -> None:
        if tick == self._ticks:
            self._feed(Tick())

    def _say(self, member: GroupMember, said: SendRequest) -> None:
        request = said.request
        kind = kind_of(self.link, type(request).__name__.lower())
        argument: list[Any] = list(request)
        timeout_s = self.shape.ttl_ms / 4000 if isinstance(request, Pulse) else 2.0
        if isinstance(request, Wait):
            argument.append(int(WAIT_S * 1000))
            timeout_s = WAIT_S + 1.0
        if isinstance(request, Leave):
            self.arena.watch.of_groups.leaves(request.member)
            timeout_s = 5.0
        if type(request).__name__ == "Join" and request.former:
            self.arena.watch.of_groups.leaves(request.former)
        self.ask(
            Query(self.link, kind, argument, timeout_s),
            lambda told, sent: self._told(member, said.number, request, (told, sent)),
            link=self.link,
        )

    def _told(
        self,
        member: GroupMember,
        number: int,
        request: Request,
        what: tuple[NodeReply | None, Sent],
    ) -> None:
        told, sent = what
        if self.member is not member:
            return
        reply = _reply_of(told)
        if isinstance(reply, Again):
            self.arena.watch.count("lists_asked_for")
        if isinstance(reply, Changed) and reply.generation < member.generation and reply.assigned:
            self.arena.watch.count("late_grants")
        if isinstance(request, Pulse) and type(reply).__name__ in ("Confirmed", "Changed"):
            self.arena.watch.of_groups.pulsed(request.member, self.shape.ttl_ms / 1000, sent)
        self._feed(Answered(number, reply, sent.stamp))

    # Work under a tenure

    def _happened(self, member: GroupMember, happening: Event) -> None:
        partition = member.name_of(happening.partition)
        why = f" {happening.why}" if isinstance(happening, Fenced) else ""
        self.arena.watch.count(f"{type(happening).__name__.lower()}{why}")
        if isinstance(happening, Revoked):
            slow = self.rng.random() < self.shape.slowpokes
            most_s = self.shape.ttl_ms / 1000 * 2.0 if slow else 0.1
            self.later(self.rng.random() * most_s, self._finish, member, partition)
        elif isinstance(happening, Acquired):
            if self.is_of_consumers:
                self._claim(member, partition, happening.token)
            else:
                self.later(self.rng.random() * 0.3, self._write, member, partition,
                           happening.token)  # fmt: skip

    def _finish(self, member: GroupMember, partition: str) -> None:
        if self.member is member:
            self._feed(Finished(partition))

    def _leads(self, member: GroupMember, partition: str, token: int) -> bool:
        if self.member is not member or member.induced is None:
            return False
        place = member.place_of(partition)
        is_same = member.induced.held.get(place) == token
        return is_same and member.induced.leads_partition(place, self.clock.now())

    def _write(self, member: GroupMember, partition: str, token: int) -> None:
        """Write to a guarded document; the write may be late, and this process may be over."""
        if not self._leads(member, partition, token):
            return
        link = f"/t/{self.rng.randrange(self.shape.guarded)}"
        scope = f"{self.link.removeprefix('/core/')}/{partition}"
        state = json.dump({"by": self.name})
        operation = Operation(verb="PUT", link=link, body=state, creates=True, fence=(scope, token))
        late_s = self.rng.choice((0.0, self.rng.random() * LATE_MAX_S))
        self.arena.write_late(operation, late_s)
        self.later(0.2 + self.rng.random() * 1.0, self._write, member, partition, token)

    # Offsets

    def _claim(self, member: GroupMember, partition: str, token: int) -> None:
        """Claim an offset under a new tenure: the answer is where to begin."""
        if self._leads(member, partition, token):
            change = {"kind": "ClaimRequest", "token": token, "member": member.id}
            self._change(
                partition, change, lambda answer: self._claimed(member, partition, token, answer)
            )

    def _change(self, partition: str, change: dict[str, Any], then: Any) -> None:
        link = offset_link(self.link, partition)
        operation = Operation(verb="PATCH", link=link, body=json.dump(change), media="handler")

        def told(answer: Answer | None) -> None:
            if answer is not None and answer.status == 404:
                state, absent = json.dump(nothing_read()), Conditions(none_match="*")
                made = Operation(verb="PUT", link=link, body=state, conditions=absent, creates=True)
                self.submit(made, lambda answer: then(None))
            else:
                then(answer)

        self.submit(operation, told)

    def _claimed(
        self, member: GroupMember, partition: str, token: int, answer: Answer | None
    ) -> None:
        if not is_settled(answer):
            self.later(AGAIN_S, self._claim, member, partition, token)
        elif answer is not None and answer.is_success and answer.row is not None:
            offset = json.load(answer.row.state)["offset"]
            self.arena.watch.of_groups.claimed(offset_link(self.link, partition), token, offset)
            self._commit(member, partition, token, offset + 1)

    def _commit(self, member: GroupMember, partition: str, token: int, offset: int) -> None:
        """Commit how far it has read, again and again."""
        if not self._leads(member, partition, token):
            return
        change = {"kind": "CommitRequest", "token": token, "offset": offset, "member": member.id}

        def told(answer: Answer | None) -> None:
            if answer is not None and answer.is_success:
                link = offset_link(self.link, partition)
                self.arena.watch.of_groups.committed(link, token, offset)
            if not is_settled(answer) or (answer is not None and answer.is_success):
                after_s = 0.1 + self.rng.random() * 0.5
                self.later(after_s, self._commit, member, partition, token, offset + 1)

        self._change(partition, change, told)


def _reply_of(told: NodeReply | None) -> Reply | None:
    """Return the reply to a member, None if it is unknown."""
    if told is None or told.status >= 500:
        return None
    if told.status >= 300:
        return Refused(told.status, told.code, told.detail)
    return reply_of(told.result)
