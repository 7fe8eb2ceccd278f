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
        self.said: list[SendRequest] = []
        self.told: list[object] = []
        self.feed(Tick())

    def feed(self, event: MemberEvent) -> list[MemberEffect]:
        effects = self.member.step(event, self.now)
        self.said += [each for each in effects if isinstance(each, SendRequest)]
        self.told += [each.happening for each in effects if isinstance(each, Report)]
        self.told += [each for each in effects if isinstance(each, Ended)]
        return effects

    def at(self, now: float) -> "Alone":
        self.now = now
        self.feed(Tick())
        return self

    def last(self, kind: type) -> SendRequest:
        return next(each for each in reversed(self.said) if isinstance(each.request, kind))

    def pulse(self) -> Pulse:
        request = self.last(Pulse).request
        assert isinstance(request, Pulse)
        return request

    def answer(
        self, reply: Reply | None, said: SendRequest | None = None, stamp: float = -1.0
    ) -> None:
        """Answer the last request or an earlier one, as sent at `stamp` or just now."""
        number = (said or self.last(Pulse)).number
        self.feed(Answered(number, reply, self.now if stamp < 0 else stamp))

    def leads(self, partition: int = 0) -> bool:
        induced = self.member.induced
        return induced is not None and induced.leads_partition(partition, self.now)


def joined() -> Alone:
    alone = Alone()
    assert alone.said[-1].request == Join("m0", MemberDetails())
    alone.answer(Joined(1, SETTINGS.state(), {"": 2}), alone.said[-1])
    assert alone.pulse() == Pulse("m0", alone.said[-1].number, 1, 1, ())
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
    said = alone.last(Pulse)
    alone.now = 13.5
    alone.answer(Confirmed(2), said, stamp=11.0)
    assert alone.leads()
    alone.now = 14.1
    assert not alone.leads()


def test_m2_an_assignment_makes_no_leader_before_it_is_confirmed() -> None:
    alone = joined()
    alone.answer(Changed(1, {"0": 7}))
    assert not alone.leads()
    assert alone.told == []
    assert alone.pulse().owned == ("0",), "the partition is not claimed at once"
    alone.answer(Confirmed(2))
    assert alone.told == [Acquired(0, 7)]
    assert alone.leads()


def test_m2_a_reply_to_a_pulse_without_it_in_the_list_proves_nothing() -> None:
    alone = joined()
    early = alone.last(Pulse)
    alone.at(10.8)  # Another pulse, of the same list.
    alone.answer(Changed(1, {"0": 7}), early)
    again = alone.said[-2]
    assert isinstance(again.request, Pulse)
    alone.answer(Changed(1, {"0": 7}), again)
    assert not alone.leads()


def test_m2_another_token_than_the_one_that_is_claimed_proves_nothing() -> None:
    alone = joined()
    alone.answer(Changed(1, {"0": 7}))
    alone.answer(Changed(2, {"0": 9}))
    assert not alone.leads()
    alone.answer(Confirmed(3))
    assert alone.told == [Acquired(0, 9)]


def test_m3_once_released_replies_to_earlier_pulses_say_nothing_of_it() -> None:
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


def test_m3_a_proof_of_before_a_release_counts_no_more_though_it_is_claimed_again() -> None:
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


def test_m4_who_is_fenced_drops_everything_first_and_joins_as_another() -> None:
    alone = leading()
    alone.told.clear()
    alone.answer(messages.Fenced("fenced"), alone.last(Wait))
    assert alone.told == [Fenced(0, 7, "fenced")]
    assert not alone.leads()
    assert alone.said[-1].request == Join("m1", MemberDetails(), "m0")


def test_m4_replies_to_what_it_was_before_are_not_its_own() -> None:
    alone = leading()
    alone.at(10.8)
    early = alone.last(Pulse)
    alone.answer(messages.Fenced("unknown"), alone.last(Wait))
    alone.answer(Joined(2, SETTINGS.state(), {"": 2}), alone.last(Join))
    alone.answer(Confirmed(2), early)
    assert not alone.leads()


def test_m5_a_proof_that_lapses_is_told_by_its_own_timer_and_comes_back_as_the_same_tenure() -> (
    None
):
    alone = leading()
    alone.told.clear()
    assert alone.at(13.2).told == [Fenced(0, 7, "silent")]
    alone.answer(Confirmed(2))
    assert alone.told == [Fenced(0, 7, "silent"), Acquired(0, 7)]


def test_a_revoked_partition_is_led_no_more_and_stays_in_the_list_until_it_is_finished() -> None:
    alone = leading().at(11.0)
    alone.answer(Changed(2, {}, revoked=("0",)))
    assert isinstance(alone.told[-1], Revoked)
    assert not alone.leads()
    assert alone.pulse().owned is None, "the list is the same"
    assert alone.pulse().generation == 2
    alone.feed(Finished("0"))
    assert alone.pulse().owned == ()


def test_the_barrier_stands_for_as_long_as_the_coordinator_says_so() -> None:
    alone = leading().at(11.0)
    alone.answer(Changed(2, {}, revoked=("0",)))
    revoked = alone.told[-1]
    assert isinstance(revoked, Revoked)
    alone.at(12.9)
    alone.answer(Changed(2, {}, revoked=("0",)))
    assert revoked.protected(15.8)
    alone.feed(Finished("0"))
    assert not revoked.protected(12.9)


