"""The heads of a document do not depend on the order in which its versions came."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from docstore.documents.eventual.branches import RANKS, Branches
from docstore.documents.eventual.lineage import covers
from docstore.model.document import Row
from tests.docstore.documents.eventual.history import History, histories

SOME = st.integers(0, 2**24 - 1)
"""A bit for each version: is it among them?"""


def of(rows: list[Row]) -> list[Row]:
    return [head.row for head in Branches.of(rows).heads]


def rows_of(history: History) -> list[Row]:
    return [each.row for each in history.versions]


@given(histories(), st.randoms(use_true_random=False))
def test_heads_do_not_depend_on_the_order(history: History, chance: Random) -> None:
    rows = rows_of(history)
    shuffled = rows * 2
    chance.shuffle(shuffled)
    assert of(shuffled) == of(rows)


@given(st.sampled_from([1, 2]), st.integers(0, 9))
def test_two_disks_of_a_node_may_write_in_the_same_microsecond(level: int, wall_us: int) -> None:
    history = History(level)
    history.step("disk-a", "write", wall_us)
    history.step("disk-d", "write", wall_us)
    one, other = rows_of(history)
    assert of([one, other]) == of([other, one])
    assert len(of([one, other])) == 2


@given(histories(), SOME, SOME)
def test_two_copies_may_be_joined_by_their_heads(history: History, left: int, right: int) -> None:
    """Join the heads of two copies, with the same result as joining all versions."""
    rows = rows_of(history)
    some = [row for n, row in enumerate(rows) if left >> n & 1]
    others = [row for n, row in enumerate(rows) if right >> n & 1]
    assert of(of(some) + of(others)) == of(some + others) == of(of(others) + some)


@given(histories())
def test_heads_are_the_versions_without_descendants(history: History) -> None:
    followed = {
        number
        for itself, each in enumerate(history.versions)
        for number in each.ancestors - {itself}
    }
    expected = [each.row for n, each in enumerate(history.versions) if n not in followed]
    expected.sort(key=RANKS[history.level], reverse=True)
    assert of(rows_of(history)) == expected


@given(histories(), SOME)
def test_branches_know_the_added_versions_and_their_ancestors(history: History, some: int) -> None:
    added = [each for n, each in enumerate(history.versions) if some >> n & 1]
    branches, known = Branches(), frozenset[int]()
    for version in added:
        assert branches.add(version.row) == (history.versions.index(version) not in known)
        assert not branches.add(version.row)
        known |= version.ancestors
    for number, version in enumerate(history.versions):
        assert branches.knows(version.lineage.hand, version.row.updated_us) == (number in known)


@given(histories())
def test_no_head_descends_from_another(history: History) -> None:
    heads = Branches.of(rows_of(history)).lineages
    assert not any(covers(a, b) for a in heads for b in heads if a is not b)


@given(histories(), st.integers(0, 40))
def test_old_losers_are_dropped_and_the_winner_never(history: History, before_us: int) -> None:
    branches = Branches.of(rows_of(history))
    heads = of(rows_of(history))
    gone = branches.drop_losers(before_us)
    assert gone == [row for row in heads[1:] if row.updated_us < before_us]
    assert [head.row for head in branches.heads] == [row for row in heads if row not in gone]
    assert branches.drop_losers(before_us) == []
