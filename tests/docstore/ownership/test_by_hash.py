"""The policy by hash: the same table everywhere, balanced, with few moves on a change."""

import hashlib
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docstore.model.slots import from_bitmap, slot_of, to_bitmap
from docstore.ownership.by_hash import (
    RING,
    Placed,
    distance,
    member_points,
    place,
    ranking,
    slot_point,
)


def members(count: int, zones: int = 0) -> list[Placed]:
    return [Placed(f"n{i}", f"z{i % zones}" if zones else "") for i in range(count)]


def test_slot_of_a_link_is_the_first_bits_of_its_sha256() -> None:
    digest = hashlib.sha256(b"/movies/heat").digest()
    assert slot_of("/movies/heat", 1024) == int.from_bytes(digest[:2], "big") >> 6
    assert slot_of("/movies/heat", 1) == 0


@given(st.integers(0, RING - 1), st.integers(0, RING - 1))
def test_distance_is_symmetric_and_at_most_half_the_ring(one: int, other: int) -> None:
    assert distance(one, other) == distance(other, one)
    assert 0 <= distance(one, other) <= RING // 2


def test_order_of_the_members_does_not_matter() -> None:
    forwards = place(members(7), slots=256, replication_factor=3)
    assert place(members(7)[::-1], slots=256, replication_factor=3) == forwards


@pytest.mark.parametrize("count", [3, 10, 40])
def test_busiest_member_owns_at_most_a_tenth_more_than_the_mean(count: int) -> None:
    placement = place(members(count), slots=1024, replication_factor=3)
    owned = Counter(replicas[0] for replicas in placement.table)
    assert sum(owned.values()) == 1024
    assert max(owned.values()) <= 1.10 * 1024 / count


def test_without_the_bound_one_point_per_node_is_the_nearest_member() -> None:
    placement = place(members(5), slots=256, points_per_node=1, cap_factor=None)
    points = {member.id: member_points(member.id, 1) for member in members(5)}
    for slot in range(256):
        assert list(placement.replicas(slot)) == [name for _, name in ranking(slot, 256, points)]


def test_ranking_names_the_distance_from_the_middle_of_the_slot() -> None:
    points = {member.id: member_points(member.id, 1) for member in members(3)}
    for gap, name in ranking(17, 256, points):
        assert gap == distance(slot_point(17, 256), points[name][0])


@pytest.mark.parametrize("count", [3, 6, 12])
def test_a_join_moves_little(count: int) -> None:
    before = place(members(count), slots=1024).table
    after = place(members(count + 1), slots=1024).table
    moved = sum(old[0] != new[0] for old, new in zip(before, after, strict=True))
    assert moved <= 1.3 * 1024 / count


def test_replicas_spread_over_zones_while_there_are_zones() -> None:
    zones = {member.id: member.zone for member in members(6, zones=3)}
    for replicas in place(members(6, zones=3), slots=256, replication_factor=3).table:
        assert {zones[name] for name in replicas} == {"z0", "z1", "z2"}


def test_two_zones_and_three_replicas_fall_back_to_the_nearest() -> None:
    for replicas in place(members(4, zones=2), slots=64, replication_factor=3).table:
        assert len(set(replicas)) == 3


def test_every_member_is_a_replica_when_no_factor_is_set() -> None:
    for replicas in place(members(4), slots=64).table:
        assert sorted(replicas) == ["n0", "n1", "n2", "n3"]


@given(st.sets(st.integers(0, 1023)))
def test_bitmaps_keep_their_slots(slots: set[int]) -> None:
    assert set(from_bitmap(to_bitmap(slots, 1024))) == slots
