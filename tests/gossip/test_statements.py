"""Effects of a rumour or a table: whole lists, case by case."""

from __future__ import annotations

import dataclasses

import pytest

from gossip import Config, State
from gossip.member import Change
from gossip.protocol.claim_rules import ACCUSATION_LEAD_MAX, SELF_ACCUSATION_MAX
from gossip.protocol.effects import (
    Departed,
    Notify,
    Reply,
    ReportConflict,
    Send,
    SetTimer,
)
from gossip.protocol.events import (
    Asked,
    GossipDue,
    LeaveDue,
    LeaveRequested,
    SuspicionDue,
    TimerFired,
)
from gossip.protocol.suspicion import begin_suspicion
from gossip.wire import Ack, Alive, Dead, Left, Ping, Suspect, Sync, SyncAnswer
from tests.gossip.rig import ME, address_of, alive, hear, machine, peer, state_of

MY_NAME, MY_ADDRESS = ME.name, ME.address


def alive_me(incarnation: int) -> Alive:
    return Alive(MY_NAME, ME.uid, incarnation, MY_ADDRESS, b"")


def test_a_new_member_is_notified_and_gossiped() -> None:
    swim = machine("a")
    assert hear(swim, "a", alive("b")) == [Notify(Change(peer("b"), None))]
    assert swim.step(TimerFired(GossipDue()), 1.2) == [
        Send(address_of("a"), (alive("b"),)),
        Send(address_of("b"), (alive("b"),)),
        SetTimer(GossipDue(), 1.4),
    ]


def test_a_known_state_is_not_gossiped() -> None:
    swim = machine("a")
    assert hear(swim, "a", alive("a")) == []
    assert len(swim.membership.queue) == 0


def test_a_suspicion_begins_is_confirmed_by_others_only_and_ends_in_death() -> None:
    swim = machine(*"abcdefghi")  # Ten with us: the shortest is 4 s, the longest 24 s.
    assert hear(swim, "b", Suspect("a", 10, "b"), now=0.0) == [
        Notify(Change(peer("a", state=State.SUSPECT), State.ALIVE)),
        SetTimer(SuspicionDue("a", 10), 4.0),
    ]
    assert hear(swim, "b", Suspect("a", 10, "b"), now=0.1) == []
    assert hear(swim, "c", Suspect("a", 10, "c"), now=0.2) == [SetTimer(SuspicionDue("a", 10), 4.0)]
    hear(swim, "d", Suspect("a", 10, "d"), now=0.3)
    hear(swim, "e", Suspect("a", 10, "e"), now=0.3)
    assert hear(swim, "f", Suspect("a", 10, "f"), now=0.4) == []
    assert swim.step(TimerFired(SuspicionDue("a", 10)), 4.0) == [
        Notify(Change(peer("a", state=State.DEAD), State.SUSPECT))
    ]


def test_a_lone_suspicion_is_sent_to_the_accused_before_its_deadline() -> None:
    swim = machine(*"abcdefghi")
    hear(swim, "b", Suspect("a", 10, "b"), now=0.0)
    assert swim.step(TimerFired(SuspicionDue("a", 10)), 4.0) == [
        Send(address_of("a"), (Suspect("a", 10, "me"),)),
        SetTimer(SuspicionDue("a", 10), 24.0),
    ]


def test_an_accuser_notifies_the_accused_at_each_quarter_and_others_late() -> None:
    suspicion = begin_suspicion("a", 10, "b", now=0.0, live_count=10, config=Config.lan())
    assert [suspicion.next_look_s(now, "b") for now in (0.0, 1.0, 2.5, 3.0, 4.0)] == [
        1.0, 2.0, 3.0, 4.0, 24.0,
    ]  # fmt: skip
    assert [suspicion.next_look_s(now, "c") for now in (0.0, 3.9, 4.0)] == [4.0, 4.0, 24.0]


def test_a_greater_incarnation_refutes_and_the_old_timer_means_nothing() -> None:
    swim = machine("a", "b")
    hear(swim, "b", Suspect("a", 10, "b"))
    assert hear(swim, "a", alive("a", 11)) == [
        Notify(Change(peer("a", incarnation=11), State.SUSPECT))
    ]
    assert swim.step(TimerFired(SuspicionDue("a", 10)), 99.0) == []


