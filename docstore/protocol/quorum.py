"""Quorums: how many, of whom, and how far they have come (rules Q1, Q2, SL6).

Always of the configured replica set, never of those who happen to be alive. The node itself is
one replica like any other, and counts once its disk has it.
"""

from collections.abc import Collection, Mapping, Sequence


def majority(replicas: Sequence[str]) -> int:
    """Return how many of the replica set make a quorum."""
    return len(replicas) // 2 + 1


def is_quorum(heard: Collection[str], replicas: Sequence[str]) -> bool:
    """Say whether those heard are more than half of the replica set."""
    return sum(replica in heard for replica in replicas) >= majority(replicas)


def decided_end(ends: Mapping[str, int], replicas: Sequence[str]) -> int:
    """Return the greatest n that a quorum has reached; ends that are missing count as -1."""
    reached = sorted([ends.get(replica, -1) for replica in replicas], reverse=True)
    return reached[majority(replicas) - 1]
