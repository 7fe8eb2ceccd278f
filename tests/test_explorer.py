"""The explorer, briefly: no order of events breaks an invariant, and a missing rule is noticed."""

import pytest

from tests.sim.ablations import ablated
from tests.sim.explorer import Bounds, explore


def test_no_order_of_events_breaks_an_invariant() -> None:
    found = explore(Bounds(), 5_000)
    assert found.problem == ""
    assert found.states >= 5_000


def test_no_order_of_events_parts_a_batch() -> None:
    found = explore(Bounds(batched=True), 1_000)
    assert found.problem == ""
    assert found.states >= 1_000
    with ablated("pages-that-part-batches"):
        found = explore(Bounds(crashes=0, late=1, batched=True), 5_000)
    assert "I13" in found.problem


@pytest.mark.slow
@pytest.mark.parametrize(("late", "crashes"), [(2, 0), (1, 1)])
def test_all_states_of_three_ballots_and_two_batches(late: int, crashes: int) -> None:
    found = explore(Bounds(crashes=crashes, late=late, batched=True), 1_000_000)
    assert (found.problem, found.complete) == ("", True)
    assert found.states >= 100_000


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("rule", "states"),
    [("own-log-as-base", 12_000), ("quorum-of-the-living", 20_000)],
)
def test_a_missing_rule_is_noticed(rule: str, states: int) -> None:
    with ablated(rule):
        found = explore(Bounds(crashes=0), states)
    assert found.problem
    assert found.way


@pytest.mark.parametrize("rule", ["own-log-as-base", "one-promise", "quorum-of-the-living"])
def test_a_missing_rule_is_noticed_with_a_late_message(rule: str) -> None:
    with ablated(rule):
        found = explore(Bounds(crashes=0, late=1), 5_000)
    assert found.problem
    assert found.way


@pytest.mark.slow
def test_a_hundred_thousand_states() -> None:
    found = explore(Bounds(), 100_000)
    assert found.problem == ""
    assert found.states >= 100_000


@pytest.mark.thorough
def test_all_states_of_three_ballots_and_two_documents_with_a_message_late() -> None:
    found = explore(Bounds(crashes=0, late=1), 1_000_000)
    assert (found.problem, found.complete) == ("", True)
    assert found.states >= 25_000


@pytest.mark.slow
@pytest.mark.parametrize(("late", "crashes"), [(2, 0), (1, 1)])
def test_all_states_of_three_ballots_and_two_documents(late: int, crashes: int) -> None:
    found = explore(Bounds(crashes=crashes, late=late), 1_000_000)
    assert (found.problem, found.complete) == ("", True)
    assert found.states >= 100_000


def test_all_states_of_one_ballot_and_one_write() -> None:
    found = explore(Bounds(ballots=1, writes=1, crashes=0, ordered=True), 10_000)
    assert (found.problem, found.complete) == ("", True)
    assert found.states >= 500


@pytest.mark.slow
def test_all_states_of_two_ballots_and_one_write() -> None:
    found = explore(Bounds(ballots=2, writes=1, crashes=0, ordered=True), 1_000_000)
    assert (found.problem, found.complete) == ("", True)
    assert found.states >= 100_000
