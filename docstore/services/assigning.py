"""The assignor: gives each partition to a member. Sticky, balanced, the same on every node.

1. Each member's quota is its share of the partitions by capacity, rounded down. Partitions that are
   left over raise the quotas with the largest remainders; among equal remainders, the quota of the
   member that can keep the most partitions by it.
2. Each member keeps its partitions up to its quota. If it has more, those with the worst scores
   become free.
3. Each free partition, in order, goes to the member with the best score that is below its quota.

The score is a SHA-256 of group, partition and member (rendezvous hashing). Two groups with the same
members assign their partitions differently, so a crash does not hit the same partitions of both.

With equal capacities, loads differ by one at most. A join moves no more partitions than the new
member's quota, and a leave only those of the leaving member. Source: Thaler and Ravishankar (1996)
for the score; Kafka's sticky assignor (KIP-54) for keeping. Left out: racks; affinity of a member
to a partition.
"""

import hashlib
from collections.abc import Mapping, Sequence


def assign(
    group: str, partitions: Sequence[str], *, capacities: Mapping[str, int], held: Mapping[str, str]
) -> dict[str, str]:
    """Return partition -> member for every partition; nothing without members.

    group: link of the group's document. capacities: member -> its weight, 1 or more. held:
    partition -> its present member; members without a capacity and unknown partitions are ignored.
    """
    if not capacities:
        return {}
    keeps: dict[str, list[str]] = {member: [] for member in sorted(capacities)}
    for partition in partitions:
        if held.get(partition) in keeps:
            keeps[held[partition]].append(partition)
    quotas = _quotas(group, len(partitions), capacities=capacities, keeps=keeps)
    target: dict[str, str] = {}
    for member, kept in keeps.items():
        kept.sort(key=lambda partition: _score(group, partition, member), reverse=True)
        target.update((partition, member) for partition in kept[: quotas[member]])
    rooms = {member: quotas[member] - len(kept) for member, kept in keeps.items()}
    for partition in partitions:
        if partition not in target:
            open_to = [member for member, room in rooms.items() if room > 0]
            best = max(open_to, key=lambda member: _score(group, partition, member))
            target[partition] = best
            rooms[best] -= 1
    return {partition: target[partition] for partition in partitions}


def _quotas(
    group: str, count: int, *, capacities: Mapping[str, int], keeps: Mapping[str, Sequence[str]]
) -> dict[str, int]:
    """Return member -> number of partitions that it should have; the numbers add up to `count`."""
    whole = sum(capacities.values())
    assert min(capacities.values()) >= 1
    quotas = {member: count * capacities[member] // whole for member in keeps}
    left = count - sum(quotas.values())

    def claim(member: str) -> tuple[int, bool, bytes]:
        remainder = count * capacities[member] % whole
        return (-remainder, len(keeps[member]) <= quotas[member], _score(group, "", member))

    for member in sorted(keeps, key=claim)[:left]:
        quotas[member] += 1
    return quotas


def _score(group: str, partition: str, member: str) -> bytes:
    return hashlib.sha256(f"{group}|{partition}|{member}".encode()).digest()
