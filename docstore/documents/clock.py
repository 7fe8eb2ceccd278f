"""The wall clock as the protocol uses it: to stamp rows and to delete what is old, never to decide.

Stamps go by this node's own clock, held within half a second of the median of the members' clocks.
Deletions go by what is past for sure: what the clocks of a majority of the members have passed. Of
two clocks the earlier one decides, and a clock that is not known has passed nothing. So wrong
clocks of fewer than a majority make nothing old.

The clocks of the others are known from heartbeats and kept against our monotonic clock, also while
those members are down. So a jump of our own clock is seen before any row is stamped or deleted.
"""

from collections.abc import Mapping, Sequence

from docstore.ownership.quorum import Sets, majority

NEVER_US = -(1 << 62)
"""The reading of a clock that is not known."""


class WallClock:
    """Microseconds since 1970; `now` is the monotonic clock, in seconds."""

    def __init__(self, ahead_us_max: int, now: float) -> None:
        self._apart_us_max = ahead_us_max
        self._shown_us = 0
        self._offset_us = 0
        self._past_us = NEVER_US
        self.ticked_at = now
        """When it was last looked at, by the monotonic clock."""

    @property
    def is_known(self) -> bool:
        """Say whether this node has looked at it yet."""
        return self._shown_us != 0

    def set(self, wall_us: int, now: float, me: str, others: Mapping[str, int], sets: Sets) -> None:
        """Learn what it shows.

        others: the members' clocks, each as of when `now` was 0; none that is not known.
        sets: of each of which a majority must have passed what is past.
        """
        self.ticked_at = now
        self._shown_us = mine = wall_us - int(now * 1e6)
        clocks = sorted([mine, *others.values()])
        early, late = clocks[(len(clocks) - 1) // 2], clocks[len(clocks) // 2]
        # A stamp that is too early makes its row old too soon, as a deletion that is.
        least, most = early - self._apart_us_max, late + self._apart_us_max
        self._offset_us = min(max(mine, least), most)
        known = {**others, me: mine}
        self._past_us = min(_passed_by_majority(known, each) for each in sets)

    def now_us(self, now: float) -> int:
        """Return the time to stamp with, held near the others' if it is wrong."""
        return self._offset_us + int(now * 1e6)

    def past_us(self, now: float) -> int:
        """Return an instant that is past for sure, 0 while none is known: to delete by."""
        return max(0, self._past_us + int(now * 1e6))

    def own_us(self, now: float) -> int:
        """Return what it shows, right or wrong; 0 while it is not known."""
        return self._shown_us + int(now * 1e6) if self._shown_us else 0


def _passed_by_majority(clocks: Mapping[str, int], members: Sequence[str]) -> int:
    """Return the latest time that a majority of these members' clocks shows, or has passed."""
    shown = sorted((clocks.get(member, NEVER_US) for member in members), reverse=True)
    return shown[majority(members) - 1]
