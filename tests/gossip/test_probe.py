"""Transcripts of probes: each event, and the whole list of its effects."""

from __future__ import annotations

from gossip import State
from gossip.member import Change
from gossip.messages import Ack, Dead, Nack, NackReason, Ping, PingReq, Suspect
from gossip.protocol.effects import Ask, Notify, ReportUnreachable, Send, SetTimer
from gossip.protocol.events import (
    AckDue,
    Answered,
    NackDue,
    PingExchange,
    ProbeDue,
    Stalled,
    SuspicionDue,
    TimerFired,
    Unanswered,
)
from gossip.protocol.swim import Swim
from tests.gossip.rig import FIRST_SEQUENCE, address_of, hear, machine, peer, state_of

SEQ = FIRST_SEQUENCE


def changed(name: str, state: State, previous: State, *, incarnation: int = 10) -> Notify:
    return Notify(Change(peer(name, incarnation=incarnation, state=state), previous))


def probing(*names: str) -> Swim:
    """A machine that has just sent its first ping, to the first of `names`, at second 1."""
    swim = machine(*names)
    swim.membership.arrived.clear()
    swim.step(TimerFired(ProbeDue()), 1.0)
    return swim


def test_a_probe_is_a_ping_and_two_timers() -> None:
    swim = machine("a", "b")
    swim.membership.arrived.clear()
    assert swim.step(TimerFired(ProbeDue()), 1.0) == [
        Send(address_of("a"), (Ping(SEQ, "a", "me"),)),
        SetTimer(AckDue(SEQ), 1.5),
        SetTimer(ProbeDue(), 2.0),
    ]


def test_an_answered_probe_is_forgotten_and_the_next_member_is_probed() -> None:
    swim = probing("a", "b")
    assert hear(swim, "a", Ack(SEQ, "a")) == []
    assert swim.step(TimerFired(AckDue(SEQ)), 1.5) == []
    assert swim.step(TimerFired(ProbeDue()), 2.0) == [
        Send(address_of("b"), (Ping(SEQ + 1, "b", "me"),)),
        SetTimer(AckDue(SEQ + 1), 2.5),
        SetTimer(ProbeDue(), 3.0),
    ]


def test_silence_asks_three_others_and_tcp() -> None:
    swim = probing("a", "b", "c", "d", "e")
    request = PingReq(SEQ, "a", address_of("a"), 400, "me")
    assert swim.step(TimerFired(AckDue(SEQ)), 1.5) == [
        Send(address_of("b"), (request,)),
        Send(address_of("c"), (request,)),
        Send(address_of("d"), (request,)),
        Ask(PingExchange(SEQ, "a", 10), address_of("a"), Ping(SEQ, "a", "me"), 0.5),
    ]


def test_a_probe_without_any_answer_makes_a_suspect() -> None:
    swim = probing("a", "b")
    swim.step(TimerFired(AckDue(SEQ)), 1.5)
    hear(swim, "b", Nack(SEQ, "b"))
    assert swim.step(TimerFired(ProbeDue()), 2.0) == [
        changed("a", State.SUSPECT, State.ALIVE),
        # An accuser looks again after a quarter of the shortest suspicion, which has 4 intervals.
        SetTimer(SuspicionDue("a", 10), 3.0),
        Send(address_of("b"), (Ping(SEQ + 1, "b", "me"), Suspect("a", 10, "me"))),
        SetTimer(AckDue(SEQ + 1), 2.5),
        SetTimer(ProbeDue(), 3.0),
    ]
    # The nack tells that the fault is not ours.
    assert swim.membership.awareness.score == 0


def test_missing_nacks_make_us_doubt_ourselves_and_wait_longer() -> None:
    swim = probing("a", "b", "c", "d")
    swim.step(TimerFired(AckDue(SEQ)), 1.5)
    hear(swim, "b", Nack(SEQ, "b"))
    effects = swim.step(TimerFired(ProbeDue()), 2.0)
    assert swim.membership.awareness.score == 2
    assert effects[-2:] == [SetTimer(AckDue(SEQ + 1), 3.5), SetTimer(ProbeDue(), 5.0)]


def test_an_ack_through_a_relay_counts() -> None:
    swim = probing("a", "b")
    swim.step(TimerFired(AckDue(SEQ)), 1.5)
    hear(swim, "b", Ack(SEQ, "a"), now=1.7)
    swim.step(TimerFired(ProbeDue()), 2.0)
    assert state_of(swim, "a") is State.ALIVE


def test_an_ack_over_tcp_counts_and_is_counted() -> None:
    swim = probing("a", "b")
    swim.step(TimerFired(AckDue(SEQ)), 1.5)
    assert swim.step(Answered(PingExchange(SEQ, "a", 10), Ack(SEQ, "a")), 1.6) == [
        ReportUnreachable("a")
    ]
    swim.step(TimerFired(ProbeDue()), 2.0)
    assert state_of(swim, "a") is State.ALIVE
    assert swim.membership.counters["probes_answered_by_stream_only"] == 1


def test_an_ack_of_another_member_does_not_count() -> None:
    swim = probing("a", "b")
    hear(swim, "b", Ack(SEQ, "b"))
    swim.step(TimerFired(ProbeDue()), 2.0)
    assert state_of(swim, "a") is State.SUSPECT


