"""Offsets of a group: claims fence commits, and under one token nothing goes back."""

from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docstore.model.service import Refusal, State
from docstore.services import offsets
from docstore.services.offsets import OffsetService, is_of_offsets, nothing_read, offset_link
from docstore.services.registry import Registry

SERVICE = OffsetService()


def after(state: State, kind: str, **said: object) -> State:
    """Return the state after a request, which may change nothing."""
    found = SERVICE.patch(state, {"kind": kind, **said})
    SERVICE.check(state if found is None else found)
    return state if found is None else found


def test_every_offset_of_every_group_has_its_service() -> None:
    link = offset_link("/core/groups/etl", "flights/2")
    assert link == "/core/groups/etl/offsets/flights/2"
    found = Registry().service_for(link)
    assert isinstance(found, OffsetService)
    assert not is_of_offsets("/core/groups/etl/offsets")
    assert not is_of_offsets("/core/groups/etl/offsets/flights/2")


def test_a_claim_returns_where_the_one_before_had_come() -> None:
    state = after(nothing_read(), "ClaimRequest", token=3)
    assert state["offset"] == -1
    state = after(state, "CommitRequest", token=3, offset=40)
    assert after(state, "ClaimRequest", token=7)["offset"] == 40


def test_n14_a_commit_under_an_older_token_is_refused_and_changes_nothing() -> None:
    state = after(nothing_read(), "ClaimRequest", token=7)
    for kind in ("CommitRequest", "ClaimRequest"):
        said = {"offset": 50} if kind == "CommitRequest" else {}
        with pytest.raises(Refusal) as refusal:
            after(state, kind, token=3, **said)
        assert (refusal.value.status, refusal.value.code) == (409, "fenced")


def test_a_commit_under_a_token_that_has_claimed_nothing_is_refused() -> None:
    for state in (nothing_read(), after(nothing_read(), "ClaimRequest", token=2)):
        with pytest.raises(Refusal) as refusal:
            after(state, "CommitRequest", token=3, offset=50)
        assert (refusal.value.status, refusal.value.code) == (409, "not-claimed")


def test_a_late_repetition_of_a_commit_does_not_take_the_offset_back() -> None:
    state = after(nothing_read(), "ClaimRequest", token=3)
    state = after(state, "CommitRequest", token=3, offset=40)
    assert SERVICE.patch(state, {"kind": "CommitRequest", "token": 3, "offset": 30}) is None
    assert SERVICE.patch(state, {"kind": "ClaimRequest", "token": 3}) is None


def test_a_claim_of_a_topic_that_was_made_again_begins_at_its_first_offset() -> None:
    state = after(nothing_read(), "ClaimRequest", token=3, incarnation="i1")
    state = after(state, "CommitRequest", token=3, offset=20, incarnation="i1", metadata="m")
    assert after(state, "ClaimRequest", token=7, incarnation="i1")["offset"] == 20
    for token in (3, 7):  # Also of the member that reads it at this moment.
        anew = after(state, "ClaimRequest", token=token, incarnation="i2")
        assert (anew["offset"], anew["metadata"], anew["incarnation"]) == (0, "", "i2")
        for late in ("i1", "i3"):
            with pytest.raises(Refusal, match="claim it first") as refusal:
                after(anew, "CommitRequest", token=token, offset=25, incarnation=late)
            assert (refusal.value.status, refusal.value.code) == (409, "topic-recreated")
        assert after(anew, "CommitRequest", token=token, offset=2, incarnation="i2")["offset"] == 2


def test_without_go3_a_group_would_skip_the_records_of_a_topic_that_was_made_again() -> None:
    with (
        patch.object(offsets, "_of_incarnation", lambda state, named, *, is_claim: state),
        pytest.raises(AssertionError),
    ):
        test_a_claim_of_a_topic_that_was_made_again_begins_at_its_first_offset()


def test_a_group_without_an_offset_has_none_in_the_next_topic() -> None:
    state = after(nothing_read(), "ClaimRequest", token=3, incarnation="i1")
    assert after(state, "ClaimRequest", token=7, incarnation="i2")["offset"] == -1


def test_an_offset_without_an_incarnation_gets_that_of_the_first_claim() -> None:
    before = {**nothing_read(), "offset": 20, "token": 3}
    state = after(before, "ClaimRequest", token=3, incarnation="i1")
    assert (state["offset"], state["incarnation"]) == (20, "i1")


def test_a_commit_beyond_the_end_of_its_partition_is_refused() -> None:
    state = after(nothing_read(), "ClaimRequest", token=3)
    with pytest.raises(Refusal, match="offset must be from 0 to 10; got 99999") as refusal:
        after(state, "CommitRequest", token=3, offset=99_999, end=10)
    assert (refusal.value.status, refusal.value.code) == (416, "offset-out-of-range")
    with pytest.raises(Refusal, match="token 3 has claimed the offset"):
        after(state, "CommitRequest", token=2, offset=99_999, end=10)
    assert after(state, "CommitRequest", token=3, offset=10, end=10)["offset"] == 10


def test_an_operator_may_set_it_back() -> None:
    state = after(nothing_read(), "ClaimRequest", token=3)
    state = after(state, "CommitRequest", token=3, offset=40)
    state = after(state, "ResetRequest", offset=10, incarnation="i2")
    assert (state["offset"], state["incarnation"]) == (10, "i2")


def test_a_reset_fences_the_members_before_and_is_refused_after_a_later_one() -> None:
    state = after(nothing_read(), "ClaimRequest", token=3)
    state = after(state, "ResetRequest", offset=10, token=4)
    with pytest.raises(Refusal, match="token 4 has claimed the offset") as refusal:
        after(state, "CommitRequest", token=3, offset=40)
    assert refusal.value.code == "fenced"
    state = after(state, "ClaimRequest", token=5)
    with pytest.raises(Refusal, match="claimed the offset meanwhile") as refusal:
        after(state, "ResetRequest", offset=0, token=4)
    assert (refusal.value.status, refusal.value.code) == (409, "group-not-empty")


REQUESTS = st.lists(st.tuples(st.booleans(), st.integers(1, 6), st.integers(0, 99)))


@given(REQUESTS)
def test_x1_a_claim_returns_every_commit_of_before_and_none_of_them_comes_after_it(
    requests: list[tuple[bool, int, int]],
) -> None:
    state, greatest, claimed = nothing_read(), -1, 0
    for is_claim, token, offset in requests:
        said = {} if is_claim else {"offset": offset}
        try:
            state = after(
                state, "ClaimRequest" if is_claim else "CommitRequest", token=token, **said
            )
        except Refusal:
            assert token < claimed if is_claim else token != claimed
            continue
        assert token >= claimed if is_claim else token == claimed
        greatest, claimed = max(greatest, -1 if is_claim else offset), token
        assert state["offset"] == greatest


@pytest.mark.parametrize(
    "request_",
    [
        {"kind": "ForgetRequest"},
        {"kind": "ClaimRequest"},
        {"kind": "ClaimRequest", "token": "3"},
        {"kind": "CommitRequest", "token": 3},
        {"kind": "CommitRequest", "token": 3, "offset": -1},
        {"kind": "CommitRequest", "token": 3, "offset": 1, "metadata": "x" * 5_000},
        {"kind": "ClaimRequest", "token": 3, "more": 1},
        {"kind": "ResetRequest"},
    ],
)
def test_requests_that_make_no_sense_are_refused(request_: State) -> None:
    with pytest.raises(Refusal) as refusal:
        SERVICE.patch(nothing_read(), request_)
    assert refusal.value.status == 400
