"""Election by lag: candidates, committed ends, replicas in step, and allowed transitions."""

from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docstore.model.document import NO_BALLOT, Ballot
from docstore.ownership.by_lag import (
    LED,
    RESOLUTIONS,
    Copies,
    Copy,
    Resolution,
    choose,
    elected,
    high_watermark,
    may_follow,
    with_added,
    without,
)
from tests.source import ROOT

A, B, C, D = (("a", "1"), ("b", "1"), ("c", "1"), ("d", "1"))
COPIES = [A, B, C, D, ("a", "2")]
SETS = st.lists(st.sampled_from(COPIES), unique=True, max_size=4)


def rank_of(order: str) -> dict[str, int]:
    return {node: position for position, node in enumerate(order)}


@pytest.mark.parametrize(
    ("answers", "order", "chosen"),
    [
        ({}, "abc", None),
        ({"a": ((3, "x"), 7)}, "abc", "a"),
        ({"a": ((3, "x"), 7), "b": ((3, "x"), 9)}, "abc", "b"),
        ({"a": ((3, "x"), 7), "b": ((3, "x"), 7)}, "bac", "b"),
        ({"a": ((3, "x"), 99), "b": ((4, "y"), 7)}, "abc", "b"),
        ({"a": (NO_BALLOT, 0), "b": (NO_BALLOT, 0), "c": (NO_BALLOT, 0)}, "cba", "c"),
    ],
)
def test_the_replica_that_lags_least_leads_and_rank_decides_between_equals(
    answers: dict[str, tuple[Ballot, int]], order: str, chosen: str | None
) -> None:
    assert choose(answers, rank_of(order).__getitem__) == chosen


def test_equal_ranks_do_not_make_the_choice_depend_on_the_order_of_answers() -> None:
    alike = ((3, "x"), 7)
    assert choose({"b": alike, "a": alike}, lambda _: 0) == "a"
    assert choose({"a": alike, "b": alike}, lambda _: 0) == "a"


@pytest.mark.parametrize(
    ("acks", "required", "high"),
    [
        ({"a": 4, "b": 3, "c": 2}, ["a", "b", "c"], 2),  # Scenario F06.
        ({"a": 4, "b": 3, "c": 2}, ["a", "b"], 3),
        ({"a": 4, "b": 3, "c": 2}, ["a"], 4),
        ({"a": 2}, ["a"], 2),  # Scenario F03: a lone leader.
        ({"a": 2, "b": 0}, ["a", "b"], 0),
        ({"a": 2}, ["a", "b"], None),
        ({}, ["a"], None),
        ({"a": 2}, [], None),
        ({}, [], None),
    ],
)
def test_the_end_that_all_required_replicas_have_is_committed(
    acks: dict[str, int], required: list[str], high: int | None
) -> None:
    assert high_watermark(acks, required) == high


@pytest.mark.parametrize(
    ("lrs", "elr", "gone", "least", "after"),
    [
        ((A, B, C), (), [C], 2, ((A, B), ())),
        ((A, B), (), [B], 2, ((A,), (B,))),
        ((A, B), (), [B], 1, ((A,), ())),
        ((A,), (B,), [A], 2, ((), (A, B))),
        ((A, B, C), (), [B, C], 3, ((A,), (B, C))),
        ((A, B), (), [("b", "2")], 2, ((A, B), ())),
        ((A,), (B,), [], 1, ((A,), ())),  # `minInSync` became smaller.
        ((A,), (), [], 2, ((A,), ())),  # It became greater: B, long outside, stays out.
    ],
)
def test_a_leaving_replica_stays_eligible_only_while_too_few_are_in_step(
    lrs: Copies, elr: Copies, gone: list[Copy], least: int, after: tuple[Copies, Copies]
) -> None:
    assert without(lrs, elr, gone, least) == after


