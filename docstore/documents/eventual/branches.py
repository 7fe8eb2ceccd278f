"""One document of level 1 or 2: its heads, of which one wins, wherever and in whatever order.

A head is a version that no other one came of. One head is the normal case. More of them are a
conflict: all replicas show the same winner, and keep the others until somebody resolves them or
they are older than `conflict_retention_s`. Nothing depends on the order in which versions arrive.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from docstore.documents.eventual.lineage import Lineage, covers, lineage_of
from docstore.model.document import Row


def rank_of_replication(row: Row) -> tuple[Any, ...]:
    """Level 1: the longer branch wins, then the later stamp, then the node.

    A node with a new disk may repeat the stamp of the lost one: then the lineage, which is unique.
    """
    return (row.version, row.updated_us, row.owner, row.digest)


def rank_of_ownership(row: Row) -> tuple[Any, ...]:
    """Level 2: the later epoch wins, then the owner, then the longer branch, then as level 1."""
    return (row.epoch, row.owner, row.version, row.updated_us, row.digest)


RANKS: dict[int, Callable[[Row], tuple[Any, ...]]] = {
    1: rank_of_replication,
    2: rank_of_ownership,
}


@dataclass(frozen=True, slots=True)
class Head:
    """A version that nothing has followed yet."""

    row: Row
    lineage: Lineage


@dataclass(slots=True)
class Branches:
    """The heads of one document, the winner first."""

    heads: list[Head] = field(default_factory=list)

    @classmethod
    def of(cls, rows: Sequence[Row]) -> "Branches":
        """Return a document from its heads as stored."""
        branches = cls()
        for row in rows:
            branches.add(row)
        return branches

    @property
    def winner(self) -> Row | None:
        """Return the version that readers see; None if there never was one."""
        return self.heads[0].row if self.heads else None

    @property
    def losers(self) -> list[Row]:
        """Return the newest version of each branch that lost."""
        return [head.row for head in self.heads[1:]]

    @property
    def lineages(self) -> list[Lineage]:
        """Return where the heads come from, the winner's first."""
        return [head.lineage for head in self.heads]

    def knows(self, hand: str, stamp: int) -> bool:
        """Say whether a version is here, or something that came of it."""
        return any(head.lineage.ancestors.get(hand, -1) >= stamp for head in self.heads)

    def add(self, row: Row) -> bool:  # Seam.
        """Take a version in; return False when it was known, or came before one that is."""
        lineage = lineage_of(row)
        if any(covers(head.lineage, lineage) for head in self.heads):
            return False
        self.heads = [head for head in self.heads if not covers(lineage, head.lineage)]
        self.heads.append(Head(row, lineage))
        self.heads.sort(key=lambda head: RANKS[lineage.level](head.row), reverse=True)
        return True

    def drop_losers(self, before_us: int) -> list[Row]:
        """Forget branches that lost and whose newest version is older than an instant."""
        old = [row for row in self.losers if row.updated_us < before_us]
        gone = {id(row) for row in old}
        self.heads = [head for head in self.heads if id(head.row) not in gone]
        return old
