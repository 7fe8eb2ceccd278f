"""Which nodes hold a partition, and which of them should lead it.

Ranked by hash, as the owners of slots are (`ownership/by_hash.py`), and spread over zones like
them, with two differences. Each member should lead as many partitions as any other: of every
round of as many partitions as there are members, each leads one, so that loads differ by one at
most, and a topic that gets more partitions goes on as if it had had them from the beginning. And
a partition should not be led where its document's owner is: if that node died, a document would
have to change owners before a leader could be elected. So that owner comes last.

The assignment is kept in the partition's document. It is not computed again when members join.
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
    """Yield (number, replicas), the preferred leader first, for consecutive partitions of a topic.

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
    # Not by the link itself: then its document's owner would come first.
    return [member for _, member in ranked(point(f"{link}/records"), dict(points))]


def _leaders(orders: Sequence[Sequence[str]], owners: Sequence[str]) -> list[str]:
    """Return the leaders of a round of partitions: each member one, if possible not its owner."""
    leaders: list[str] = []
    for order, owner in zip(orders, owners, strict=True):
        free = [member for member in order if member not in leaders]
        leaders.append(next((member for member in free if member != owner), free[0]))
    left = leaders[-1]
    if left == owners[-1]:  # The last one had no choice: change with one that has.
        for at, owner in enumerate(owners[:-1]):
            if owner != left:
                leaders[at], leaders[-1] = left, leaders[at]
                break
    return leaders


def _with_last(replicas: tuple[str, ...], owner: str) -> tuple[str, ...]:
    """Return the replicas with the owner of the document last, unless it leads."""
    leader, *others = replicas
    return (leader, *sorted(others, key=lambda member: member == owner))
