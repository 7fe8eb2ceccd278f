"""Timers that report their own lateness. A shell.

Before a timer fires, the datagrams that have arrived are delivered: they came first. When timers
are late because the process did not run, the protocol gets `Stalled`, so that it does not take its
own pause for the silence of others.

Source: the local pause rule of Cassandra's failure detector, in spirit.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from gossip.protocol.events import Timer


class Clock:
    """The timers of one agent; at most one of each kind and subject."""

    def __init__(
        self,
        tolerated_s: float,
        *,
        before: Callable[[], None],
        stalled: Callable[[float, float], None],
        fired: Callable[[Timer, float], None],
    ) -> None:
        """Prepare; nothing runs before the first `set`.

        tolerated_s: lateness that is ordinary jitter.
        before: delivers the datagrams that have arrived.
        stalled(lag_s, now), fired(timer, now): called when this happens.
        """
        self._tolerated_s = tolerated_s
        self._before = before
        self._stalled = stalled
        self._fired = fired
        self._timers: dict[Timer, asyncio.TimerHandle] = {}
        self._listened_at_s = time.monotonic()

    def set(self, timer: Timer, at_s: float) -> None:
        """Let `timer` fire at `at_s` on the monotonic clock, in place of its earlier time."""
        earlier = self._timers.pop(timer, None)
        if earlier is not None:
            earlier.cancel()
        wait_s = max(0.0, at_s - time.monotonic())
        self._timers[timer] = asyncio.get_running_loop().call_later(wait_s, self._fire, timer, at_s)

    def stop(self) -> None:
        for handle in self._timers.values():
            handle.cancel()
        self._timers.clear()

    def _fire(self, timer: Timer, at_s: float) -> None:
        del self._timers[timer]
        self._before()
        # Event loops round their clocks, so a timer may fire a little early.
        now = max(time.monotonic(), at_s)
        lag_s = now - at_s
        if lag_s > self._tolerated_s and at_s > self._listened_at_s:
            # Timers of the same gap are late for the same reason: one stall, reported once.
            self._listened_at_s = now
            self._stalled(lag_s, now)
        self._fired(timer, now)
