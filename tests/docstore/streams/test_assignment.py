"""The replicas of a topic's partitions: balanced, spread, stable, away from their documents."""

import math
from collections import Counter
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from docstore.model.slots import slot_of
from docstore.ownership.by_hash import Placed, member_points, place, point, ranked
from docstore.streams.assignment import assignments, order_of
from docstore.streams.replica_set import partition_link

SLOTS = 256
TOPICS = st.sampled_from(["flights", "a", "größe", "x@y"])
SIZES = st.integers(1, 9)


def members(count: int, zones: int = 0) -> list[Placed]:
    return [Placed(f"n{i}", f"z{i % zones}" if zones else "") for i in range(count)]


def owner_in(group: list[Placed]) -> Callable[[str], str]:
    """Return a function from a link to the owner of its document in this group."""
    table = place(group, slots=SLOTS, points_per_node=8, replication_factor=3)
    return lambda link: table.replicas(slot_of(link, SLOTS))[0]


def assigned(
    topic: str, partitions: int, group: list[Placed], copies: int, first: int = 0
) -> dict[int, tuple[str, ...]]:
    numbers, copies = range(first, partitions), min(copies, len(group))
    return dict(assignments(topic, numbers, group, copies=copies, owner_of=owner_in(group)))


@given(TOPICS, st.integers(1, 40), SIZES, st.integers(1, 4))
def test_every_partition_has_its_replicas_and_no_member_leads_more_than_its_share(
    topic: str, partitions: int, size: int, copies: int
) -> None:
    found = assigned(topic, partitions, members(size), copies)
    assert list(found) == list(range(partitions))
    for replicas in found.values():
        assert len(set(replicas)) == len(replicas) == min(copies, size)
    led = Counter(replicas[0] for replicas in found.values())
    assert max(led.values()) <= math.ceil(partitions / size)


@given(TOPICS, st.integers(1, 20), st.integers(1, 20), SIZES)
def test_added_partitions_do_not_move_earlier_ones(
    topic: str, before: int, more: int, size: int
) -> None:
    group = members(size)
    whole = assigned(topic, before + more, group, 3)
    assert assigned(topic, before, group, 3).items() <= whole.items()
    added = assigned(topic, before + more, group, 3, first=before)
    assert added == {number: whole[number] for number in range(before, before + more)}


@given(TOPICS, SIZES)
def test_the_order_of_the_members_does_not_matter(topic: str, size: int) -> None:
    group = members(size)
    assert assigned(topic, 12, group, 3) == assigned(topic, 12, group[::-1], 3)


@given(TOPICS, st.integers(2, 9), st.integers(2, 4))
def test_the_owner_of_the_document_is_the_last_to_lead(topic: str, size: int, copies: int) -> None:
    group = members(size)
    found = assigned(topic, size, group, copies)
    owner_of = owner_in(group)
    owners = {n: owner_of(partition_link(topic, n)) for n in found}
    beside = [n for n, replicas in found.items() if replicas[0] == owners[n]]
    # Each member leads one of these: if all documents have one owner, so does that one.
    assert len(beside) == (len(set(owners.values())) == 1)
    for n, replicas in found.items():
        assert n in beside or owners[n] not in replicas[:-1]


def test_the_last_replica_of_a_round_is_swapped_to_avoid_the_owner_of_the_document() -> None:
    for topic in map(str, range(50)):
        where = {partition_link(topic, n): owner for n, owner in enumerate("abcd")}
        group = [Placed(name) for name in "abcd"]
        found = assignments(topic, range(4), group, copies=2, owner_of=where.__getitem__)
        leaders = [replicas[0] for _, replicas in found]
        assert sorted(leaders) == list("abcd")
        assert all(leader != owner for leader, owner in zip(leaders, "abcd", strict=True))


def test_a_lone_replica_follows_its_rank_and_ignores_the_owner_of_the_document() -> None:
    group = members(4)
    for topic in map(str, range(20)):
        [(_, replicas)] = assignments(
            topic, range(1), group, copies=1, owner_of=lambda link: order_of(link, ["n0"])[0]
        )
        assert replicas == (order_of(partition_link(topic, 0), [m.id for m in group])[0],)


def test_members_are_ranked_for_the_records_and_not_as_they_are_for_the_document() -> None:
    names = [f"n{i}" for i in range(5)]
    points = {name: member_points(name, 128) for name in names}
    link = partition_link("flights", 3)
    assert order_of(link, names) == [m for _, m in ranked(point(f"{link}/records"), points)]
    links = [partition_link("flights", n) for n in range(50)]
    nearest = [ranked(point(link), points)[0][1] == order_of(link, names)[0] for link in links]
    assert nearest.count(True) < 25


def test_replicas_are_in_different_zones_while_there_are_zones() -> None:
    group = members(9, zones=3)
    zones = {member.id: member.zone for member in group}
    for replicas in assigned("flights", 30, group, 3).values():
        assert len({zones[member] for member in replicas}) == 3
    two = members(6, zones=2)
    zones = {member.id: member.zone for member in two}
    for replicas in assigned("flights", 30, two, 3).values():
        assert len({zones[member] for member in replicas}) == 2


def test_partitions_of_different_topics_are_led_by_different_members() -> None:
    group = members(5)
    first = {assigned(topic, 1, group, 2)[0][0] for topic in map(str, range(50))}
    assert len(first) == 5