@pytest.mark.parametrize(
    ("lrs", "elr", "copy", "least", "after"),
    [
        ((A, B), (), C, 2, ((A, B, C), ())),
        ((A,), (B,), B, 2, ((A, B), ())),
        ((A,), (B, C), B, 3, ((A, B), (C,))),
        ((A,), (B,), ("b", "2"), 3, ((A, ("b", "2")), ())),
        ((A, B), (), ("b", "2"), 1, ((A, ("b", "2")), ())),
    ],
)
def test_a_replica_that_catches_up_replaces_the_earlier_copy_of_its_node(
    lrs: Copies, elr: Copies, copy: Copy, least: int, after: tuple[Copies, Copies]
) -> None:
    assert with_added(lrs, elr, copy, least) == after


@pytest.mark.parametrize(
    ("lrs", "elr", "answered", "candidate", "least", "after"),
    [
        ((A, B, C), (), [C, B], B, 2, ((B, C), ())),
        ((A, B, C), (), [B], B, 2, ((B,), (A, C))),
        ((A,), (B,), [B], B, 2, ((B,), (A,))),
        ((A, B), (), [B, D], B, 1, ((B,), ())),
        ((), (), [C, A], C, 2, ((C, A), ())),  # The first election: no replica has rows yet.
        ((A, B), (), [C, D], C, 2, ((C,), ())),  # An unclean one.
    ],
)
def test_an_election_keeps_the_eligible_replicas_that_answered(
    lrs: Copies, elr: Copies, answered: list[Copy], candidate: Copy, least: int,
    after: tuple[Copies, Copies],
) -> None:  # fmt: skip
    assert elected(lrs, elr, answered, candidate, least) == after


@given(lrs=SETS, elr=SETS, gone=SETS, copy=st.sampled_from(COPIES), least=st.integers(1, 3))
def test_eligible_replicas_were_known_and_end_once_enough_are_in_step(
    lrs: list[Copy], elr: list[Copy], gone: list[Copy], copy: Copy, least: int
) -> None:
    before = tuple(lrs), tuple(each for each in elr if each not in lrs)
    known = {*lrs, *elr}
    for live, eligible in (
        without(*before, gone, least),
        with_added(*before, copy, least),
        *([elected(*before, [*gone, copy], copy, least)] if copy in known else []),
    ):
        assert {*live, *eligible} <= known | {copy}
        assert not set(live) & set(eligible)
        assert not eligible or len(live) < least
    live, eligible = without(*before, gone, least)
    if len(live) < least:
        assert {*live, *eligible} == known, "a replica with all that is committed was dropped"


# Allowed transitions


def state(resolution: str, epoch: int = 5, **members: Any) -> dict[str, Any]:
    """Return a state of a partition on a, b and c, with a and b in step."""
    leads = resolution in LED
    return {
        "incarnation": "i", "replicas": ["a", "b", "c"], "epoch": epoch,
        "leader": "a" if leads else "",
        "candidate": "a" if resolution == "CandidateFound" else "",
        "lrs": [list(A), list(B)], "elr": [], "minInSync": 2, "unclean": 0,
        "resolution": resolution,
    } | members  # fmt: skip


def test_only_the_transitions_of_the_table_are_allowed() -> None:
    allowed = set()
    for before, after, grown in product(Resolution, Resolution, (-1, 0, 1, 2)):
        if not may_follow(state(before), state(after, 5 + grown)):
            allowed.add((before, after, grown))
    assert allowed == {(*pair, each.epochs) for pair, each in RESOLUTIONS.items()}


def test_each_election_and_nothing_else_starts_an_epoch() -> None:
    grown = {pair for pair, each in RESOLUTIONS.items() if each.epochs}
    assert {after for _, after in grown} == {Resolution.ELECTION}
    assert all(each.epochs == 1 for pair, each in RESOLUTIONS.items() if pair in grown)
    assert not [pair for pair in RESOLUTIONS if pair[0] is Resolution.DELETED]
    led = {pair for pair in RESOLUTIONS if pair[1] in LED and pair[0] not in LED}
    assert led == {(Resolution.CANDIDATE_FOUND, Resolution.ONLINE)}


