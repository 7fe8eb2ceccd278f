"""A version vector shows exactly the ancestors of a version, whatever disks did."""

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from docstore.documents.eventual.lineage import Lineage, covers, stamp_after
from tests.docstore.documents.eventual.history import History, histories


@given(histories())
def test_covers_is_ancestry(history: History) -> None:
    for (_, newer), (number, older) in product(enumerate(history.versions), repeat=2):
        assert covers(newer.lineage, older.lineage) == (number in newer.ancestors)


@given(histories())
def test_covers_is_a_partial_order(history: History) -> None:
    lineages = [each.lineage for each in history.versions]
    assert all(covers(each, each) for each in lineages)
    above = {(a, b) for a, b in product(range(len(lineages)), repeat=2) if a != b}
    above = {(a, b) for a, b in above if covers(lineages[a], lineages[b])}
    assert not any((b, a) in above for a, b in above)
    assert all((a, d) in above for (a, b), (c, d) in product(above, repeat=2) if b == c)


@given(histories())
def test_a_version_is_named_once_by_its_hand_and_stamp(history: History) -> None:
    names = [(each.lineage.hand, each.row.updated_us) for each in history.versions]
    assert len(set(names)) == len(names)
    for version in history.versions:
        assert version.lineage.ancestors[version.lineage.hand] == version.row.updated_us


@given(histories())
def test_stamps_grow_along_each_hand(history: History) -> None:
    for version in history.versions:
        for number in version.ancestors:
            older = history.versions[number]
            if older is not version and older.lineage.hand == version.lineage.hand:
                assert older.row.updated_us < version.row.updated_us


HANDS = st.sampled_from(["a@1", "a@2", "b@1", "ab@1"])


@given(st.integers(0, 50), st.lists(st.dictionaries(HANDS, st.integers(0, 50))))
def test_a_stamp_follows_its_own_disk_and_no_other(
    wall_us: int, ancestors: list[dict[str, int]]
) -> None:
    own = [at for each in ancestors for hand, at in each.items() if hand in {"a@1", "a@2"}]
    parents = [Lineage(1, "a@1", each) for each in ancestors]
    assert stamp_after(wall_us, parents, "a") == max([wall_us, *(at + 1 for at in own)])
