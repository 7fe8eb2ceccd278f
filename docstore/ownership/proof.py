"""The proof of a holder: how long it may act without asking, counted from sending a request.

The holder stamps each request with its own clock just before it gives the bytes to the socket. When
the answer to *that* request says OK, the stamp is a proof (rule H1), and `holds(now)` says whether
the newest proof is at most T old. The time of receipt never counts (an answer may have waited in a
buffer while this process was stalled), nor does anything that was pushed, nor a wall clock.

Why it is safe. Let a holder's last OK be for a request sent at s. The owner answers an arrival only
after a majority has confirmed its term: so the next term opens after s.

1. Under the same term the owner's deadline is the arrival and a whole TTL of its clock, which is
   s + TTL / (1 + rho) at the earliest.
2. A later term opens after s, and grants the TTL anew, from the moment it first sees the lease.
3. The update by which a deposed owner ends the lease is refused everywhere, because it names its
   term; if it was proposed before the owner was deposed, this holder was overdue by then.

So the lease ends after s + TTL / (1 + rho), while the holder believes until s + T / (1 - rho) at
the latest. No holder believes at that time if T (1 + rho) < TTL (1 - rho). This assumes neither
bounded delays nor clocks that agree. It assumes that *rates* are right within rho, that the clock
runs while the machine sleeps, and that a process reads it at the moment it acts.

Safe by a proof alone: actions within the holder's process, at once. Not safe without a fencing
token (header `Fence`): any write that travels, because it may be late by more than T; and a machine
that is restored from a snapshot, whose clock proves nothing.

Source: Gray and Cheriton, "Leases" (1989), with the holder's clock read at the sending. A client of
etcd (`concurrency.Session`) waits for an event instead, and that is not enough.
"""

RATE_ERROR = 1e-3
"""rho: the maximum relative error of a clock's rate. A quartz clock is a hundred times better."""


def check_disjoint(  # Tests replace this.
    window_s: float, granted_s: float, rate_error: float = RATE_ERROR
) -> None:
    """Raise ValueError if a holder may still believe after its grant has expired (H2).

    window_s: T, the validity of a proof. granted_s: the TTL of a lease, or the length of a session.
    """
    if not 0.0 < window_s * (1.0 + rate_error) < granted_s * (1.0 - rate_error):
        raise ValueError(
            f"a proof must expire before its grant of {granted_s:g} s, with clock rates off"
            f" by {rate_error:g}; got {window_s:g} s: choose a shorter window"
        )


def lapse_s(window_s: float, rate_error: float = RATE_ERROR) -> float:  # Tests replace this.
    """Return how long to wait, by another clock, until a proof has certainly expired (S7).

    window_s: T. The proof must not be confirmed meanwhile.
    """
    return window_s * (1.0 + rate_error) / (1.0 - rate_error)


class Proof:
    """The newest proof of one grant. Any thread may ask `is_valid`."""

    __slots__ = ("_is_dropped", "stamp", "window_s")

    def __init__(self, window_s: float, stamp: float = float("-inf")) -> None:
        """window_s: T. stamp: time when a granted request was sent, if there was one."""
        assert window_s > 0.0
        self.window_s = window_s
        self.stamp = stamp
        """Time when the newest granted request was sent; `drop` does not change it."""
        self._is_dropped = False

    def confirm(self, stamp: float) -> None:
        """Note the OK for a request that was sent at `stamp`. An older one changes nothing."""
        self.stamp = max(self.stamp, stamp)

    def drop(self) -> None:
        """Drop the proof for ever: an answer that is still under way does not restore it.

        Call it before the holder sends its release (rule H4): otherwise a holder whose release has
        no answer would still believe that it holds.
        """
        self._is_dropped = True

    @property
    def until(self) -> float:
        """Return the end of validity on the holder's clock; minus infinity if it is invalid."""
        return float("-inf") if self._is_dropped else self.stamp + self.window_s

    def is_valid(self, now: float) -> bool:
        """Say whether the proof is valid; the caller must read `now` for this very question."""
        return now <= self.until
