"""The wall clock: it stamps rows and expires old data, and never decides about ownership.

Stamps follow this node's own clock, held within half a second of the median of the members' clocks.
Expiry follows an instant that the clocks of a majority of the members have passed. With two clocks
the earlier one counts, and an unknown clock counts as behind every instant. So wrong clocks of
fewer than a majority expire nothing.

Heartbeats carry the other members' clocks. This node keeps them relative to its own monotonic
clock, also while those members are down. So a jump of its own wall clock is noticed before any row
is stamped or expired.
"""

from collections.abc import Mapping, Sequence

from docstore.ownership.quorum import Sets, majority

NEVER_US = -(1 << 62)
"""Reading of an unknown clock."""


class WallClock:
    """The wall clock, in microseconds since 1970. `now` is the monotonic clock, in seconds."""

    def __init__(self, ahead_us_max: int, now: float) -> None:
        self._apart_us_max = ahead_us_max
        self._shown_us = 0
        self._offset_us = 0
        self._past_us = NEVER_US
        self.ticked_at = now
        """Monotonic time of the last `set`."""

    @property
    def is_known(self) -> bool:
        """Say whether the clock was ever set."""
        return self._shown_us != 0

    def set(self, wall_us: int, now: float, me: str, others: Mapping[str, int], sets: Sets) -> None:
        """Set the clock.

        others: member -> its wall clock minus `now` (in us), where known. sets: a majority of each
        set must have passed an instant before it counts as past.
        """
        self.ticked_at = now
        self._shown_us = mine = wall_us - int(now * 1e6)
        clocks = sorted([mine, *others.values()])
        early, late = clocks[(len(clocks) - 1) // 2], clocks[len(clocks) // 2]
        # A stamp too early would make its row expire too early.
        least, most = early - self._apart_us_max, late + self._apart_us_max
        self._offset_us = min(max(mine, least), most)
        known = {**others, me: mine}
        self._past_us = min(_passed_by_majority(known, each) for each in sets)

    def now_us(self, now: float) -> int:
        """Return the timestamp for a row, held near the other members' clocks."""
        return self._offset_us + int(now * 1e6)

    def past_us(self, now: float) -> int:
        """Return an instant that is certainly past, for expiry; 0 while none is known."""
        return max(0, self._past_us + int(now * 1e6))

    def own_us(self, now: float) -> int:
        """Return the reading of this node's own clock; 0 while it is unknown."""
        return self._shown_us + int(now * 1e6) if self._shown_us else 0


def _passed_by_majority(clocks: Mapping[str, int], members: Sequence[str]) -> int:
    shown = sorted((clocks.get(member, NEVER_US) for member in members), reverse=True)
    return shown[majority(members) - 1]
