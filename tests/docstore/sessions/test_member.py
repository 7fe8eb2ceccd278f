"""A member's rules (GM1 to GM6), one reply at a time: late, lost, and out of order."""

from itertools import count

from docstore.ownership.by_induction import Acquired, Fenced, Revoked
from docstore.services.group_document import MemberDetails, Settings
from docstore.sessions import group_messages as messages
from docstore.sessions.group_messages import (
    Again,
    Changed,
    Confirmed,
    Join,
    Joined,
    Leave,
    Left,
    Pulse,
    Refused,
    Reply,
    Wait,
    Woken,
)
from docstore.sessions.member import GroupMember
from docstore.sessions.member_events import (
    Answered,
    Ended,
    Finished,
    LeaveAsked,
    MemberEffect,
    MemberEvent,
    Report,
    SendRequest,
    Tick,
)

SETTINGS = Settings()
"""S = 6 s, H = 0.75 s, T = 3 s."""


class Alone:
    """A member whose requests only the test reads."""

    def __init__(self) -> None:
        ids = count()
        self.member = GroupMember(lambda: f"m{next(ids)}", MemberDetails())
        self.now = 10.0
        self.sent: list[SendRequest] = []
        self.reports: list[object] = []
        self.feed(Tick())

    def feed(self, event: MemberEvent) -> list[MemberEffect]:
        effects = self.member.step(event, self.now)
        self.sent += [each for each in effects if isinstance(each, SendRequest)]
        self.reports += [each.happening for each in effects if isinstance(each, Report)]
        self.reports += [each for each in effects if isinstance(each, Ended)]
        return effects

    def at(self, now: float) -> "Alone":
        self.now = now
        self.feed(Tick())
        return self

    def last(self, kind: type) -> SendRequest:
        return next(each for each in reversed(self.sent) if isinstance(each.request, kind))

    def pulse(self) -> Pulse:
        request = self.last(Pulse).request
        assert isinstance(request, Pulse)
        return request

    def answer(
        self, reply: Reply | None, sent: SendRequest | None = None, stamp: float = -1.0
    ) -> None:
        """Answer the last request or an earlier one, as sent at `stamp` or just now."""
        number = (sent or self.last(Pulse)).number
        self.feed(Answered(number, reply, self.now if stamp < 0 else stamp))

    def leads(self, partition: int = 0) -> bool:
        induced = self.member.induced
        return induced is not None and induced.leads_partition(partition, self.now)


def joined() -> Alone:
    alone = Alone()
    assert alone.sent[-1].request == Join("m0", MemberDetails())
    alone.answer(Joined(1, SETTINGS.state(), {"": 2}), alone.sent[-1])
    assert alone.pulse() == Pulse("m0", alone.sent[-1].number, 1, 1, ())
    return alone


def leading() -> Alone:
    """Return a member that leads partition 0 under token 7, of generation 1."""
    alone = joined()
    alone.answer(Changed(1, {"0": 7}))
    alone.answer(Confirmed(2))
    assert alone.leads()
    return alone


def test_m1_a_proof_counts_from_the_sending_of_its_pulse() -> None:
    alone = leading().at(11.0)
    sent = alone.last(Pulse)
    alone.now = 13.5
    alone.answer(Confirmed(2), sent, stamp=11.0)
    assert alone.leads()
    alone.now = 14.1
    assert not alone.leads()


def test_m2_an_assignment_makes_no_leader_before_it_is_confirmed() -> None:
    alone = joined()
    alone.answer(Changed(1, {"0": 7}))
    assert not alone.leads()
    assert alone.reports == []
    assert alone.pulse().owned == ("0",), "the partition is not claimed at once"
    alone.answer(Confirmed(2))
    assert alone.reports == [Acquired(0, 7)]
    assert alone.leads()


def test_m2_a_reply_to_a_pulse_that_does_not_list_a_partition_proves_nothing() -> None:
    alone = joined()
    early = alone.last(Pulse)
    alone.at(10.8)  # Another pulse, of the same list.
    alone.answer(Changed(1, {"0": 7}), early)
    again = alone.sent[-2]
    assert isinstance(again.request, Pulse)
    alone.answer(Changed(1, {"0": 7}), again)
    assert not alone.leads()


def test_m2_a_reply_with_another_token_proves_nothing() -> None:
    alone = joined()
    alone.answer(Changed(1, {"0": 7}))
    alone.answer(Changed(2, {"0": 9}))
    assert not alone.leads()
    alone.answer(Confirmed(3))
    assert alone.reports == [Acquired(0, 9)]