def test_the_table_is_the_documented_one() -> None:
    said = set()
    for line in (ROOT / "docs/partitions.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        after = cells[-1].removesuffix(", epoch + 1")
        if after in set(Resolution):
            befores = set(Resolution) - {after} if cells[0] == "any" else cells[0].split(", ")
            said |= {(before, after, cells[-1] != after) for before in befores}
    changes = {pair: each for pair, each in RESOLUTIONS.items() if pair[0] is not pair[1]}
    assert said == {(*pair, bool(each.epochs)) for pair, each in changes.items()}


FRESH: dict[str, Any] = {"lrs": [], "elr": []}
ALONE: dict[str, Any] = {"lrs": [list(A)], "elr": [list(B)]}
CANDIDATE_C: dict[str, Any] = {"candidate": "c", "lrs": [list(C)]}


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        (state("CandidateFound"), state("Online", leader="b"), "only the candidate may lead"),
        (state("Online"), state("Online", leader="b"), "a leader is made by an election"),
        (state("Online"), state("OutOfStorage", leader="b"), "a leader is made by an election"),
        (state("CandidateFound"), state("CandidateFound", candidate="b"), "one candidate"),
        (state("Election"), state("CandidateFound", candidate="b"), ""),
        (state("Online"), state("Online", incarnation="j"), "keeps its incarnation"),
        # Candidates.
        (state("Election"), state("CandidateFound", **CANDIDATE_C), "has all committed records"),
        (state("Election", **FRESH), state("CandidateFound", **CANDIDATE_C), ""),
        (state("Election"), state("CandidateFound", lrs=[["a", "2"]]), "all committed records"),
        (state("Election", **ALONE), state("CandidateFound", lrs=[list(B)], candidate="b"), ""),
        # An unclean election.
        (state("Election"), state("CandidateFound", unclean=5, **CANDIDATE_C), ""),
        (state("Election"), state("CandidateFound", unclean=4, **CANDIDATE_C), "own epoch"),
        (state("Online"), state("Online", unclean=5), "marked by its own epoch"),
        (state("Election"), state("CandidateFound", unclean=5), "begins alone"),
        (
            state("Election"),
            state("CandidateFound", unclean=5, **CANDIDATE_C, elr=[list(A)]),
            "begins alone",
        ),
        # The live replica set.
        (state("Online"), state("Online", lrs=[list(A), list(B), list(C)]), ""),
        (state("OutOfStorage"), state("Online", lrs=[list(A)], elr=[list(B)]), ""),
        (state("Online"), state("Online", lrs=[list(A)], elr=[list(C)]), "left in step"),
        (state("Online"), state("Online", elr=[list(C)]), "left in step"),
        (state("Online", **ALONE), state("Online"), ""),
        (state("Online", **ALONE), state("Online", elr=[list(B)]), "left in step"),
        (state("Online", **ALONE), state("Online", **ALONE | {"minInSync": 1}), "left in step"),
        (state("Online", **ALONE), state("Online", lrs=[list(A)], minInSync=1), ""),
        (state("Online"), state("Election", 6, lrs=[list(A)]), "the leader's to change"),
        (state("Offline"), state("Offline", lrs=[list(A)]), "the leader's to change"),
        (state("CandidateFound"), state("Online", lrs=[list(A)]), "the leader's to change"),
        (state("Online", **ALONE), state("Online", lrs=[], elr=[list(A)]), "never empty again"),
        (state("Online"), state("Deleted"), ""),
    ],
)
def test_a_state_may_follow_only_if_no_rule_is_broken(
    before: dict[str, Any], after: dict[str, Any], why: str
) -> None:
    found = may_follow(before, after)
    assert why in found
    assert bool(why) == bool(found)
