"""Links that lose, delay, duplicate and reorder messages: harsher than TCP."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from docstore.testing.simulation.world import World


@dataclass(slots=True)
class LinkFaults:
    """Faults of the links, as shares of messages."""

    loss: float = 0.02
    straggle: float = 0.02
    """Share of messages that are up to a second late."""
    double: float = 0.02


class Network:
    """Directed links between nodes; a cut loses messages sent and under way."""

    def __init__(self, world: World, deliver: Callable[[str, int, str, int, Any], None]) -> None:
        self._world = world
        self._deliver = deliver
        self.weather = LinkFaults()
        self.cuts: set[tuple[str, str]] = set()
        self.in_order = False
        """Whether a link keeps the order of messages, as a connection does."""
        self._last: dict[tuple[str, str], float] = {}

    def send(
        self, source: str, life: int, to: str, to_life: int, message: Any, *, once: bool = False
    ) -> None:
        """Send a message from one life of a process to one life of another.

        once: the message is never duplicated, as on a connection.
        """
        rng, weather = self._world.rng, self.weather
        if (source, to) in self.cuts or rng.random() < weather.loss:
            return
        delay = 0.0005 + rng.random() * 0.005
        if rng.random() < weather.straggle:
            delay += rng.random()
        if self.in_order:
            at = max(self._world.now + delay, self._last.get((source, to), 0.0))
            self._last[source, to] = at
            delay = at - self._world.now
        self._world.after(delay, self._arrive, source, life, to, to_life, message)
        if rng.random() < weather.double and not once:
            again = delay + rng.random() * 0.3
            self._world.after(again, self._arrive, source, life, to, to_life, message)

    def _arrive(self, source: str, life: int, to: str, to_life: int, message: Any) -> None:
        if (source, to) not in self.cuts:
            self._deliver(source, life, to, to_life, message)