def test_m3_replies_to_pulses_before_a_release_are_ignored() -> None:
    alone = leading()
    alone.at(10.8)
    early = alone.last(Pulse)
    alone.at(11.6)
    later = alone.last(Pulse)
    alone.answer(Changed(2, {}, revoked=("0",)), later)
    alone.feed(Finished("0"))
    assert alone.pulse().owned == ()
    for reply in (Changed(2, {"0": 7}), Confirmed(2)):
        alone.answer(reply, early)
        assert alone.pulse().owned == (), "the released partition is claimed"
        assert not alone.leads()


def test_m3_a_proof_from_before_a_release_does_not_count_after_it() -> None:
    alone = leading()
    alone.at(10.8)
    early = alone.last(Pulse)
    alone.at(11.6)
    alone.answer(Changed(2, {}, revoked=("0",)))
    alone.feed(Finished("0"))
    alone.answer(Changed(2, {"0": 9}))
    assert alone.pulse().owned == ("0",)
    alone.answer(Confirmed(2), early)
    assert not alone.leads()


def test_m3_assignments_of_an_older_generation_are_ignored_and_their_proofs_count() -> None:
    alone = leading()
    alone.at(10.8)
    early = alone.last(Pulse)
    alone.at(11.6)
    alone.answer(Changed(3, {"0": 7}))
    alone.answer(Changed(2, {"0": 7, "1": 8}), early, stamp=12.9)
    assert "1" not in (alone.pulse().owned or ())
    alone.now = 15.8
    assert alone.leads(), "by the proof of 12.9"


def test_m4_a_fenced_member_drops_everything_and_joins_with_a_new_id() -> None:
    alone = leading()
    alone.reports.clear()
    alone.answer(messages.Fenced("fenced"), alone.last(Wait))
    assert alone.reports == [Fenced(0, 7, "fenced")]
    assert not alone.leads()
    assert alone.sent[-1].request == Join("m1", MemberDetails(), "m0")


def test_m4_replies_to_an_earlier_id_are_ignored() -> None:
    alone = leading()
    alone.at(10.8)
    early = alone.last(Pulse)
    alone.answer(messages.Fenced("unknown"), alone.last(Wait))
    alone.answer(Joined(2, SETTINGS.state(), {"": 2}), alone.last(Join))
    alone.answer(Confirmed(2), early)
    assert not alone.leads()


def test_m5_a_lapsed_proof_is_reported_by_a_timer_and_returns_as_the_same_tenure() -> None:
    alone = leading()
    alone.reports.clear()
    assert alone.at(13.2).reports == [Fenced(0, 7, "silent")]
    alone.answer(Confirmed(2))
    assert alone.reports == [Fenced(0, 7, "silent"), Acquired(0, 7)]


def test_a_revoked_partition_is_not_led_and_stays_listed_until_finished() -> None:
    alone = leading().at(11.0)
    alone.answer(Changed(2, {}, revoked=("0",)))
    assert isinstance(alone.reports[-1], Revoked)
    assert not alone.leads()
    assert alone.pulse().owned is None, "the list is the same"
    assert alone.pulse().generation == 2
    alone.feed(Finished("0"))
    assert alone.pulse().owned == ()


def test_the_barrier_lasts_while_the_coordinator_confirms_it() -> None:
    alone = leading().at(11.0)
    alone.answer(Changed(2, {}, revoked=("0",)))
    revoked = alone.reports[-1]
    assert isinstance(revoked, Revoked)
    alone.at(12.9)
    alone.answer(Changed(2, {}, revoked=("0",)))
    assert revoked.protected(15.8)
    alone.feed(Finished("0"))
    assert not revoked.protected(12.9)


def test_a_lost_partition_is_dropped_at_once_without_a_release() -> None:
    alone = leading().at(11.0)
    alone.answer(Changed(2, {}, lost=("0",)))
    assert isinstance(alone.reports[-1], Revoked)
    assert alone.pulse().owned == ()


def test_a_kept_partition_is_proven_under_its_token() -> None:
    alone = leading().at(12.9)
    alone.answer(Changed(2, {}, kept=("0",)))
    alone.now = 15.8
    assert alone.leads()
    assert alone.reports == [Acquired(0, 7)]


def test_a_list_is_sent_once_and_again_on_demand() -> None:
    alone = leading().at(11.0)
    assert alone.pulse().owned is None
    alone.answer(Again())
    assert alone.pulse().owned == ("0",)
    assert alone.leads()


def test_a_pulse_is_sent_every_heartbeat_answered_or_not() -> None:
    alone = leading()
    numbers = [alone.at(10.0 + 0.76 * step).pulse().number for step in range(1, 5)]
    assert len(set(numbers)) == 4


