"""What is needed of the past: by named snapshots, and by factories that count versions. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

NO_SNAPSHOT = (1 << 63) - 1

CLOCKS_APART_S = 10.0
"""Whoever names a snapshot may read another clock than whoever lets go of versions."""


@dataclass(frozen=True, slots=True)
class Pins:
    """What was needed at a moment, on the clock of `now`: when the reading of it began.

    cuts: slot -> the smallest cut that a snapshot has there. versions: factory -> how many versions
    each of its documents keeps, of the factories that say so.
    """

    known_at: float
    cuts: Mapping[int, int]
    versions: Mapping[str, int] = field(default_factory=dict)

    def of(self, slot: int) -> int:
        """Return up to which row versions of a slot may be let go of."""
        return self.cuts.get(slot, NO_SNAPSHOT)