def test_a_suspicion_at_a_greater_incarnation_begins_anew() -> None:
    swim = machine("a", "b")
    hear(swim, "b", Suspect("a", 10, "b"), now=1.0)
    effects = hear(swim, "b", Suspect("a", 11, "b"), now=3.0)
    assert effects == [SetTimer(SuspicionDue("a", 11), 7.0)]


def test_an_equal_incarnation_does_not_refute() -> None:
    swim = machine("a", "b")
    hear(swim, "b", Suspect("a", 10, "b"))
    assert hear(swim, "a", alive("a", 10)) == []
    assert state_of(swim, "a") is State.SUSPECT


def test_accusations_of_strangers_are_ignored() -> None:
    swim = machine("a")
    assert hear(swim, "a", Suspect("x", 1, "a"), Dead("x", 1, "a"), Left("x", 1)) == []
    assert state_of(swim, "x") is None


@pytest.mark.parametrize("accusation", [Suspect, Dead])
def test_a_member_refutes_an_accusation(accusation: type[Suspect | Dead]) -> None:
    swim = machine("a")
    assert hear(swim, "a", accusation("me", 100, "a")) == [Send(address_of("a"), (alive_me(101),))]
    assert swim.membership.me.incarnation == 101
    assert "me" in swim.membership.queue
    assert swim.membership.awareness.score == 1


def test_a_stale_accusation_is_answered_with_the_own_state() -> None:
    swim = machine("a")
    assert hear(swim, "a", Suspect("me", 99, "a")) == [Send(address_of("a"), (alive_me(100),))]
    assert hear(swim, "a", Suspect("me", 99, "a"), now=1.5) == []  # At most once a second.
    assert "me" in swim.membership.queue
    assert swim.membership.awareness.score == 0


def test_an_accusation_beyond_belief_is_ignored() -> None:
    swim = machine("a", "b")
    assert hear(swim, "b", Dead("a", 10 + ACCUSATION_LEAD_MAX + 1, "b")) == []
    hear(swim, "b", Dead("me", SELF_ACCUSATION_MAX + 1, "b"))
    assert swim.membership.me.incarnation == 100
    assert swim.membership.counters["accusations_refused"] == 2


def test_a_past_life_with_a_later_clock_is_outbid() -> None:
    swim = machine("a")
    assert hear(swim, "a", Alive("me", b"past-uid", 500, MY_ADDRESS, b"")) == []
    assert swim.membership.me.incarnation == 501


def test_another_process_under_our_name_is_reported_and_not_outbid() -> None:
    swim = machine("a")
    other = Alive("me", b"otheruid", 500, ("10.9.9.9", 9), b"")
    assert hear(swim, "a", other) == [ReportConflict("me", MY_ADDRESS, ("10.9.9.9", 9))]
    assert swim.membership.me.incarnation == 100


def test_a_living_holder_keeps_its_name() -> None:
    swim = machine("a", "b")
    claim = Alive("a", b"otheruid", 500, ("10.9.9.9", 9), b"")
    assert hear(swim, "b", claim) == [ReportConflict("a", address_of("a"), ("10.9.9.9", 9))]
    hear(swim, "b", Dead("a", 10, "b"))
    hear(swim, "b", claim)
    held = swim.membership.table.get("a")
    assert held is not None
    assert held.address == ("10.9.9.9", 9)


def test_a_member_that_calls_a_dead_one_alive_is_corrected() -> None:
    swim = machine("a", "b")
    hear(swim, "b", Dead("a", 10, "b"))
    assert hear(swim, "b", alive("a", 10)) == [Send(address_of("b"), (Dead("a", 10, "me"),))]
    assert hear(swim, "b", alive("a", 10), now=1.5) == []


def test_a_datagram_brings_a_limited_number_of_strangers() -> None:
    swim = machine("a", config=dataclasses.replace(Config.lan(), newcomers_max=2))
    hear(swim, "a", alive("b"), alive("c"), alive("d"))
    assert [state_of(swim, name) for name in "bcd"] == [State.ALIVE, State.ALIVE, None]


