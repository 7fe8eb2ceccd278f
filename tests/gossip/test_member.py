"""Which of two beliefs wins: the whole table, then the laws of a semilattice."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossip.member import PRECEDENCE, Member, Needs, State, merge, supersedes

# Incoming, held, and whether it replaces at a smaller, equal, greater incarnation.
ROWS = """
alive    alive    - - +
alive    suspect  - - +
alive    dead     - - +
alive    left     - - +
suspect  alive    - + +
suspect  suspect  - - +
suspect  dead     - - +
suspect  left     - - +
dead     alive    - + +
dead     suspect  - + +
dead     dead     - - +
dead     left     - - +
left     alive    - + +
left     suspect  - + +
left     dead     - + +
left     left     - - +
"""
TABLE = [
    (State(incoming), State(held), delta, verdict == "+")
    for incoming, held, *verdicts in (row.split() for row in ROWS.strip().splitlines())
    for delta, verdict in zip((-1, 0, 1), verdicts, strict=True)
]


def belief(state: State, incarnation: int = 5, uid: bytes = b"uid-0001") -> Member:
    return Member("a", uid, ("127.0.0.1", 1), incarnation, state)


@pytest.mark.parametrize(("incoming", "held", "delta", "wins"), TABLE)
def test_precedence(incoming: State, held: State, delta: int, wins: bool) -> None:
    assert supersedes(belief(incoming, 5 + delta), belief(held, 5)) is wins


def test_the_table_and_the_rows_cover_all_pairs_of_states() -> None:
    pairs = set(itertools.product(State, State))
    assert {(incoming, held) for incoming, held, _, _ in TABLE} == pairs
    assert {(new, held) for held, row in PRECEDENCE.items() for new in row} == pairs


def test_the_precedence_rows_match_the_table() -> None:
    for incoming, held, delta, wins in TABLE:
        if delta == 0 and incoming is not held:
            assert (PRECEDENCE[held][incoming] is Needs.EQUAL_OR_GREATER) is wins


def test_of_two_that_claim_one_name_at_one_incarnation_all_choose_the_same() -> None:
    one, other = belief(State.ALIVE, uid=b"uid-0001"), belief(State.ALIVE, uid=b"uid-0002")
    assert merge(one, other) == other
    assert merge(other, one) == other


def test_when_it_changed_is_no_part_of_a_belief() -> None:
    late = Member("a", b"uid-0001", ("127.0.0.1", 1), 5, State.ALIVE, changed_at_s=9.0)
    assert late == belief(State.ALIVE)
    assert not supersedes(late, belief(State.ALIVE))


beliefs = st.builds(
    Member,
    name=st.just("a"),
    uid=st.sampled_from([b"uid-0001", b"uid-0002"]),
    address=st.sampled_from([("127.0.0.1", 1), ("127.0.0.1", 2)]),
    incarnation=st.integers(0, 3),
    state=st.sampled_from(State),
    meta=st.sampled_from([b"", b"x"]),
)


@given(beliefs, beliefs)
def test_merge_is_commutative(a: Member, b: Member) -> None:
    assert merge(a, b) == merge(b, a)


@given(beliefs, beliefs, beliefs)
def test_merge_is_associative(a: Member, b: Member, c: Member) -> None:
    assert merge(merge(a, b), c) == merge(a, merge(b, c))


@given(beliefs, beliefs)
def test_merge_is_idempotent(a: Member, b: Member) -> None:
    assert merge(a, a) == a
    assert merge(merge(a, b), b) == merge(a, b)


@given(beliefs, beliefs)
def test_of_two_different_beliefs_exactly_one_wins(a: Member, b: Member) -> None:
    assert supersedes(a, b) + supersedes(b, a) == (a != b)


@given(st.permutations([0, 1, 2, 3, 4]), st.lists(beliefs, min_size=5, max_size=5))
def test_the_order_of_hearing_does_not_matter(order: list[int], heard: list[Member]) -> None:
    forwards, shuffled = heard[0], heard[order[0]]
    for member in heard:
        forwards = merge(forwards, member)
    for index in order:
        shuffled = merge(shuffled, heard[index])
    assert forwards == shuffled
