"""The assignor: balanced, sticky, deterministic, and different from group to group."""

import math
from collections import Counter
from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from docstore.ownership.by_induction import hash_slot, partition_of
from docstore.services.assigning import assign

GROUP = "/core/roles/pricing"


def partitions(count: int) -> list[str]:
    return [str(number) for number in range(count)]


def assigned(
    count: int, members: list[str], held: Mapping[str, str] | None = None, group: str = GROUP
) -> dict[str, str]:
    """Assign among members of equal capacity."""
    return assign(group, partitions(count), capacities=dict.fromkeys(members, 1), held=held or {})


def names(count: int) -> list[str]:
    return [f"m{number}" for number in range(count)]


def moved(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    return [each for each in after if before[each] != after[each]]


def test_n02_three_members_share_six_partitions_two_each() -> None:
    assert sorted(Counter(assigned(6, names(3)).values()).values()) == [2, 2, 2]


def test_without_members_nothing_is_assigned() -> None:
    assert assigned(6, []) == {}


@given(st.integers(1, 60), st.integers(1, 12))
def test_n02_every_partition_has_one_member_and_loads_differ_by_one(
    count: int, members: int
) -> None:
    target = assigned(count, names(members))
    assert list(target) == partitions(count)
    loads = Counter(target.values())
    sizes = [loads[member] for member in names(members)]
    assert max(sizes) - min(sizes) <= 1


@given(st.integers(1, 60), st.lists(st.integers(1, 9), min_size=1, max_size=8))
def test_members_get_their_share_by_capacity(count: int, weights: list[int]) -> None:
    capacities = dict(zip(names(len(weights)), weights, strict=True))
    loads = Counter(assign(GROUP, partitions(count), capacities=capacities, held={}).values())
    for member, weight in capacities.items():
        share = count * weight / sum(weights)
        assert math.floor(share) <= loads[member] <= math.ceil(share)


@given(st.integers(1, 60), st.integers(1, 11))
def test_n10_a_join_moves_no_more_than_its_share_and_all_to_it(count: int, members: int) -> None:
    before = assigned(count, names(members))
    after = assigned(count, names(members + 1), before)
    changed = moved(before, after)
    assert len(changed) <= math.ceil(count / (members + 1))
    assert {after[each] for each in changed} <= {f"m{members}"}


@given(st.integers(1, 60), st.integers(2, 12), st.data())
def test_n10_a_leave_moves_only_the_leavers_partitions(
    count: int, members: int, data: st.DataObject
) -> None:
    before = assigned(count, names(members))
    leaver = data.draw(st.sampled_from(names(members)))
    after = assigned(count, [each for each in names(members) if each != leaver], before)
    assert set(moved(before, after)) == {each for each in before if before[each] == leaver}


@given(st.integers(1, 60), st.lists(st.booleans(), max_size=12), st.randoms())
def test_n10_assignments_stay_balanced_and_sticky_over_joins_and_leaves(
    count: int, joins: list[bool], random: st.DataObject
) -> None:
    members = ["m"]
    target = assigned(count, members)
    for number, wanted in enumerate(joins):
        joins_now = wanted or len(members) == 1
        if joins_now:
            members.append(f"x{number}")
        else:
            members.remove(random.choice(members))  # type: ignore[attr-defined]
        before, target = target, assigned(count, members, target)
        loads = Counter(target.values())
        assert max(loads.values()) - min(loads[each] for each in members) <= 1
        stayed = [each for each in before if before[each] in members]
        limit = math.ceil(count / len(members)) if joins_now else 0
        assert len([each for each in stayed if before[each] != target[each]]) <= limit


@given(st.integers(1, 40), st.integers(1, 8), st.randoms())
def test_i24_the_order_of_members_does_not_matter(
    count: int, members: int, random: st.DataObject
) -> None:
    shuffled = names(members)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert assigned(count, shuffled) == assigned(count, names(members))


def test_n13_two_groups_of_the_same_members_are_assigned_differently() -> None:
    one = assigned(60, names(6), group="/core/roles/pricing.a")
    other = assigned(60, names(6), group="/core/roles/pricing.b")
    alike = sum(one[each] == other[each] for each in one)
    assert alike < 30, "a random assignment has a sixth alike"
    of_one_member = [each for each in one if one[each] == "m0"]
    assert len({other[each] for each in of_one_member}) > 1


def test_n17_a_sixth_member_changes_the_leader_of_about_a_sixth_of_the_keys() -> None:
    before = assigned(60, names(5))
    after = assigned(60, names(6), before)
    slots = [hash_slot(f"key{number}", 1024) for number in range(3000)]
    carriers = [str(partition_of(slot, 60)) for slot in slots]
    changed = sum(before[each] != after[each] for each in carriers)
    assert 0.12 < changed / 3000 < 0.22
