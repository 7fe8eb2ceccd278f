"""Formulas against the papers, and the small parts that keep count of time and rumours."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossip.member import State
from gossip.protocol.anti_entropy import reconnect_probability, sync_scale
from gossip.protocol.awareness import Awareness
from gossip.protocol.broadcast import Broadcasts, transmit_limit
from gossip.protocol.suspicion import begin_suspicion, suspicion_min_s, suspicion_timeout_s
from gossip.protocol.table import Table
from gossip.wire import Ack, Alive, Left, Suspect, encode_datagram
from tests.gossip.rig import CONFIG, Steady, peer


@pytest.mark.parametrize(
    ("confirmations", "confirmations_max", "timeout_s"),
    [
        (0, 3, 30.0),
        (1, 3, 17.5),  # 30 - 25 * ln 2 / ln 4
        (2, 3, 10.188),  # 30 - 25 * ln 3 / ln 4
        (3, 3, 5.0),
        (9, 3, 5.0),
        (0, 0, 5.0),
    ],
)
def test_a_suspicion_shrinks_with_the_logarithm_of_its_accusers(
    confirmations: int, confirmations_max: int, timeout_s: float
) -> None:
    found_s = suspicion_timeout_s(
        confirmations,
        confirmations_max=confirmations_max,
        timeout_min_s=5.0,
        timeout_max_s=30.0,
    )
    assert found_s == pytest.approx(timeout_s, abs=0.001)


@pytest.mark.parametrize(("count", "seconds"), [(1, 4.0), (10, 4.0), (100, 8.0), (1000, 12.0)])
def test_the_shortest_suspicion_grows_with_the_logarithm_of_the_group(
    count: int, seconds: float
) -> None:
    assert suspicion_min_s(count, CONFIG) == pytest.approx(seconds)


@given(st.integers(0, 10), st.integers(0, 5), st.floats(0.1, 10), st.floats(1, 10))
def test_a_suspicion_lies_within_its_bounds(
    confirmations: int, confirmations_max: int, least_s: float, factor: float
) -> None:
    found_s = suspicion_timeout_s(
        confirmations,
        confirmations_max=confirmations_max,
        timeout_min_s=least_s,
        timeout_max_s=least_s * factor,
    )
    assert least_s <= found_s <= least_s * factor


def test_neither_the_suspect_nor_the_first_accuser_confirms() -> None:
    for count, most in [(2, 0), (3, 1), (4, 2), (5, 3), (50, 3)]:
        suspicion = begin_suspicion("a", 1, "b", now=0.0, live_count=count, config=CONFIG)
        assert suspicion.confirmations_max == most
        assert not suspicion.confirm("b")


def test_extensions_stay_below_the_shortest_suspicion() -> None:
    suspicion = begin_suspicion("a", 1, "b", now=0.0, live_count=2, config=CONFIG)
    for _ in range(10):
        suspicion.extend(3.0)
    assert suspicion.deadline_s == 8.0


def test_health_stays_within_its_bounds_and_stretches_time() -> None:
    awareness = Awareness(8)
    awareness.improve()
    assert awareness.stretched_s(0.5) == 0.5
    awareness.worsen(20)
    assert awareness.stretched_s(0.5) == 4.5
    awareness.improve()
    assert awareness.score == 7


@pytest.mark.parametrize(("count", "limit"), [(1, 6), (9, 6), (10, 8), (99, 8), (1000, 16)])
def test_how_often_a_rumour_is_sent(count: int, limit: int) -> None:
    assert transmit_limit(count, CONFIG) == limit


def test_the_least_sent_rumour_rides_first_then_the_newest() -> None:
    queue = Broadcasts(CONFIG)
    queue.put(Left("a", 1))
    queue.fill((), live_count=3)
    queue.put(Left("b", 1))
    queue.put(Left("c", 1))
    ack = Ack(1, "x")
    assert queue.fill((ack,), live_count=3) == (ack, Left("c", 1), Left("b", 1), Left("a", 1))


def test_a_newer_statement_replaces_the_older_one_about_its_subject() -> None:
    queue = Broadcasts(CONFIG)
    queue.put(Suspect("a", 1, "b"))
    queue.fill((), live_count=3)
    queue.put(Left("a", 1))
    assert queue.fill((), live_count=3) == (Left("a", 1),)


def test_a_rumour_is_sent_up_to_its_limit() -> None:
    queue = Broadcasts(CONFIG)
    queue.put(Left("a", 1))
    sends = 0
    while queue.fill((), live_count=3):
        sends += 1
    assert sends == transmit_limit(3, CONFIG)
    assert len(queue) == 0


def test_a_rumour_in_the_head_is_not_repeated_after_it() -> None:
    queue = Broadcasts(CONFIG)
    queue.put(Suspect("a", 1, "b"))
    head = (Suspect("a", 1, "me"),)
    assert queue.fill(head, live_count=3) == head


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 512)), max_size=80))
def test_no_datagram_is_too_long_and_no_rumour_starves(parts: list[tuple[int, int]]) -> None:
    queue = Broadcasts(CONFIG)
    for number, size in parts:
        uid, address = b"12345678", ("10.0.0.1", 1)
        queue.put(Alive(f"n{number}", uid, 2**41, address, bytes(size)))
    waiting = set(queue.names)
    for _ in range(500):
        packet = queue.fill((), live_count=3)
        assert len(encode_datagram(packet)) <= CONFIG.datagram_bytes_max
        waiting -= {message.name for message in packet if isinstance(message, Alive)}
        if not packet:
            break
    assert not waiting
    assert len(queue) == 0


@pytest.mark.parametrize(
    ("count", "scale"), [(1, 1), (32, 1), (33, 2), (64, 2), (128, 3), (1024, 6), (10_000, 10)]
)
def test_large_groups_compare_tables_less_often(count: int, scale: int) -> None:
    assert sync_scale(count) == scale


@pytest.mark.parametrize(
    ("dead", "live", "probability"), [(0, 5, 0.0), (1, 100, 1 / 8), (30, 60, 0.5), (50, 50, 1.0)]
)
def test_how_often_the_dead_are_tried(dead: int, live: int, probability: float) -> None:
    assert reconnect_probability(dead, live) == probability


def test_the_table_counts_the_living_and_forgets_the_longest_gone_first() -> None:
    table = Table(3)
    table.put(peer("a"))
    for name, gone_s in [("b", 2.0), ("c", 1.0)]:
        table.put(dataclasses.replace(peer(name, state=State.DEAD), changed_at_s=gone_s))
    assert table.live_count == 1
    assert table.make_room()
    assert [member.name for member in table] == ["a", "b"]
    table.forget_gone_since(3.0)
    assert [member.name for member in table] == ["a"]
    assert table.pick_live(5, Steady(), lambda member: True) == [peer("a")]