def test_what_is_lost_is_dropped_at_once_and_needs_no_release() -> None:
    alone = leading().at(11.0)
    alone.answer(Changed(2, {}, lost=("0",)))
    assert isinstance(alone.told[-1], Revoked)
    assert alone.pulse().owned == ()


def test_what_is_kept_is_proven_under_the_token_that_it_has() -> None:
    alone = leading().at(12.9)
    alone.answer(Changed(2, {}, kept=("0",)))
    alone.now = 15.8
    assert alone.leads()
    assert alone.told == [Acquired(0, 7)]


def test_a_list_is_said_once_and_again_when_it_is_asked_for() -> None:
    alone = leading().at(11.0)
    assert alone.pulse().owned is None
    alone.answer(Again())
    assert alone.pulse().owned == ("0",)
    assert alone.leads()


def test_a_pulse_goes_out_every_heartbeat_whether_it_was_answered_or_not() -> None:
    alone = leading()
    numbers = [alone.at(10.0 + 0.76 * step).pulse().number for step in range(1, 5)]
    assert len(set(numbers)) == 4


def test_a_member_that_is_woken_sends_a_pulse_and_waits_again_after_its_reply() -> None:
    alone = leading()
    waiting = alone.last(Wait)
    before = alone.pulse()
    alone.answer(Woken(), waiting)
    assert alone.pulse() != before
    assert alone.last(Wait) is waiting
    alone.answer(Confirmed(2))
    assert alone.last(Wait) is not waiting


def test_a_join_is_said_again_until_somebody_answers() -> None:
    alone = Alone()
    join = alone.last(Join)
    alone.answer(None, join)
    assert alone.at(10.3).last(Join).request == join.request
    alone.answer(Refused(503, "no-owner", ""), alone.last(Join))
    assert alone.at(10.6).last(Join).request == join.request


def test_a_refusal_ends_it_and_nothing_is_led_any_more() -> None:
    alone = leading()
    alone.answer(Refused(404, "no-such-group", "there is no such group"), alone.last(Wait))
    assert alone.told[-2:] == [Fenced(0, 7, "left"), Ended("there is no such group")]
    assert not alone.leads()
    assert alone.member.next_at(alone.now) == float("inf")


def test_m6_a_member_that_leaves_leads_nothing_and_says_so_once_what_it_has_told_has_finished() -> (
    None
):
    alone = leading()
    early = alone.last(Pulse)
    effects = alone.feed(LeaveAsked())
    assert [type(each) for each in effects] == [Report]
    assert isinstance(alone.told[-1], Revoked)
    alone.answer(Confirmed(2), early)
    assert not alone.leads()
    alone.at(11.0).answer(Changed(1, {"0": 7, "1": 8}))
    assert alone.pulse().owned is None, "a leaving member claims a partition"
    alone.feed(Finished("0"))
    assert alone.said[-1].request == Leave("m0")
    alone.answer(None, alone.last(Leave))
    assert alone.at(11.3).said[-1].request == Leave("m0")
    alone.answer(Left(), alone.last(Leave))
    assert alone.told[-1] == Ended("left")


def test_m6_what_has_not_finished_within_revoke_ms_is_waited_for_no_more() -> None:
    alone = leading()
    alone.feed(LeaveAsked())
    revoked = alone.told[-1]
    assert isinstance(revoked, Revoked)
    while alone.now < 15.0:
        alone.at(alone.now + 0.75).answer(Confirmed(2))
    assert not [each for each in alone.said if isinstance(each.request, Leave)]
    assert revoked.protected(alone.now)
    assert alone.at(16.0).said[-1].request == Leave("m0")
    assert not revoked.protected(alone.now)


def test_m6_what_finishes_after_it_has_left_makes_no_pulse() -> None:
    alone = joined()
    alone.answer(Changed(1, {"0": 7, "1": 7}))
    alone.answer(Confirmed(2))
    alone.at(11.0)
    alone.answer(Changed(2, {"1": 7}, revoked=("0",)))
    alone.feed(LeaveAsked())
    alone.feed(Finished("0"))
    assert alone.pulse().owned == ("1",)
    alone.at(17.0)
    assert alone.said[-1].request == Leave("m0")
    pulses = [each for each in alone.said if isinstance(each.request, Pulse)]
    alone.feed(Finished("1"))
    alone.at(18.0)
    assert [each for each in alone.said if isinstance(each.request, Pulse)] == pulses


def test_m4_partitions_and_times_are_those_of_what_was_joined_last() -> None:
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


def test_who_drains_goes_on_until_it_is_let_go() -> None:
    alone = leading()
    alone.feed(LeaveAsked(drain=True))
    assert alone.last(Leave).request == Leave("m0", drain=True)
    assert alone.leads()
    alone.at(11.0)
    alone.answer(Changed(2, {}, lost=("0",)))
    alone.answer(Left(), alone.last(Leave))
    assert alone.told[-1] == Ended("left")


def test_it_never_asks_to_be_called_in_the_past_once_it_has_been_called() -> None:
    alone = leading()
    for step in range(60):
        alone.at(10.0 + step * 0.1)
        assert alone.member.next_at(alone.now) > alone.now
