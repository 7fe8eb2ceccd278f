"""The policy by induction (NELI): roles, windows, leaders and their proofs."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docstore.ownership.by_induction import (
    Acquired,
    Fenced,
    Induced,
    Mode,
    Revoked,
    Windows,
    hash_slot,
    partition_of,
)

EXCLUSIVE = Windows.of(Mode.EXCLUSIVE)
"""S = 6 s, T = 3 s."""
OVERLAPPING = Windows.of(Mode.NON_EXCLUSIVE)
"""S = 6 s, T = 18 s."""


# Roles


def test_n03_a_role_maps_to_its_number_modulo_the_partitions() -> None:
    assert [partition_of(role, 3) for role in range(10)] == [0, 1, 2, 0, 1, 2, 0, 1, 2, 0]
    carried = {partition_of(role, 5) for role in range(2)}
    assert carried == {0, 1}, "with more partitions than roles the others carry none"


@given(st.integers(0, 10**12), st.integers(1, 4096))
def test_n03_every_role_resolves_with_any_number_of_partitions(role: int, partitions: int) -> None:
    assert 0 <= partition_of(role, partitions) < partitions


def test_n03_there_is_no_role_below_zero() -> None:
    vector = Induced(4, EXCLUSIVE)
    vector.confirmed(3, 7, stamp=0.0, now=0.1)
    with pytest.raises(ValueError, match="got -1"):
        vector.leads(-1, 1.0)
    with pytest.raises(ValueError, match="got -1"):
        vector.token(-1)


def test_n03_the_roles_of_one_partition_are_acquired_and_lost_together() -> None:
    vector = Induced(3, EXCLUSIVE)
    vector.confirmed(1, 7, stamp=0.0, now=0.1)
    assert [role for role in range(10) if vector.leads(role, 1.0)] == [1, 4, 7]
    assert [role for role in range(10) if vector.leads(role, 4.0)] == []


def test_n17_a_key_has_one_slot_of_a_fixed_number_and_slots_are_even() -> None:
    loads = [0] * 16
    for number in range(4096):
        loads[hash_slot(f"key{number}", 16)] += 1
    assert sum(loads) == 4096
    assert max(loads) < 2 * min(loads)
    vector = Induced(60, EXCLUSIVE)
    vector.confirmed(hash_slot("EURUSD", 1024) % 60, 7, stamp=0.0, now=0.0)
    assert vector.leads_key("EURUSD", 1024, 1.0)


# Windows


def test_the_default_windows_are_the_documented_ones() -> None:
    assert (EXCLUSIVE.session_s, EXCLUSIVE.window_s, EXCLUSIVE.heartbeat_s) == (6.0, 3.0, 0.75)
    assert (OVERLAPPING.window_s, OVERLAPPING.grace_s) == (18.0, 0.0)


def windows(mode: Mode, **times: float | bool) -> Windows:
    usual: dict[str, float | bool] = {"session_s": 6.0, "heartbeat_s": 0.5}
    return Windows(mode=mode, **usual | times)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("mode", "times", "why"),
    [
        (Mode.EXCLUSIVE, {"window_s": 6.0}, "must expire before"),
        (Mode.EXCLUSIVE, {"window_s": 5.995}, "must expire before"),
        (Mode.EXCLUSIVE, {"window_s": 5.9, "rate_error": 0.02}, "must expire before"),
        (Mode.EXCLUSIVE, {"window_s": 0.0}, "must expire before"),
        (Mode.EXCLUSIVE, {"window_s": 3.0, "heartbeat_s": 6.0}, "more than once in a session"),
        (Mode.EXCLUSIVE, {"window_s": 3.0, "keeps_sessions": False}, "the grace of this ledger"),
        (
            Mode.EXCLUSIVE,
            {"window_s": 3.0, "keeps_sessions": False, "grace_s": 3.0},
            "the grace of this ledger must be at least 3.006",
        ),
        (Mode.NON_EXCLUSIVE, {"window_s": 6.0}, "no process leads"),
        (Mode.NON_EXCLUSIVE, {"window_s": 7.0}, "no process leads"),
    ],
)
def test_windows_that_do_not_fit_are_refused_with_a_reason(
    mode: Mode, times: dict[str, float | bool], why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        windows(mode, **times)


def test_windows_that_just_fit_are_accepted() -> None:
    assert windows(Mode.EXCLUSIVE, window_s=5.98).window_s == 5.98
    assert windows(Mode.NON_EXCLUSIVE, window_s=7.1).window_s == 7.1
    patient = windows(Mode.EXCLUSIVE, window_s=3.0, keeps_sessions=False, grace_s=3.01)
    assert patient.grace_s == 3.01


# Leaders


def test_a_partition_is_led_from_its_first_confirmation() -> None:
    vector = Induced(4, EXCLUSIVE)
    assert not vector.leads_partition(2, 10.0)
    assert vector.confirmed(2, 7, stamp=10.0, now=10.1) == [Acquired(2, 7)]
    assert vector.leads_partition(2, 10.1)
    assert vector.token(2) == vector.token(6) == 7
    assert vector.token(1) is None


def test_n15_without_a_pulse_a_lead_ends_with_its_window_before_any_event() -> None:
    vector = Induced(1, EXCLUSIVE)
    vector.confirmed(0, 7, stamp=10.0, now=10.0)
    assert vector.leads(0, 13.0)
    assert not vector.leads(0, 13.001)
    assert vector.lapsed(13.001) == [Fenced(0, 7, "silent")]
    assert vector.lapsed(14.0) == []


def test_n06_after_a_pause_the_first_check_is_false_even_with_waiting_replies() -> None:
    vector = Induced(1, EXCLUSIVE)
    vector.confirmed(0, 7, stamp=10.0, now=10.0)
    # Stopped at 10.5, after a pulse was sent; its reply is read when the process goes on.
    assert not vector.leads(0, 28.5)
    assert vector.confirmed(0, 7, stamp=10.5, now=28.5) == [Fenced(0, 7, "silent")]
    assert not vector.leads(0, 28.5)


@given(
    holder=st.floats(0.98, 1.02),
    coordinator=st.floats(0.98, 1.02),
    there_s=st.floats(0.0, 30.0),
    back_s=st.floats(0.0, 30.0),
)
def test_n05_a_cut_off_owner_stops_before_a_successor_may_lead(
    holder: float, coordinator: float, there_s: float, back_s: float
) -> None:
    """Count true seconds from the last answered pulse; clocks are off by up to 2 %."""
    times = Windows(
        mode=Mode.EXCLUSIVE, session_s=6.0, heartbeat_s=0.5, window_s=5.7, rate_error=0.02
    )
    vector = Induced(1, times)
    successor_at = there_s + times.session_s / coordinator
    vector.confirmed(0, 7, stamp=0.0, now=(there_s + back_s) * holder)
    assert not vector.leads(0, successor_at * holder)


def test_a_lapsed_partition_is_acquired_again_with_the_same_token() -> None:
    vector = Induced(1, EXCLUSIVE)
    vector.confirmed(0, 7, stamp=10.0, now=10.0)
    vector.lapsed(14.0)
    assert vector.confirmed(0, 7, stamp=14.5, now=14.6) == [Acquired(0, 7)]
    silent = vector.confirmed(0, 7, stamp=20.0, now=20.1)
    assert silent == [Fenced(0, 7, "silent"), Acquired(0, 7)], "both events, in their order"


def test_another_token_is_another_tenure() -> None:
    vector = Induced(1, EXCLUSIVE)
    vector.confirmed(0, 7, stamp=10.0, now=10.0)
    assert vector.confirmed(0, 9, stamp=11.0, now=11.0) == [Fenced(0, 7, "fenced"), Acquired(0, 9)]
    assert vector.token(0) == 9


def test_a_revoked_partition_is_not_led_and_stays_protected() -> None:
    vector = Induced(1, EXCLUSIVE)
    vector.confirmed(0, 7, stamp=10.0, now=10.0)
    [revoked] = vector.revoked(0)
    assert isinstance(revoked, Revoked)
    assert not vector.leads(0, 10.0)
    assert revoked.protected(13.0)
    assert vector.confirmed(0, 7, stamp=12.0, now=12.1) == [], "an answer does not bring it back"
    assert not vector.leads(0, 12.1)
    assert revoked.protected(15.0)
    vector.released(0)
    assert not revoked.protected(12.1)
    assert vector.confirmed(0, 9, stamp=16.0, now=16.0) == [Acquired(0, 9)]


def test_a_lapsed_partition_is_not_reported_as_revoked() -> None:
    vector = Induced(1, EXCLUSIVE)
    vector.confirmed(0, 7, stamp=10.0, now=10.0)
    vector.lapsed(14.0)
    assert vector.revoked(0) == []
    assert vector.held == {}


def test_a_fenced_member_leads_nothing_at_once() -> None:
    vector = Induced(3, EXCLUSIVE)
    for partition in range(3):
        vector.confirmed(partition, 7, stamp=10.0, now=10.0)
    vector.revoked(1)
    assert vector.dropped() == [Fenced(0, 7, "fenced"), Fenced(2, 7, "fenced")]
    assert not any(vector.leads(role, 10.0) for role in range(3))


def test_a_child_of_this_process_leads_nothing() -> None:
    vector = Induced(1, EXCLUSIVE)
    vector.confirmed(0, 7, stamp=10.0, now=10.0)
    vector.drop_all()
    assert not vector.leads(0, 10.0)


def test_with_a_grace_a_member_leads_only_after_it() -> None:
    times = windows(Mode.EXCLUSIVE, window_s=2.0, keeps_sessions=False, grace_s=2.5)
    vector = Induced(1, times)
    assert vector.confirmed(0, 7, stamp=10.0, now=10.0) == []
    assert not vector.leads(0, 10.0)
    assert vector.next_at(10.0) == 12.5
    assert vector.confirmed(0, 7, stamp=12.0, now=12.1) == []
    assert vector.lapsed(12.5) == [Acquired(0, 7)]
    assert vector.leads(0, 12.5)
    assert vector.next_at(12.6) == pytest.approx(14.0)
    assert not vector.leads(0, vector.next_at(12.6))


# The paper's plain form


def test_a_received_message_makes_a_leader_of_a_non_exclusive_role() -> None:
    vector = Induced(2, OVERLAPPING)
    assert vector.received(1, 10.0) == [Acquired(1, 0)]
    assert vector.leads(1, 28.0)
    assert not vector.leads(1, 28.1)


def test_the_plain_form_is_refused_for_exclusive_roles() -> None:
    with pytest.raises(AssertionError):
        Induced(1, EXCLUSIVE).received(0, 10.0)


@pytest.mark.parametrize(
    "end",
    [lambda vector: vector.revoked(0), lambda vector: vector.released(0)],
    ids=["revoked", "released"],
)
def test_a_partition_that_is_not_held_cannot_be_revoked_or_released(
    end: Callable[[Induced], object],
) -> None:
    vector = Induced(1, EXCLUSIVE)
    assert not end(vector)
    assert vector.held == {}
