"""Clocks that run a little too fast or too slow, and start at any reading."""

from random import Random

from docstore.testing.simulation.world import World

RATE_ERROR = 2e-2
"""rho: greatest error of the rate of any clock."""


class LocalClock:
    """Clock of one process. It continues while the process is paused."""

    def __init__(self, world: World, rng: Random) -> None:
        self._world = world
        # Rules must tolerate the extremes, so these are drawn often.
        self.rate = 1.0 + RATE_ERROR * rng.choice((-1.0, 1.0, 0.0, rng.uniform(-1.0, 1.0)))
        self._offset = rng.uniform(0.0, 1e6)

    def now(self) -> float:
        """Return its reading."""
        return self._offset + self._world.now * self.rate

    def until(self, reading: float) -> float:
        """Return the true time until it shows this; 0 if it is past."""
        return max(0.0, (reading - self.now()) / self.rate)

    def set_back(self, seconds: float) -> None:
        """Set it back, as if it had stopped for this time."""
        self._offset -= seconds * self.rate
