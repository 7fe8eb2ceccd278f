"""The member's side of groups and roles. `step(event, now)` returns what to send and report.

GM1 The sender reads the stamp of a request just before its bytes leave, and hands it back.
GM2 The member leads a partition only after a reply to a pulse whose list had the partition: claim,
   then confirm. So a late reply with a grant makes no leader.
GM3 Once a partition was released, replies to earlier pulses say nothing about it. Assignments of a
   generation below the known one are ignored; a proof in such a reply counts.
GM4 A member that is fenced, or unknown, first drops everything, reports it, and joins again. It
   uses the partitions and times of the newest join.
GM5 Proofs that lapse without a reply are reported as Fenced("silent"); confirmed again, as Acquired
   with the same token, since it is the same tenure.
GM6 A member that leaves leads nothing from then on, claims nothing, and sends its leave once the
   work on all its partitions has finished, or revokeMs is over. Until then it pulses on.

A revoked partition stays in the list, and so behind the barrier, until the work on it has finished
(`Finished`). See `coordinating.py` for the other side of the wire.
"""

from collections.abc import Callable
from typing import assert_never

from docstore.model.fields import Fields
from docstore.ownership.by_induction import Induced
from docstore.services.group_document import MemberDetails, Settings, settings_of
from docstore.sessions import group_messages as messages
from docstore.sessions import member_events as events
from docstore.sessions.member_state import MemberState, SentPulse

RETRY_S = 0.25
"""Pause between two attempts of an unanswered join or leave; pulses have their own interval."""
UNANSWERED_MAX = 16
"""Number of pulses whose replies are still accepted; a reply to an older pulse is ignored."""
NEVER = float("inf")
AT_ONCE = float("-inf")


