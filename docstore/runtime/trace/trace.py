"""The recorders of a node's machines, merged into one trace for pages and for the log."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from heapq import merge
from operator import attrgetter
from typing import Any

from docstore.runtime.trace.lines import NOTHING, TraceFilter, is_about, line, page_of
from docstore.runtime.trace.recorder import Recorder, Step


class Trace:
    """The recorded steps of a node's machines."""

    def __init__(self, recorders: Mapping[str, Recorder]) -> None:
        self.recorders = recorders

    def page(
        self, about: TraceFilter, *, after: int, limit: int, now: float, wall_now: float
    ) -> list[dict[str, Any]]:
        """Return the last `limit` steps that pass a filter, the newest last.

        after: number of a step; earlier steps and this one are left out. now, wall_now: the present
        time by the steps' clock and by the wall clock.
        """
        every = merge(
            *(self._steps(name) for name in self.recorders), key=lambda each: each[1].number
        )
        found = [
            (name, step)
            for name, step in every
            if step.number > after and (about == NOTHING or is_about(step, about))
        ]
        ahead = wall_now - now
        return [page_of(step, name, about, ahead) for name, step in found[-limit:]]

    def _steps(self, name: str) -> Iterator[tuple[str, Step]]:
        for step in self.recorders[name].steps():
            yield name, step

    def dump(self, say: Callable[..., Any], why: str) -> None:
        dump(say, why, self.recorders.values())


STEPS_DUMPED = 50
CAUSES_MAX = 16
"""Causes after which only alarms are logged: a broken disk may have one cause for each slot."""


class Causes:
    """The causes for which steps were logged."""

    def __init__(self) -> None:
        self._known: set[str] = set()

    def is_first(self, why: str) -> bool:
        """Say whether a cause is new, and remember it."""
        if why in self._known or len(self._known) >= CAUSES_MAX:
            return False
        self._known.add(why)
        return True


def dump(say: Callable[..., Any], why: str, recorders: Iterable[Recorder]) -> None:
    """Log the last steps, a line for each, the newest last."""
    steps = list(merge(*(each.steps() for each in recorders), key=attrgetter("number")))
    for step in steps[-STEPS_DUMPED:]:
        say("trace", why=why, number=step.number, at=round(step.at, 6), step=line(step))
