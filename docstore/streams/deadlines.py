"""Deadlines of requests, most of which are answered long before.

A bound says from when a request may be overdue, so that no request has an entry of its own: an
answer costs nothing, and nothing stays in memory after it.
"""

from collections.abc import Iterable
from math import inf
from typing import Protocol, TypeVar


class WithDeadline(Protocol):
    """A request that must be answered by its deadline."""

    @property
    def deadline(self) -> float:
        """Return the time by which it must be answered."""


R = TypeVar("R", bound=WithDeadline)


class Deadlines:
    """Finds overdue requests, and looks at them only when one can be overdue."""

    def __init__(self) -> None:
        self._earliest = inf

    def add(self, deadline: float) -> None:
        """Note the deadline of a new request."""
        self._earliest = min(self._earliest, deadline)

    def overdue(self, waiting: Iterable[R], now: float) -> list[R]:
        """Return the overdue ones of all waiting requests, in the order of their deadlines."""
        if now < self._earliest:
            return []
        found: list[R] = []
        self._earliest = inf
        for request in waiting:
            if request.deadline <= now:
                found.append(request)
            else:
                self.add(request.deadline)
        found.sort(key=lambda request: request.deadline)
        return found
