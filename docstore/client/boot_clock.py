"""Clock of proofs (rule H3), and the loss of proofs in a forked child.

`CLOCK_BOOTTIME` advances while a machine is suspended, so a process that wakes up knows at once
that its proofs are over. A system without that clock (macOS, Windows) gets the monotonic clock,
which may stop during a suspend; a warning says so once. A child of `fork` has the memory of its
parent but holds nothing, so its proofs are dropped before its code runs.
"""

import functools
import os
import time
import warnings
import weakref
from collections.abc import Callable
from typing import Protocol


class Believer(Protocol):
    """Object that keeps proofs."""

    def drop_all(self) -> None:
        """Drop all proofs."""


_believers: "weakref.WeakSet[Believer]" = weakref.WeakSet()


def boot_clock() -> Callable[[], float]:
    """Return a clock in seconds that advances in a suspend; without one warn, return another."""
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
    """Drop the proofs of `believer` in a forked child of this process."""
    _believers.add(believer)
    _watch_forks()


def _forget() -> None:
    for believer in tuple(_believers):
        believer.drop_all()


@functools.cache
def _watch_forks() -> None:
    """Register the handler once per process, since it cannot be unregistered."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_forget)
