"""Histories of one document of level 1 or 2 on a few disks, with the true ancestors.

Every disk writes upon the heads that it knows, resolves them, or takes in any version that was
ever written, in any order and however often. Each version has its true ancestors, which the
product does not see.
"""

from dataclasses import dataclass, field

from hypothesis import strategies as st

from docstore.documents.eventual.branches import Branches
from docstore.documents.eventual.lineage import Lineage, begotten, lineage_of, stamp_after
from docstore.model.document import Row

OWNERS = {"disk-a": "n1", "disk-b": "n2", "disk-c": "n3", "disk-d": "n1"}
"""Disks and their nodes; the first node has lost a disk and has another one."""

STEPS = st.lists(
    st.tuples(
        st.sampled_from(sorted(OWNERS)),
        st.sampled_from(["write", "write", "resolve", "take", "take", "take"]),
        st.integers(0, 30),
    ),
    max_size=24,
)
"""The disk, its action, and a number: the wall clock's, or that of the version to take in."""


@dataclass(frozen=True, slots=True)
class Version:
    """A version and its ancestors, itself among them."""

    row: Row
    ancestors: frozenset[int]

    @property
    def lineage(self) -> Lineage:
        return lineage_of(self.row)


@dataclass(slots=True)
class History:
    """All versions in the order in which they were written, and the branches on each disk."""

    level: int
    versions: list[Version] = field(default_factory=list)
    disks: dict[str, Branches] = field(default_factory=dict)

    def step(self, disk: str, action: str, number: int) -> None:
        branches = self.disks.setdefault(disk, Branches())
        if action != "take":
            self._write(disk, branches, number, resolves=action == "resolve")
        elif self.versions:
            branches.add(self.versions[number % len(self.versions)].row)

    def _write(self, disk: str, branches: Branches, wall_us: int, *, resolves: bool) -> None:
        lineages, winner = branches.lineages, branches.winner
        parents, others = (lineages, []) if resolves else (lineages[:1], lineages[1:])
        stamp = stamp_after(wall_us, lineages, disk)
        lineage = begotten(self.level, parents, others, disk, stamp)
        row = Row(
            0, 0, self._epoch(winner, OWNERS[disk]), OWNERS[disk], "/notes/a",
            winner.version + 1 if winner else 0, "PUT", stamp, False, b"", b"",
            lineage.pack(), b"{}",
        )  # fmt: skip
        of = [self._number(parent) for parent in parents]
        itself = frozenset({len(self.versions)})
        self.versions.append(Version(row, itself.union(*(self.versions[n].ancestors for n in of))))
        assert branches.add(row), "the new stamp is known already"

    def _epoch(self, winner: Row | None, owner: str) -> int:
        if self.level == 1:
            return 0
        return winner.epoch + (winner.owner != owner) if winner else 1

    def _number(self, lineage: Lineage) -> int:
        return next(n for n, each in enumerate(self.versions) if each.lineage == lineage)


@st.composite
def histories(draw: st.DrawFn) -> History:
    """Return the history that some steps make."""
    history = History(draw(st.sampled_from([1, 2])))
    for step in draw(STEPS):
        history.step(*step)
    return history
