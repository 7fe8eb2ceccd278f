"""Virtual time: a heap of planned calls, and one seeded source of randomness."""

import heapq
from collections.abc import Callable
from random import Random
from typing import Any


class World:
    """The clock and its planned calls. Calls of one instant run in the order of planning."""

    def __init__(self, seed: int) -> None:
        self.now = 0.0
        self.seed = seed
        self.rng = Random(seed)
        self.events = 0
        self._heap: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._planned = 0

    def after(self, delay: float, what: Callable[..., None], *arguments: Any) -> None:
        """Plan `what` for `delay` seconds from now."""
        self._planned += 1
        heapq.heappush(self._heap, (self.now + delay, self._planned, what, arguments))

    def run(self, until: float) -> None:
        """Run all calls that are planned up to `until`."""
        heap = self._heap
        while heap and heap[0][0] <= until:
            self.now, _, what, arguments = heapq.heappop(heap)
            self.events += 1
            what(*arguments)
        self.now = until
