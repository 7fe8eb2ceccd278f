"""Detection of repeated packets: one window over the counters of each session.

A window remembers the last 128 counters of a session; older counters count as seen. No clock is
needed: a packet from before a restart of its sender belongs to another session.

Source: RFC 4303, section 3.4.3, the sliding window of IPsec.
"""

from __future__ import annotations

WIDTH = 128
SESSIONS_MAX = 32_768
"""Twice the members that a table holds: each may have restarted once."""


class ReplayWindows:
    """The windows of all sessions, those used longest ago forgotten first."""

    def __init__(self) -> None:
        self._windows: dict[bytes, tuple[int, int]] = {}
        """Session with its key -> (greatest counter seen, bitmap of the counters just below it)."""

    def is_new(self, session: bytes, counter: int) -> bool:
        """Tell whether this counter was not seen yet, and remember it."""
        top, seen = self._windows.pop(session, (-1, 0))
        ahead = counter - top
        if ahead > 0:
            seen = (seen << min(ahead, WIDTH) | 1) & (1 << WIDTH) - 1
            top, fresh = counter, True
        else:
            bit = 1 << -ahead
            fresh = -ahead < WIDTH and not seen & bit
            seen |= bit if fresh else 0
        self._windows[session] = (top, seen)
        if len(self._windows) > SESSIONS_MAX:
            del self._windows[next(iter(self._windows))]
        return fresh

    def set_floor(self, session: bytes, counter: int) -> None:
        """Count everything up to `counter` as seen: its session answered us just now."""
        top, _ = self._windows.pop(session, (-1, 0))
        self._windows[session] = (max(top, counter), (1 << WIDTH) - 1)
