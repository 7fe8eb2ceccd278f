"""Deadlines: times until which holders and members count as alive (rules S2, S4).

They are kept in a heap with lazy deletion. A renewal only changes a number; the heap entry is moved
when its old time has passed. So a tick costs as much as there are overdue deadlines, not as there
are deadlines.

The clock of the deadlines stops while this process is stalled (`Core.heard_s`). After a stall,
renewals wait unread in the sockets, and must be read before a deadline is judged. Longer is always
safe.
"""

import heapq
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Generic, TypeVar

from docstore.sessions.core import Core

Key = TypeVar("Key", bound=Hashable)
DROPPED_MIN = 1_000
"""Heap entries beyond twice the live deadlines at which the heap is purged."""


@dataclass(slots=True, eq=False)
class Deadline(Generic[Key]):
    """Deadline of one holder or member; an entry of the heap, since there may be thousands."""

    key: Key
    span_s: float
    until: float
    due: float
    """Time at which the heap returns it; `until` may be later by now."""
    order: int
    """Order among deadlines that are due at the same time."""
    is_ending: bool = False
    """Whether its ending is under way; until the outcome is known it is not renewed."""
    is_dropped: bool = False

    def __lt__(self, other: "Deadline[Key]") -> bool:
        return (self.due, self.order) < (other.due, other.order)


class Deadlines(Generic[Key]):
    """Deadlines of one kind: key -> time."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._known: dict[Key, Deadline[Key]] = {}
        self._heap: list[Deadline[Key]] = []
        self._order = count()

    def __len__(self) -> int:
        return len(self._known)

    def __contains__(self, key: Key) -> bool:
        return key in self._known

    def grant(self, key: Key, span_s: float) -> None:
        """Begin a whole span from this moment, replacing any deadline of the key."""
        self.drop(key)
        until = self._core.heard_s + span_s
        deadline = self._known[key] = Deadline(key, span_s, until, until, next(self._order))
        heapq.heappush(self._heap, deadline)

    def renew(self, key: Key) -> bool:  # Tests replace this.
        """Begin the span again; return False if the key is unknown or is ending."""
        deadline = self._known.get(key)
        if deadline is None or deadline.is_ending:
            return False
        deadline.until = self._core.heard_s + deadline.span_s
        return True

    def drop(self, key: Key) -> None:
        """Drop a key."""
        deadline = self._known.pop(key, None)
        if deadline is not None:
            deadline.is_dropped = True
            if len(self._heap) > 2 * len(self._known) + DROPPED_MIN:
                self._heap = [each for each in self._heap if not each.is_dropped]
                heapq.heapify(self._heap)

    def is_ending(self, key: Key) -> bool:  # Tests replace this.
        """Say whether a key is overdue and the outcome of its ending is not known yet."""
        deadline = self._known.get(key)
        return deadline is not None and deadline.is_ending

    def left_s(self, key: Key) -> float | None:
        """Return how long a key has left, 0 when it is overdue; None if it is unknown here."""
        deadline = self._known.get(key)
        return None if deadline is None else max(0.0, deadline.until - self._core.heard_s)

    def overdue(self, limit: int) -> Iterator[tuple[Key, float]]:
        """Mark up to `limit` overdue keys as ending, and yield each with how long it is overdue."""
        while limit > 0 and self._heap and self._heap[0].due <= self._core.heard_s:
            deadline = heapq.heappop(self._heap)
            if deadline.is_dropped:
                continue
            if deadline.until > self._core.heard_s:
                deadline.due, deadline.order = deadline.until, next(self._order)
                heapq.heappush(self._heap, deadline)
                continue
            deadline.is_ending = True
            limit -= 1
            yield deadline.key, self._core.heard_s - deadline.until
