"""Rare cases: half tables, full memories, strange answers, repeated goodbyes."""

from __future__ import annotations

import dataclasses

from gossip import Config, State, wire
from gossip.messages import (
    FRAME_HEADER_BYTES,
    Ack,
    Alive,
    Claim,
    Digest,
    Left,
    Nack,
    Ping,
    Sync,
    SyncAnswer,
)
from gossip.protocol.effects import Departed, Reply, ReportConflict, SetTimer
from gossip.protocol.events import (
    Answered,
    Asked,
    DigestExchange,
    GossipDue,
    LeaveDue,
    LeaveRequested,
    PingExchange,
    SyncExchange,
    TableBegun,
    TimerFired,
    Unanswered,
)
from tests.gossip.frames import encode_frame
from tests.gossip.rig import ME, address_of, alive, hear, machine, peer, state_of

LAN = Config.lan()


def test_a_newcomer_stays_one_until_it_has_the_last_part() -> None:
    swim = machine()
    first = Sync("a", (peer("a"), peer("b", state=State.DEAD)), ("a",))
    swim.step(TableBegun(first), 1.0)
    assert swim.membership.queue.names == ("a",)
    last = SyncAnswer("a", (peer("c"), peer("d", state=State.DEAD)))
    swim.step(Answered(SyncExchange("a", 10), last), 1.1)
    assert swim.membership.queue.names == ("a",)  # c is news to us alone.
    assert state_of(swim, "d") is State.DEAD  # And so is the memory of d.
    swim.step(Asked(1, Sync("a", (peer("e"), peer("f", state=State.DEAD)))), 1.2)
    assert "e" in swim.membership.queue  # By now we are no newcomer any more.
    assert state_of(swim, "f") is None


def test_39_twenty_thousand_members_do_not_exceed_the_table() -> None:
    swim = machine("a")
    members = tuple(peer(f"x{number}") for number in range(20_000))
    body = encode_frame(Sync("a", members))[FRAME_HEADER_BYTES:]
    for part, more_follows in wire.decode_in_turns(body):
        assert isinstance(part, Sync)
        assert len(part.members) <= wire.MEMBERS_PER_TURN
        swim.step(TableBegun(part) if more_follows else Asked(1, part), 1.0)
    assert len(swim.membership.table) == LAN.members_max
    assert swim.membership.counters["members_refused_full"] == 20_002 - LAN.members_max


def test_an_alive_about_us_from_the_future_is_outbid() -> None:
    swim = machine("a")
    echo = dataclasses.replace(ME, incarnation=ME.incarnation + 5)
    hear(swim, "a", Alive("me", echo.uid, echo.incarnation, echo.address, b""))
    assert swim.membership.me.incarnation == ME.incarnation + 6


def test_a_record_with_a_forged_incarnation_is_refused() -> None:
    swim = machine("a", "b")
    forged = peer("a", incarnation=2**40, state=State.SUSPECT)
    swim.step(Asked(1, Sync("b", (forged,))), 1.0)
    assert state_of(swim, "a") is State.ALIVE
    assert swim.membership.counters["accusations_refused"] == 1


def test_memories_are_bounded_by_the_size_of_the_table() -> None:
    swim = machine("a", "b", config=dataclasses.replace(LAN, members_max=4))
    for number in range(10):
        claim = Claim("a", bytes([number]) * 8, 99 + number, address_of("z"))
        effects = hear(swim, "b", claim, now=2.0 * number)
        assert ReportConflict("a", address_of("a"), address_of("z")) in effects
    for number in range(10):
        hear(swim, "a", Left("me", number), now=100.0 + 2 * number)
    assert len(swim.membership.table) == 3


def test_a_claim_to_a_name_that_is_free_is_no_conflict() -> None:
    swim = machine("a", "b")
    claim = Claim("x", bytes(8), 99, address_of("z"))
    assert hear(swim, "b", claim) == []
    held = peer("a")
    assert hear(swim, "b", Claim("a", held.uid, 99, held.address)) == []


def test_an_answer_that_does_not_fit_its_question_is_none() -> None:
    swim = machine("a")
    assert swim.step(Answered(SyncExchange("a", 10), Ack(1, "a")), 1.0) == []
    assert swim.step(Answered(PingExchange(1, "a", 10), Ack(2, "a")), 1.0) == []
    assert swim.step(Answered(DigestExchange("a", 10), Ack(2, "a")), 1.0) == []
    assert swim.membership.counters["answers_refused"] == 3
    assert swim.step(Unanswered(DigestExchange("a", 10), is_refused=True), 1.0) == []


def test_a_request_that_is_none_gets_no_answer() -> None:
    swim = machine("a")
    assert swim.step(Asked(1, SyncAnswer("a", ())), 1.0) == []
    assert swim.step(Asked(1, Ping(1, "somebody else", "a")), 1.0) == []
    assert swim.membership.counters["requests_refused"] == 2
    [reply] = swim.step(Asked(1, Digest("a", bytes(256))), 1.0)
    assert isinstance(reply, Reply)


def test_a_nack_for_a_probe_of_the_past_is_no_news() -> None:
    assert hear(machine("a"), "a", Nack(5, "a")) == []


def test_a_second_leave_request_has_no_effect() -> None:
    swim = machine("a", "b")
    [timer, *_] = swim.step(LeaveRequested(), 1.0)
    assert timer == SetTimer(LeaveDue(), 1.0 + LAN.leave_timeout_s)
    assert swim.step(LeaveRequested(), 1.1) == []
    assert swim.step(TimerFired(LeaveDue()), 6.0) == [Departed()]
    assert swim.step(LeaveRequested(), 6.1) == []


def test_a_full_burst_is_sent_while_messages_are_unsent() -> None:
    config = dataclasses.replace(LAN, datagram_bytes_max=1024)
    swim = machine("a", config=config)
    for number in range(300):
        swim.membership.queue.put(alive(f"x{number}"))
    sent = swim.step(TimerFired(GossipDue()), 1.0)
    assert len([each for each in sent if not isinstance(each, SetTimer)]) == LAN.gossip_burst


def test_a_departure_is_repeated_to_a_member_that_calls_it_alive() -> None:
    swim = machine("a", "b")
    hear(swim, "a", Left("a", 10))
    swim.membership.queue.clear()
    [send] = hear(swim, "b", alive("a", 10))
    assert send.messages == (Left("a", 10),)  # type: ignore[union-attr]
