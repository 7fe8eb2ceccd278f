"""Clocks that go a little too fast or too slow, and show anything to begin with."""

from random import Random

from docstore.testing.simulation.world import World

RATE_ERROR = 2e-2
"""rho: by how much the rate of any clock is off at most."""


class LocalClock:
    """What one process measures time by. It goes on while the process stands still."""

    def __init__(self, world: World, rng: Random) -> None:
        self._world = world
        # The extremes are what rules must stand, so they are drawn often.
        self.rate = 1.0 + RATE_ERROR * rng.choice((-1.0, 1.0, 0.0, rng.uniform(-1.0, 1.0)))
        self._offset = rng.uniform(0.0, 1e6)

    def now(self) -> float:
        """Return what it shows."""
        return self._offset + self._world.now * self.rate

    def until(self, reading: float) -> float:
        """Return how much true time passes until it shows this; 0 if it has."""
        return max(0.0, (reading - self.now()) / self.rate)

    def set_back(self, seconds: float) -> None:
        """Show as much less: as a clock that stood still does."""
        self._offset -= seconds * self.rate
