"""Retention pins: the versions that named snapshots, or declared counts of versions, need."""

from collections.abc import Mapping
from dataclasses import dataclass, field

NO_SNAPSHOT = (1 << 63) - 1

CLOCKS_APART_S = 10.0
"""Allowed difference between the clock that named a snapshot and the clock of compaction."""


@dataclass(frozen=True, slots=True)
class Pins:
    """The pins as of `known_at`, on the clock of `now`: the time when the node began to read them.

    cuts: slot -> smallest cut of a snapshot. versions: factory -> versions that each of its
    documents keeps, for factories that declare it.
    """

    known_at: float
    cuts: Mapping[int, int]
    versions: Mapping[str, int] = field(default_factory=dict)

    def of(self, slot: int) -> int:
        """Return the row of a slot up to which versions may be compacted."""
        return self.cuts.get(slot, NO_SNAPSHOT)
