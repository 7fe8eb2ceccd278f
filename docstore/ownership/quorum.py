"""Quorums: the majority of replica sets, and the end that it has reached (rules Q1, Q2, SL6).

A quorum is more than half of each configured replica set, never of the live replicas: one set, or
an old and a new set while the group changes. The node itself is a replica like any other, and
counts once its disk has the rows.
"""

from collections.abc import Collection, Mapping, Sequence

Sets = Sequence[Sequence[str]]
"""One replica set, or two, each of which must give a majority."""


def majority(replicas: Sequence[str]) -> int:
    return len(replicas) // 2 + 1


def is_quorum(heard: Collection[str], sets: Sets) -> bool:  # Tests replace this.
    """Say whether the nodes in `heard` are more than half of each set."""
    return all(sum(each in heard for each in replicas) >= majority(replicas) for replicas in sets)


def decided_end(ends: Mapping[str, int], sets: Sets) -> int:  # Tests replace this.
    """Return the greatest n that a quorum has reached; a missing end counts as -1."""
    if len(sets) == 1:
        return _reached(ends, sets[0])
    return min(_reached(ends, replicas) for replicas in sets)


def _reached(ends: Mapping[str, int], replicas: Sequence[str]) -> int:
    if len(replicas) == 3:  # A fast path for the usual case, since this runs twice for each update.
        first, second, third = replicas
        low, high, other = ends.get(first, -1), ends.get(second, -1), ends.get(third, -1)
        if low > high:
            low, high = high, low
        return high if other >= high else max(low, other)
    reached = sorted([ends.get(replica, -1) for replica in replicas], reverse=True)
    return reached[majority(replicas) - 1]