def test_a_full_table_forgets_the_gone_and_then_refuses() -> None:
    swim = machine("a", "b", config=dataclasses.replace(Config.lan(), members_max=3))
    assert hear(swim, "a", alive("c")) == []
    hear(swim, "a", Left("b", 10))
    assert hear(swim, "a", alive("c")) == [Notify(Change(peer("c"), None))]
    assert state_of(swim, "b") is None


def test_dead_members_of_a_table_become_suspects() -> None:
    swim = machine("a", "b")
    table = Sync("b", (peer("a", state=State.DEAD),))
    effects = swim.step(Asked(1, table), 1.0)
    suspect = peer("a", state=State.SUSPECT)
    assert effects == [
        Notify(Change(suspect, State.ALIVE)),
        SetTimer(SuspicionDue("a", 10), 5.0),
        Reply(1, SyncAnswer("me", (ME, suspect, peer("b")), ("a",))),
    ]


def test_a_table_confirms_no_suspicion() -> None:
    swim = machine(*"abcdefghi")
    hear(swim, "b", Suspect("a", 10, "b"))
    swim.step(Asked(1, Sync("c", (peer("a", state=State.SUSPECT),))), 1.0)
    assert swim.membership.suspicions["a"].confirmations == 0


def test_unknown_dead_members_are_taken_by_newcomers_only() -> None:
    table = Sync("b", (peer("x", state=State.DEAD),))
    newcomer, member = machine(), machine("a")
    newcomer.step(Asked(1, table), 1.0)
    member.step(Asked(1, table), 1.0)
    assert state_of(newcomer, "x") is State.DEAD
    assert state_of(member, "x") is None


def test_a_newcomer_gossips_only_members_that_its_peer_lacked() -> None:
    swim = machine()
    swim.step(Asked(1, Sync("b", (peer("a"), peer("b")), ("b",))), 1.0)
    assert swim.membership.queue.names == ("b",)


def test_a_table_in_which_we_are_dead_is_refuted_in_the_same_exchange() -> None:
    swim = machine("a")
    dead_me = dataclasses.replace(ME, state=State.DEAD)
    (reply,) = swim.step(Asked(1, Sync("a", (dead_me,))), 1.0)
    assert isinstance(reply, Reply)
    assert isinstance(reply.message, SyncAnswer)
    assert dataclasses.replace(ME, incarnation=101) in reply.message.members


def test_a_ping_over_tcp_is_answered_if_it_is_for_us() -> None:
    swim = machine("a")
    assert swim.step(Asked(1, Ping(5, "me", "a")), 1.0) == [Reply(1, Ack(5, "me"))]
    assert swim.step(Asked(2, Ping(5, "you", "a")), 1.0) == []


def test_a_leaving_member_sends_goodbyes_and_is_then_silent() -> None:
    swim = machine("a")
    assert swim.step(LeaveRequested(), 1.0) == [SetTimer(LeaveDue(), 6.0)]
    for round_number in range(1, 6):
        assert swim.step(TimerFired(GossipDue()), float(round_number)) == [
            Send(address_of("a"), (Left("me", 100),)),
            SetTimer(GossipDue(), round_number + 0.2),
        ]
    assert swim.step(TimerFired(GossipDue()), 6.0) == [
        Send(address_of("a"), (Left("me", 100),)),
        Departed(),
    ]
    assert hear(swim, "a", Ping(5, "me", "a")) == []


def test_a_leaver_does_not_refute() -> None:
    swim = machine("a")
    swim.step(LeaveRequested(), 1.0)
    assert hear(swim, "a", Suspect("me", 100, "a")) == []
    assert swim.membership.me.incarnation == 100


def test_one_that_left_is_not_suspected_any_more() -> None:
    swim = machine("a", "b")
    left = peer("a", state=State.LEFT)
    assert hear(swim, "a", Left("a", 10)) == [Notify(Change(left, State.ALIVE))]
    assert hear(swim, "b", Suspect("a", 10, "b"), Dead("a", 10, "b")) == []


def test_gossip_goes_to_the_living_and_the_dead_learn_only_that_they_are() -> None:
    swim = machine("a", "b")
    hear(swim, "b", Dead("a", 10, "b"))
    assert swim.step(TimerFired(GossipDue()), 1.2) == [
        Send(address_of("a"), (Dead("a", 10, "me"),)),
        Send(address_of("b"), (Dead("a", 10, "b"),)),
        SetTimer(GossipDue(), 1.4),
    ]
