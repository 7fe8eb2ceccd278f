"""The explorer of groups, briefly: in no order do two lead, and a missing rule is noticed."""

import pytest

from tests.sim.explorer import explore
from tests.sim.sessions_ablations import without
from tests.sim.sessions_explorer import Bounds, World


def test_in_no_order_of_events_do_two_lead() -> None:
    found = explore(Bounds(), 1_500, begin=World)
    assert found.problem == ""
    assert found.states >= 1_500


def test_an_update_for_any_term_is_noticed() -> None:
    with without("groups-changed-under-any-reign"):
        found = explore(Bounds(beats=5), 5_000, begin=World)
    assert found.problem.startswith("Violation: SI1")


@pytest.mark.thorough
def test_a_confirmed_member_under_removal_is_noticed() -> None:
    with without("members-confirmed-though-leaving"):
        found = explore(Bounds(), 40_000, begin=World)
    assert found.problem.startswith("Violation: SI1")


@pytest.mark.slow
def test_in_no_order_of_two_hundred_thousand_states_do_two_lead() -> None:
    found = explore(Bounds(beats=7, leaves=1), 200_000, begin=World)
    assert found.problem == ""
    assert found.states >= 200_000