class GroupMember:
    """Member of one group, for one process."""

    def __init__(self, new_id: Callable[[], str], about: MemberDetails) -> None:
        """new_id: returns an id that no other process makes; called again after each fencing."""
        self._new_id = new_id
        self._about = about
        self._me = MemberState(new_id())
        self._numbers = 0
        self._asking: dict[int, messages.Request] = {}
        self._pulse_at = NEVER
        self._say_at = AT_ONCE
        self._wait_at = NEVER
        self._leaving: messages.Leave | None = None
        self._leave_by = NEVER
        """Time at which to leave even if work has not finished; NEVER unless it leaves."""
        self._is_over = False
        self.settings: Settings | None = None
        self.induced: Induced | None = None
        """Partitions that it leads, which any thread may read; None until it has joined once."""
        self._places: dict[str, int] = {}
        self._names: dict[int, str] = {}

    # Queries

    @property
    def id(self) -> str:
        """Return the id under which this process takes part."""
        return self._me.id

    @property
    def generation(self) -> int:
        """Return the newest known generation; -1 while it is not a member."""
        return self._me.generation

    def name_of(self, place: int) -> str:
        """Return the name of a partition from its place in the vector."""
        return self._names[place]

    def place_of(self, partition: str) -> int:
        """Return the place of a partition in the vector; for a role, the partition's number."""
        place = self._places.get(partition)
        if place is None:
            is_number = partition.isascii() and partition.isdecimal()
            place = int(partition) if is_number else len(self._places)
            self._places[partition] = place
            self._names[place] = partition
        return place

    def next_at(self, now: float) -> float:
        """Return when the next Tick is due."""
        if self._is_over:
            return NEVER
        lapse = NEVER if self.induced is None else self.induced.next_at(now)
        wait_at = self._wait_at if self._me.is_listed else NEVER
        return min(lapse, self._pulse_at, self._say_at, wait_at, self._leave_by)

    # Events

    def step(self, event: events.MemberEvent, now: float) -> list[events.MemberEffect]:
        """Return the effects of an event, in the order in which they must be performed."""
        effects: list[events.MemberEffect] = []
        if self.induced is not None:
            effects += map(events.Report, self.induced.lapsed(now))
        if self._is_over:
            return effects
        match event:
            case events.Answered(number, reply, stamp):
                effects += self._answered(number, reply, stamp, now)
            case events.Finished(partition):
                self._finish(partition)
            case events.LeaveAsked(drain):
                effects += self._leave(now, drain=drain)
            case events.Tick():
                pass
            case _:
                assert_never(event)
        return [*effects, *self._due(now)]

    def _due(self, now: float) -> list[events.MemberEffect]:
        if self._is_over:
            return []
        says: list[events.MemberEffect] = []
        is_done = self._is_departing and not self._me.revoking
        if is_done or self._leave_by <= now:
            says += self._depart()
        if self._say_at <= now:
            self._say_at = NEVER  # No repetition before the outcome is known.
            join = messages.Join(self._me.id, self._about, self._me.former)
            says.append(self._say(self._leaving or join))
        if self._pulse_at <= now:
            says.append(self._pulse(now))
        if self._wait_at <= now and self._me.is_listed:
            self._wait_at = NEVER
            says.append(
                self._say(messages.Wait(self._me.id, self._me.generation, self._me.listing))
            )
        return says

    def _say(self, request: messages.Request) -> events.SendRequest:
        self._numbers += 1
        self._asking[self._numbers] = request
        return events.SendRequest(self._numbers, request)

    def _pulse(self, now: float) -> events.SendRequest:
        assert self.settings is not None
        me = self._me
        self._pulse_at = now + self.settings.heartbeat_ms / 1000
        owned = None if me.is_listed else tuple(me.owned)
        number = self._numbers + 1
        said = self._say(
            messages.Pulse(me.id, number, me.generation, me.listing, owned, me.answered)
        )
        me.sent[said.number] = SentPulse(said.number, me.listing, me.owned)
        if len(me.sent) > UNANSWERED_MAX:
            oldest = next(iter(me.sent))
            del me.sent[oldest], self._asking[oldest]
        return said

    # Replies

    def _answered(  # Tests replace this.
        self, number: int, reply: messages.Reply | None, stamp: float, now: float
    ) -> list[events.MemberEffect]:
        asked = self._asking.pop(number, None)
        if asked is None:
            return []  # The request was sent before this process was fenced, or too long ago.
        sent = self._me.sent.pop(number, None)
        match reply:
            case None:
                self._ask_again(asked, now)
            case messages.Refused(status, _, detail):
                if status < 500:
                    return self._over(detail)
                self._ask_again(asked, now)
            case messages.Again():
                self._me.is_listed = False
                self._pulse_at = AT_ONCE
            case messages.Woken():
                self._pulse_at = AT_ONCE  # The reply to that pulse begins the next wait.
            case messages.Joined():
                self._joined(reply)
            case messages.Confirmed() | messages.Changed():
                assert sent is not None
                return self._pulsed(sent, reply, stamp, now)
            case messages.Left():
                return self._over("left")
            case messages.Fenced(why):
                return self._fenced(why)
            case _:
                assert_never(reply)
        return []

    def _ask_again(self, asked: messages.Request, now: float) -> None:
        if isinstance(asked, messages.Wait):
            self._wait_at = NEVER if self._is_departing else now + RETRY_S
        elif not isinstance(asked, messages.Pulse):
            self._say_at = now + RETRY_S

    def _joined(self, reply: messages.Joined) -> None:
        self.settings = settings_of(Fields(dict(reply.settings)))
        self.induced = Induced(reply.parts.get("", 1 << 30), self.settings.windows())
        self._me.generation = max(self._me.generation, reply.generation)
        self._pulse_at = AT_ONCE

    def _pulsed(
        self,
        sent: SentPulse,
        reply: messages.Confirmed | messages.Changed,
        stamp: float,
        now: float,
    ) -> list[events.MemberEffect]:
        assert self.induced is not None
        me = self._me
        me.is_listed = me.is_listed or sent.listing == me.listing
        me.answered = max(me.answered, sent.number)
        is_waiting = any(isinstance(each, messages.Wait) for each in self._asking.values())
        self._wait_at = NEVER if is_waiting or self._is_departing else AT_ONCE
        told: list[events.MemberEffect] = []
        for partition, token in sent.owned.items():
            is_ours = me.has(partition, token) and not me.is_past(partition, sent.number)
            if is_ours and self._proves(reply, partition, token):
                place = self.place_of(partition)
                told += map(events.Report, self.induced.confirmed(place, token, stamp, now))
        if isinstance(reply, messages.Changed) and reply.generation >= me.generation:
            told += self._changed(sent, reply)
        return told

    def _proves(
        self, reply: messages.Confirmed | messages.Changed, partition: str, token: int
    ) -> bool:
        """Say whether a reply proves a partition that was in the pulse's list."""
        if isinstance(reply, messages.Confirmed):
            return True
        is_to_stay = reply.assigned.get(partition) == token or partition in reply.kept
        # A reply that revokes a partition only extends its barrier.
        return is_to_stay or (partition in self._me.revoking and partition in reply.revoked)

    def _changed(
        self, sent: SentPulse, reply: messages.Changed
    ) -> list[events.MemberEffect]:  # Tests replace this.
        me = self._me
        before, generation = me.owned, me.generation
        me.generation = reply.generation
        told: list[events.MemberEffect] = []
        for partition in (*reply.revoked, *reply.lost):
            if partition in me.claims and not me.is_past(partition, sent.number):
                told += self._revoke(partition)
        for partition in reply.lost:
            if not me.is_past(partition, sent.number):
                self._finish(partition)
        for partition, token in reply.assigned.items():
            is_new = partition not in me.revoking and not me.is_past(partition, sent.number)
            if is_new and not self._is_departing:
                me.claims[partition] = token
        if me.owned != before:
            me.relist()
        if me.owned != before or me.generation != generation:
            self._pulse_at = AT_ONCE
        return told

    # Giving up partitions

    def _revoke(self, partition: str) -> list[events.MemberEffect]:
        assert self.induced is not None
        self._me.revoking[partition] = self._me.claims.pop(partition)
        told = self.induced.revoked(self.place_of(partition))
        if not told:
            # The partition was claimed but never led, so no work has to finish.
            self._finish(partition)
        return [events.Report(each) for each in told]

    def _finish(self, partition: str) -> None:
        """Remove a partition from the list; the next pulse releases it."""
        me = self._me
        if me.revoking.pop(partition, None) is None:
            return
        assert self.induced is not None
        self.induced.released(self.place_of(partition))
        me.released[partition] = self._numbers + 1
        me.relist()
        self._pulse_at = AT_ONCE

    def _fenced(self, why: str) -> list[events.MemberEffect]:
        told = self._drop(why)
        if self._leaving is not None:
            return [*told, *self._over("left")]
        self._me = MemberState(self._new_id(), former=self._me.id)
        self._asking.clear()
        self._say_at, self._pulse_at, self._wait_at = AT_ONCE, NEVER, NEVER
        return told

    @property
    def _is_departing(self) -> bool:
        """Say whether this member leaves: it leads nothing, but work may still have to finish."""
        return self._leave_by < NEVER

    def _leave(self, now: float, *, drain: bool) -> list[events.MemberEffect]:
        is_member = self._me.generation >= 0
        self._leaving = messages.Leave(self._me.id, drain and is_member)
        if self._leaving.drain:
            self._say_at = AT_ONCE
            return []
        revoke_s = 0.0 if self.settings is None else self.settings.revoke_ms / 1000
        self._leave_by, self._wait_at = min(self._leave_by, now + revoke_s), NEVER
        return [told for each in tuple(self._me.claims) for told in self._revoke(each)]

    def _depart(self) -> list[events.MemberEffect]:
        """Send the leave, and drop the partitions whose work has not finished."""
        self._say_at = AT_ONCE
        self._asking.clear()
        for held in (self._me.sent, self._me.claims, self._me.revoking):
            held.clear()  # Work that finishes later must not cause a pulse.
        self._pulse_at = self._wait_at = self._leave_by = NEVER
        return self._drop("left")

    def _over(self, why: str) -> list[events.MemberEffect]:
        self._is_over = True
        return [*self._drop("left"), events.Ended(why)]

    def _drop(self, why: str) -> list[events.MemberEffect]:  # Tests replace this.
        return (
            []
            if self.induced is None
            else [events.Report(each) for each in self.induced.dropped(why)]
        )

    def drop_all(self) -> None:
        """Stop leading, as this process is a fork of the member's."""
        self._is_over = True
        self._drop("left")