def test_a_refused_connection_is_news_at_once_and_shortens_the_suspicion() -> None:
    swim = probing("a", "b")
    swim.step(TimerFired(AckDue(SEQ)), 1.5)
    refused = Unanswered(PingExchange(SEQ, "a", 10), is_refused=True)
    assert swim.step(refused, 1.6) == [
        changed("a", State.SUSPECT, State.ALIVE),
        SetTimer(SuspicionDue("a", 10), 2.6),
        Send(address_of("a"), (Suspect("a", 10, "me"),)),
        SetTimer(SuspicionDue("a", 10), 2.1),
    ]
    assert swim.step(TimerFired(SuspicionDue("a", 10)), 2.1) == [
        changed("a", State.DEAD, State.SUSPECT)
    ]
    assert swim.membership.awareness.score == 0


def test_a_refusal_of_an_earlier_life_means_nothing() -> None:
    swim = machine("a", "b")
    refused = Unanswered(PingExchange(7, "a", 9), is_refused=True)
    assert swim.step(refused, 1.6) == []


def test_a_suspect_is_accused_to_its_face_ahead_of_the_ping() -> None:
    swim = machine("a")
    hear(swim, "b", Suspect("a", 10, "b"))
    swim.membership.queue.clear()
    swim.membership.arrived.clear()
    effects = swim.step(TimerFired(ProbeDue()), 1.0)
    assert effects[0] == Send(address_of("a"), (Suspect("a", 10, "me"), Ping(SEQ, "a", "me")))


def test_a_ping_is_answered_where_it_came_from() -> None:
    swim = machine("a")
    assert hear(swim, "a", Ping(5, "me", "a")) == [Send(address_of("a"), (Ack(5, "me"),))]


def test_a_ping_for_another_member_is_answered_with_a_nack() -> None:
    swim = machine("a")
    nack = Nack(5, "me", NackReason.WRONG_NODE)
    assert hear(swim, "a", Ping(5, "you", "a")) == [Send(address_of("a"), (nack,))]


def test_a_pinging_member_held_dead_is_notified_at_most_once_a_second() -> None:
    swim = machine("a", "b")
    hear(swim, "b", Dead("a", 10, "b"))
    swim.membership.queue.clear()
    corrected, short = (Dead("a", 10, "me"), Ack(5, "me")), (Ack(5, "me"),)
    ping = Ping(5, "me", "a")
    assert hear(swim, "a", ping, now=2.0) == [Send(address_of("a"), corrected)]
    assert hear(swim, "a", ping, now=2.5) == [Send(address_of("a"), short)]
    assert hear(swim, "a", ping, now=3.0) == [Send(address_of("a"), corrected)]


def test_a_relay_pings_and_forwards_the_ack_under_the_number_of_the_requester() -> None:
    swim = machine("a", "b")
    request = PingReq(77, "b", address_of("b"), 400, "a")
    assert hear(swim, "a", request) == [
        Send(address_of("b"), (Ping(SEQ, "b", "me"),)),
        SetTimer(NackDue(SEQ), 1.4),
    ]
    assert hear(swim, "b", Ack(SEQ, "b"), now=1.1) == [Send(address_of("a"), (Ack(77, "b"),))]
    assert swim.step(TimerFired(NackDue(SEQ)), 1.4) == []


def test_a_relay_without_an_ack_sends_a_nack() -> None:
    swim = machine("a", "b")
    hear(swim, "a", PingReq(77, "b", address_of("b"), 400, "a"))
    assert swim.step(TimerFired(NackDue(SEQ)), 1.4) == [
        Send(address_of("a"), (Nack(77, "me", NackReason.TIMEOUT),))
    ]


def test_a_relay_does_not_ping_strangers() -> None:
    swim = machine("a")
    request = PingReq(77, "x", ("192.0.2.7", 53), 400, "a")
    assert hear(swim, "a", request) == [
        Send(address_of("a"), (Nack(77, "me", NackReason.UNKNOWN),))
    ]


def test_a_stall_causes_no_suspicions_and_extends_earlier_ones() -> None:
    swim = probing("a", "b")
    hear(swim, "b", Suspect("b", 10, "a"), now=1.0)
    assert swim.step(Stalled(2.0), 4.0) == [SetTimer(SuspicionDue("b", 10), 7.0)]
    swim.step(TimerFired(ProbeDue()), 4.0)
    assert state_of(swim, "a") is State.ALIVE
    assert swim.membership.awareness.score == 1


def test_each_member_is_probed_once_per_pass() -> None:
    swim = machine("a", "b", "c", "d")
    visited = []
    for second in range(8):
        effects = swim.step(TimerFired(ProbeDue()), float(second))
        ping = next(effect for effect in effects if isinstance(effect, Send)).messages[-1]
        assert isinstance(ping, Ping)
        visited.append(ping.target)
        hear(swim, ping.target, Ack(ping.sequence, ping.target), now=float(second))
    assert sorted(visited[:4]) == sorted(visited[4:]) == ["a", "b", "c", "d"]
