"""The trace of one node: the recorders of its machines, as one."""

from collections.abc import Callable, Iterator, Mapping
from heapq import merge
from typing import Any

from docstore.runtime.trace.dumping import dump
from docstore.runtime.trace.lines import NOTHING, TraceFilter, is_about, page_of
from docstore.runtime.trace.recorder import Recorder, Step


class Trace:
    """What the machines of a node did."""

    def __init__(self, recorders: Mapping[str, Recorder]) -> None:
        """recorders: name of a machine -> its own."""
        self._recorders = recorders

    def page(
        self, about: TraceFilter, *, after: int, limit: int, now: float, wall_now: float
    ) -> list[dict[str, Any]]:
        """Return the last `limit` steps about something, the newest last.

        after: a step's number; only later ones. now, wall_now: the clock of steps, and the time.
        """
        every = merge(
            *(self._steps(name) for name in self._recorders), key=lambda each: each[1].number
        )
        found = [
            (name, step)
            for name, step in every
            if step.number > after and (about == NOTHING or is_about(step, about))
        ]
        ahead = wall_now - now
        return [page_of(step, name, about, ahead) for name, step in found[-limit:]]

    def _steps(self, name: str) -> Iterator[tuple[str, Step]]:
        for step in self._recorders[name].steps():
            yield name, step

    def dump(self, say: Callable[..., Any], why: str) -> None:
        """Log the last steps of all machines."""
        dump(say, why, self._recorders.values())
