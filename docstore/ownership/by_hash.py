"""Policy by hash: the nearest live member by SHA-256 distance owns a slot. No vote, no timeout.

Each member has `points_per_node` points on a ring of 2^256; a slot's point is the middle of
its arc. The nearest member that is not full becomes the preferred owner (consistent hashing
with bounded loads: no member owns more than `cap_factor` times the mean), the next nearest
replicate, spread over zones while there are zones left. All of it is computed once per
configuration, so a request costs one SHA-256 and one look-up.

Source: the owner selection of Xenon (one point per node, Euclidean reading replaced by the
distance on the ring); Consistent Hashing with Bounded Loads (Mirrokni, Thorup, Zadimoghaddam,
2016) for the cap.
"""

import hashlib
import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

RING = 1 << 256


@dataclass(frozen=True, slots=True)
class Placed:
    """A member that can hold slots, and the zone with which it may fail."""

    id: str
    zone: str = ""


@dataclass(frozen=True, slots=True)
class Placement:
    """The replicas of every slot in order of preference, the preferred owner first.

    While the group changes there are two tables. At first only the old one counts and the newcomers
    of the next one learn; then both count.
    """

    slots: int
    table: tuple[tuple[str, ...], ...]
    points_per_node: int
    next_table: tuple[tuple[str, ...], ...] | None = None
    is_joint: bool = False

    def replicas(self, slot: int) -> tuple[str, ...]:
        """Return the replicas that count, in the order in which members try to own the slot."""
        if self.next_table is None or not self.is_joint:
            return self.table[slot]
        return (*self.table[slot], *self._newcomers(slot))

    def voting(self, slot: int) -> tuple[tuple[str, ...], ...]:
        """Return the sets of which each must give a majority: one, or the old and the new."""
        if self.next_table is None or not self.is_joint:
            return (self.table[slot],)
        return (self.table[slot], self.next_table[slot])

    def learners(self, slot: int) -> tuple[str, ...]:
        """Return the replicas that are being filled and do not count yet."""
        if self.next_table is None or self.is_joint:
            return ()
        return self._newcomers(slot)

    def next_replicas(self, slot: int) -> tuple[str, ...]:
        return (self.next_table or self.table)[slot]

    def held_by(self, member: str) -> list[int]:
        """Return the slots that a member holds, counted or only learning."""
        return [
            slot
            for slot in range(self.slots)
            if member in self.replicas(slot) or member in self.learners(slot)
        ]

    def _newcomers(self, slot: int) -> tuple[str, ...]:
        assert self.next_table is not None
        return tuple(each for each in self.next_table[slot] if each not in self.table[slot])


def point(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest(), "big")


def slot_point(slot: int, slots: int) -> int:
    return (2 * slot + 1) * (RING // (2 * slots))


def distance(one: int, other: int) -> int:
    """Return the distance of two points, the shorter way round the ring."""
    gap = abs(one - other)
    return min(gap, RING - gap)


def member_points(member: str, points_per_node: int) -> list[int]:
    """Return a member's points, ascending; a single point is the hash of the id itself."""
    if points_per_node == 1:
        return [point(member)]
    return sorted(point(f"{member}#{index}") for index in range(points_per_node))


def ranking(
    slot: int, slots: int, points: dict[str, list[int]], *, limit: int | None = None
) -> list[tuple[int, str]]:
    """Return (distance, member) from nearest to farthest; ties by id.

    points: member id -> its points, ascending.
    """
    order = ranked(slot_point(slot, slots), points)
    return order if limit is None else order[:limit]


def ranked(middle: int, points: dict[str, list[int]]) -> list[tuple[int, str]]:
    return sorted((_nearest(middle, own), member) for member, own in points.items())


def place(
    members: Sequence[Placed],
    *,
    slots: int,
    points_per_node: int = 128,
    replication_factor: int | None = None,
    cap_factor: float | None = 1.05,
) -> Placement:
    """Return the table of all slots for these members; the same on every node.

    members: any order, ids distinct, at least one.
    replication_factor: replicas per slot; None means every member (as in Xenon).
    cap_factor: None for no bound.
    """
    assert members
    points = {member.id: member_points(member.id, points_per_node) for member in members}
    zones = {member.id: member.zone for member in members}
    copies = min(replication_factor or len(members), len(members))
    room = math.ceil(slots / len(members) * cap_factor) if cap_factor else slots
    owned = dict.fromkeys(points, 0)
    table = []
    for slot in range(slots):
        order = [member for _, member in ranking(slot, slots, points)]
        owner = next(member for member in order if owned[member] < room)
        owned[owner] += 1
        table.append(spread(owner, order, zones, copies))
    return Placement(slots, tuple(table), points_per_node)


def spread(
    owner: str, order: Sequence[str], zones: Mapping[str, str], copies: int
) -> tuple[str, ...]:
    """Return owner and replicas: the nearest in zones not used yet, then the nearest at all."""
    chosen = [owner]
    used = {zones[owner]}
    for member in order:
        if len(chosen) < copies and member not in chosen and zones[member] not in used:
            chosen.append(member)
            used.add(zones[member])
    rest = [member for member in order if member not in chosen]
    chosen += rest[: copies - len(chosen)]
    rank = {member: position for position, member in enumerate(order)}
    return (owner, *sorted(chosen[1:], key=rank.__getitem__))


def _nearest(middle: int, points: list[int]) -> int:
    after = bisect_left(points, middle)
    return min(distance(middle, points[after % len(points)]), distance(middle, points[after - 1]))
