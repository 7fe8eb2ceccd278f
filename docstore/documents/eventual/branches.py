"""The heads of one document of level 1 or 2; all nodes choose the same winner among them.

A head is a version without a successor. One head is the normal case. More heads are a conflict: all
replicas show the same winner, and keep the others until a client resolves the conflict or they are
older than `conflicts_s` (`timing.py`). Nothing depends on the order in which versions arrive.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from docstore.documents.eventual.lineage import Lineage, covers, lineage_of
from docstore.model.document import Row


def rank_of_replication(row: Row) -> tuple[Any, ...]:
    """Rank by length of the branch, then stamp, then node (level 1).

    A node with a new disk may repeat a stamp of the lost disk: then the lineage decides, which is
    unique.
    """
    return (row.version, row.updated_us, row.owner, row.digest)


def rank_of_ownership(row: Row) -> tuple[Any, ...]:
    """Rank by epoch, then owner, then length of the branch, then as level 1 (level 2)."""
    return (row.epoch, row.owner, row.version, row.updated_us, row.digest)


RANKS: dict[int, Callable[[Row], tuple[Any, ...]]] = {
    1: rank_of_replication,
    2: rank_of_ownership,
}


@dataclass(frozen=True, slots=True)
class Head:
    """A version without a successor on this node."""

    row: Row
    lineage: Lineage


@dataclass(slots=True)
class Branches:
    """The heads of one document, the winner first."""

    heads: list[Head] = field(default_factory=list)

    @classmethod
    def of(cls, rows: Sequence[Row]) -> "Branches":
        branches = cls()
        for row in rows:
            branches.add(row)
        return branches

    @property
    def winner(self) -> Row | None:
        """Return the version that readers see; None if there is none."""
        return self.heads[0].row if self.heads else None

    @property
    def losers(self) -> list[Row]:
        return [head.row for head in self.heads[1:]]

    @property
    def lineages(self) -> list[Lineage]:
        return [head.lineage for head in self.heads]

    def knows(self, hand: str, stamp: int) -> bool:
        return any(head.lineage.ancestors.get(hand, -1) >= stamp for head in self.heads)

    def add(self, row: Row) -> bool:  # Tests replace this.
        """Add a version; return False if it, or a successor of it, was known."""
        lineage = lineage_of(row)
        if any(covers(head.lineage, lineage) for head in self.heads):
            return False
        self.heads = [head for head in self.heads if not covers(lineage, head.lineage)]
        self.heads.append(Head(row, lineage))
        self.heads.sort(key=lambda head: RANKS[lineage.level](head.row), reverse=True)
        return True

    def drop_losers(self, before_us: int) -> list[Row]:
        """Drop losing branches whose head is older than an instant; return the dropped heads."""
        old = [row for row in self.losers if row.updated_us < before_us]
        gone = {id(row) for row in old}
        self.heads = [head for head in self.heads if id(head.row) not in gone]
        return old
