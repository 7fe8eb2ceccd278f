"""A proof counts from the sending, and ends before its grant."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docstore.ownership.proof import Proof, check_disjoint


def test_a_proof_counts_from_the_sending_and_holds_for_the_window() -> None:
    proof = Proof(2.0)
    assert not proof.is_valid(0.0)
    proof.confirm(10.0)
    assert proof.is_valid(12.0)
    assert not proof.is_valid(12.01)


def test_answers_that_come_out_of_order_keep_the_newest_proof() -> None:
    proof = Proof(2.0, stamp=10.0)
    proof.confirm(11.0)
    proof.confirm(10.5)
    assert proof.until == 13.0


def test_an_answer_in_flight_does_not_restore_a_dropped_proof() -> None:
    proof = Proof(2.0, stamp=10.0)
    proof.drop()
    proof.confirm(11.0)
    assert not proof.is_valid(11.0)


@given(
    ttl_s=st.floats(0.5, 3600.0),
    share=st.floats(0.01, 0.99),
    holder=st.floats(0.98, 1.02),
    owner=st.floats(0.98, 1.02),
    delay_s=st.floats(0.0, 100.0),
)
def test_an_accepted_window_ends_before_the_owner_counts_to_the_ttl(
    ttl_s: float, share: float, holder: float, owner: float, delay_s: float
) -> None:
    window_s = ttl_s * share
    try:
        check_disjoint(window_s, ttl_s, 0.02)
    except ValueError:
        # Rightly refused: with some clocks it would not be safe.
        assert window_s / 0.98 * 1.02 >= ttl_s * 0.95
        return
    believed_until = window_s / holder  # In true seconds after the sending.
    ended_at = delay_s + ttl_s / owner
    assert believed_until < ended_at


@pytest.mark.parametrize("window_s", [10.0, 9.99, 11.0, 0.0, -1.0])
def test_a_window_as_long_as_the_grant_is_refused(window_s: float) -> None:
    with pytest.raises(ValueError, match="must expire before its grant of 10 s"):
        check_disjoint(window_s, 10.0)
