"""The wall clock as the protocol uses it: to stamp rows and to tell what is old, never to decide.

It is this node's own, held back while it runs more than half a second ahead of the median of the
members' clocks. Theirs are known from heartbeats and kept against our monotonic clock, so that a
jump of ours is seen at once, before any row is stamped or let go of by it. A clock that is behind
is believed: it only keeps things longer.
"""

from collections.abc import Iterable


class WallClock:
    """Microseconds since 1970; `now` is the monotonic clock, in seconds."""

    def __init__(self, ahead_us_max: int, now: float) -> None:
        self._ahead_us_max = ahead_us_max
        self._shown_us = 0
        self._offset_us = 0
        self.ticked_at = now
        """When it was last looked at, by the monotonic clock."""

    @property
    def is_known(self) -> bool:
        """Say whether anybody has looked at it yet."""
        return self._shown_us != 0

    def set(self, wall_us: int, now: float, others: Iterable[int]) -> None:
        """Learn what it shows. others: the members' clocks, each as of when `now` was 0."""
        self.ticked_at = now
        self._shown_us = mine = wall_us - int(now * 1e6)
        clocks = sorted([mine, *others])
        self._offset_us = min(mine, clocks[len(clocks) // 2] + self._ahead_us_max)

    def now_us(self, now: float) -> int:
        """Return the time, held back if it is wrong."""
        return self._offset_us + int(now * 1e6)

    def own_us(self, now: float) -> int:
        """Return what it shows, right or wrong; 0 while it is not known."""
        return self._shown_us + int(now * 1e6) if self._shown_us else 0
