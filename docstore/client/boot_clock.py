"""The clock that proofs are counted by (rule H3), and what becomes of them in a forked child.

`CLOCK_BOOTTIME` goes on while a machine is suspended, so a process that wakes up knows at once that
its proofs are over. Where there is none (macOS, Windows) the monotonic clock is taken, which may
stand still meanwhile: that is said once, as a warning. A child of `fork` has the memory of its
parent, but holds nothing: its proofs are dropped before it runs a line of its own.
"""

import functools
import os
import time
import warnings
import weakref
from collections.abc import Callable
from typing import Protocol


class Believer(Protocol):
    """Objects that keep proofs."""

    def drop_all(self) -> None:
        """Believe in nothing any more."""


_believers: "weakref.WeakSet[Believer]" = weakref.WeakSet()


def boot_clock() -> Callable[[], float]:
    """Return a clock in seconds that goes on in suspend, or warn and return the next best."""
    boottime = getattr(time, "CLOCK_BOOTTIME", None)
    if boottime is None:
        warnings.warn(
            "this system has no clock that goes on while it is suspended: after a suspend what"
            " is held may be believed for too long; guard writes with a Fence",
            RuntimeWarning,
            stacklevel=2,
        )
        return time.monotonic
    return lambda: time.clock_gettime(boottime)


def drop_in_child(believer: Believer) -> None:
    """Clear the proofs of `believer` in a forked child of this process."""
    _believers.add(believer)
    _watch_forks()


def _forget() -> None:
    for believer in tuple(_believers):
        believer.drop_all()


@functools.cache
def _watch_forks() -> None:
    """Register once: what is registered cannot be taken back."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_forget)
