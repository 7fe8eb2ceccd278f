"""The last steps go into the log when something happened that must never happen: once per cause."""

from collections.abc import Callable, Iterable
from heapq import merge
from operator import attrgetter
from typing import Any

from docstore.runtime.trace.lines import line
from docstore.runtime.trace.recorder import Recorder

STEPS_DUMPED = 50
CAUSES_MAX = 16
"""After so many the log is told of alarms alone: a broken disk may have one for each slot."""


class Causes:
    """What has been dumped for."""

    def __init__(self) -> None:
        self._known: set[str] = set()

    def is_first(self, why: str) -> bool:
        """Say whether to dump for this, and remember that it was done."""
        if why in self._known or len(self._known) >= CAUSES_MAX:
            return False
        self._known.add(why)
        return True


def dump(say: Callable[..., Any], why: str, recorders: Iterable[Recorder]) -> None:
    """Log the last steps, a line for each, the newest last."""
    steps = list(merge(*(each.steps() for each in recorders), key=attrgetter("number")))
    for step in steps[-STEPS_DUMPED:]:
        say("trace", why=why, number=step.number, at=round(step.at, 6), step=line(step))
