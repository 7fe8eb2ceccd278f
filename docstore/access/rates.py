"""Rate limits: a bucket for each user, independent of all others.

Source: the generic cell rate algorithm (ITU-T I.371): one number for each bucket.
"""

from collections import OrderedDict

BURST_S = 1.0
"""Size of a burst, in seconds of the rate."""
NAMES_MAX = 10_000
"""Maximum number of buckets. The user silent for the longest is evicted: that bucket is full."""


class Rates:
    """The buckets of all users, on this node alone."""

    def __init__(self) -> None:
        self._free_at: OrderedDict[str, float] = OrderedDict()

    def allow(self, name: str, rate: float, now_s: float) -> bool:
        """Count a request; return False if it exceeds the rate. rate: a second, 0 for no limit."""
        if rate <= 0:
            return True
        free_at = max(self._free_at.pop(name, now_s), now_s)
        is_allowed = free_at + 1 / rate <= now_s + max(BURST_S, 1 / rate)
        self._free_at[name] = free_at + 1 / rate if is_allowed else free_at
        if len(self._free_at) > NAMES_MAX:
            self._free_at.popitem(last=False)
        return is_allowed

    def charge(self, name: str, rate: float, count: int, now_s: float) -> None:
        """Count requests that are already admitted, which delays the user's next request."""
        if rate > 0:
            self._free_at[name] = max(self._free_at.pop(name, now_s), now_s) + count / rate
