"""Assignment: which nodes hold a replica of a partition, and which of them should lead it.

Nodes are ranked by hash, as the owners of slots are (`ownership/by_hash.py`), and spread over zones
in the same way, with two differences. First, each member should lead as many partitions as any
other. So partitions are assigned in rounds of as many as there are members, in which each member
leads one. The numbers differ by one at most, and a topic that is given more partitions later has
the same assignment as if it had had them from the beginning.

Second, the owner of a partition's document should not lead the partition: if that node died, the
document would need a new owner before a leader could be elected. So that owner comes last.

The assignment is kept in the partition's document, and is not computed again when members join.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

from docstore.ownership.by_hash import Placed, member_points, point, ranked, spread
from docstore.streams.replica_set import partition_link

POINTS = 128
"""Points of each member on the ring."""


def assignments(
    topic: str,
    numbers: range,
    members: Sequence[Placed],
    *,
    copies: int,
    owner_of: Callable[[str], str],
) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield (number, replicas) for consecutive partitions of a topic; the first replica is to lead.

    members: any order, ids distinct, at least `copies`.
    owner_of: link of a document -> the member that should own it, "" if that is not known.
    """
    assert 1 <= copies <= len(members)
    points = {member.id: member_points(member.id, POINTS) for member in members}
    zones = {member.id: member.zone for member in members}
    size = len(members)
    for first in range(numbers.start - numbers.start % size, numbers.stop, size):
        links = [partition_link(topic, number) for number in range(first, first + size)]
        orders = [_order(link, points) for link in links]
        owners = [owner_of(link) if copies > 1 else "" for link in links]
        for at, leader in enumerate(_leaders(orders, owners)):
            if first + at in numbers:
                replicas = spread(leader, orders[at], zones, copies)
                yield first + at, _with_last(replicas, owners[at])


def order_of(link: str, members: Sequence[str]) -> list[str]:
    """Return the members in the order in which they should hold a partition."""
    return _order(link, {member: member_points(member, POINTS) for member in members})


def _order(link: str, points: Mapping[str, list[int]]) -> list[str]:
    # The link itself would rank the owner of the document first.
    return [member for _, member in ranked(point(f"{link}/records"), dict(points))]


def _leaders(orders: Sequence[Sequence[str]], owners: Sequence[str]) -> list[str]:
    """Return the leader of each partition: every member once, if possible not its owner."""
    leaders: list[str] = []
    for order, owner in zip(orders, owners, strict=True):
        free = [member for member in order if member not in leaders]
        leaders.append(next((member for member in free if member != owner), free[0]))
    left = leaders[-1]
    # No other member was left: exchange it for that of a partition with another owner.
    if left == owners[-1]:
        for at, owner in enumerate(owners[:-1]):
            if owner != left:
                leaders[at], leaders[-1] = left, leaders[at]
                break
    return leaders


def _with_last(replicas: tuple[str, ...], owner: str) -> tuple[str, ...]:
    """Return the replicas with the document's owner moved to the end, unless it is the first."""
    leader, *others = replicas
    return (leader, *sorted(others, key=lambda member: member == owner))