def test_a_woken_member_sends_a_pulse_and_waits_again_after_its_reply() -> None:
    alone = leading()
    waiting = alone.last(Wait)
    before = alone.pulse()
    alone.answer(Woken(), waiting)
    assert alone.pulse() != before
    assert alone.last(Wait) is waiting
    alone.answer(Confirmed(2))
    assert alone.last(Wait) is not waiting


def test_a_join_is_resent_until_it_is_answered() -> None:
    alone = Alone()
    join = alone.last(Join)
    alone.answer(None, join)
    assert alone.at(10.3).last(Join).request == join.request
    alone.answer(Refused(503, "no-owner", ""), alone.last(Join))
    assert alone.at(10.6).last(Join).request == join.request


def test_a_refusal_ends_the_membership_and_all_leads() -> None:
    alone = leading()
    alone.answer(Refused(404, "no-such-group", "there is no such group"), alone.last(Wait))
    assert alone.reports[-2:] == [Fenced(0, 7, "left"), Ended("there is no such group")]
    assert not alone.leads()
    assert alone.member.next_at(alone.now) == float("inf")


def test_m6_a_leaving_member_leads_nothing_and_leaves_after_its_callbacks() -> None:
    alone = leading()
    early = alone.last(Pulse)
    effects = alone.feed(LeaveAsked())
    assert [type(each) for each in effects] == [Report]
    assert isinstance(alone.reports[-1], Revoked)
    alone.answer(Confirmed(2), early)
    assert not alone.leads()
    alone.at(11.0).answer(Changed(1, {"0": 7, "1": 8}))
    assert alone.pulse().owned is None, "a leaving member claims a partition"
    alone.feed(Finished("0"))
    assert alone.sent[-1].request == Leave("m0")
    alone.answer(None, alone.last(Leave))
    assert alone.at(11.3).sent[-1].request == Leave("m0")
    alone.answer(Left(), alone.last(Leave))
    assert alone.reports[-1] == Ended("left")


def test_m6_a_leaving_member_waits_for_callbacks_up_to_revoke_ms() -> None:
    alone = leading()
    alone.feed(LeaveAsked())
    revoked = alone.reports[-1]
    assert isinstance(revoked, Revoked)
    while alone.now < 15.0:
        alone.at(alone.now + 0.75).answer(Confirmed(2))
    assert not [each for each in alone.sent if isinstance(each.request, Leave)]
    assert revoked.protected(alone.now)
    assert alone.at(16.0).sent[-1].request == Leave("m0")
    assert not revoked.protected(alone.now)


def test_m6_a_callback_that_ends_after_the_leave_sends_no_pulse() -> None:
    alone = joined()
    alone.answer(Changed(1, {"0": 7, "1": 7}))
    alone.answer(Confirmed(2))
    alone.at(11.0)
    alone.answer(Changed(2, {"1": 7}, revoked=("0",)))
    alone.feed(LeaveAsked())
    alone.feed(Finished("0"))
    assert alone.pulse().owned == ("1",)
    alone.at(17.0)
    assert alone.sent[-1].request == Leave("m0")
    pulses = [each for each in alone.sent if isinstance(each.request, Pulse)]
    alone.feed(Finished("1"))
    alone.at(18.0)
    assert [each for each in alone.sent if isinstance(each.request, Pulse)] == pulses


def test_m4_partitions_and_times_are_those_of_the_last_join() -> None:
    alone = leading()
    alone.answer(messages.Fenced("unknown"), alone.last(Wait))
    shorter = Settings(session_ms=2_000, heartbeat_ms=250, window_ms=1_000)
    alone.answer(Joined(1, shorter.state(), {"": 3}), alone.last(Join))
    alone.answer(Changed(1, {"0": 9}))
    alone.answer(Confirmed(2))
    induced = alone.member.induced
    assert induced is not None
    assert [role for role in range(6) if induced.leads(role, alone.now)] == [0, 3]
    alone.now += 1.1
    assert not alone.leads()


def test_a_draining_member_leads_until_it_has_left() -> None:
    alone = leading()
    alone.feed(LeaveAsked(drain=True))
    assert alone.last(Leave).request == Leave("m0", drain=True)
    assert alone.leads()
    alone.at(11.0)
    alone.answer(Changed(2, {}, lost=("0",)))
    alone.answer(Left(), alone.last(Leave))
    assert alone.reports[-1] == Ended("left")


def test_a_member_asks_for_its_next_tick_in_the_future() -> None:
    alone = leading()
    for step in range(60):
        alone.at(10.0 + step * 0.1)
        assert alone.member.next_at(alone.now) > alone.now
