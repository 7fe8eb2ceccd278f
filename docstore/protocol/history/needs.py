"""What is needed of the past: up to where a slot's versions may be let go of. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

NO_SNAPSHOT = (1 << 63) - 1

CLOCKS_APART_S = 10.0
"""Whoever names a snapshot may read another clock than whoever lets go of versions."""


@dataclass(frozen=True, slots=True)
class Needs:
    """slot -> the smallest cut that a snapshot has there, as of a moment."""

    known_at: float
    cuts: Mapping[int, int]

    def of(self, slot: int) -> int:
        """Return up to which row versions of a slot may be let go of."""
        return self.cuts.get(slot, NO_SNAPSHOT)
