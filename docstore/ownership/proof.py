"""For how long its holder may believe in what was granted to it: counted from what it sent.

The holder stamps each request with its own clock just before the bytes are given to the socket.
When the answer to *that* request says OK, the stamp is a proof (rule H1), and `holds(now)` says
whether the newest one is at most T old. Never the time of receipt (an answer may have waited in a
buffer while this process stood still), nothing that was pushed, and no wall clock.

Why it is safe. Let a holder's last OK be for a request sent at s. The owner answers an arrival
only after a majority has confirmed its term: so the next term opens after s.

1. Under the same term the owner's deadline is the arrival and a whole TTL of its clock, which is
   s + TTL / (1 + rho) at the earliest.
2. A later term opens after s, and grants the TTL anew, from the moment it first sees the lease.
3. A deposed owner's End is refused everywhere, for it names its term; one that was proposed
   before it was deposed was judged with this holder already overdue.

So an End is decided after s + TTL / (1 + rho), while the holder believes until s + T / (1 - rho)
at the latest. Nobody believes when it is decided if T (1 + rho) < TTL (1 - rho). Nothing here
assumes bounded delays, or clocks that agree; it assumes that *rates* are right within rho, that
the clock goes on while the machine sleeps, and that a process reads it at the moment it acts.

Safe by a proof alone: what happens within the holder's process, and at once. Not safe without a
fencing token (header `Fence`): any write that travels, for it may be late by more than T; and a
machine that is put back from a snapshot, for which no clock speaks.

Source: Gray and Cheriton, "Leases" (1989), with the holder's clock read at the sending; what a
client of etcd does (`concurrency.Session`) waits for an event instead, and that is not enough.
"""

RATE_ERROR = 1e-3
"""rho: by how much the rate of a clock may be off. A quartz is a hundred times better."""


def check_disjoint(  # Seam.
    window_s: float, granted_s: float, rate_error: float = RATE_ERROR
) -> None:
    """Raise ValueError if a holder may still believe when what was granted to it is over (H2).

    window_s: T, of a proof. granted_s: the TTL of a lease, or the length of a session.
    """
    if not 0.0 < window_s * (1.0 + rate_error) < granted_s * (1.0 - rate_error):
        raise ValueError(
            f"a proof that is valid for {window_s:g} s is not over before {granted_s:g} s are,"
            f" by clocks whose rates are off by {rate_error:g}"
        )


class Proof:
    """The newest proof of one thing that is held. `is_valid` may be asked by any thread."""

    __slots__ = ("_is_dropped", "stamp", "window_s")

    def __init__(self, window_s: float, stamp: float = float("-inf")) -> None:
        """window_s: T. stamp: when the request that was granted had been sent, if one was."""
        assert window_s > 0.0
        self.window_s = window_s
        self.stamp = stamp
        """When the newest request that was granted had been sent; also once it is dropped."""
        self._is_dropped = False

    def confirm(self, stamp: float) -> None:
        """Take the OK for a request that was sent at `stamp`. An older one changes nothing."""
        self.stamp = max(self.stamp, stamp)

    def drop(self) -> None:
        """Believe no more, for ever: an answer that is still under way does not bring it back.

        To be called before the word that gives it up is sent (rule H4): else a lost answer leaves
        a believer.
        """
        self._is_dropped = True

    @property
    def until(self) -> float:
        """Return until when it is valid, by the holder's clock; minus infinity if it never is."""
        return float("-inf") if self._is_dropped else self.stamp + self.window_s

    def is_valid(self, now: float) -> bool:
        """Say whether it may still be believed; `now` must be read for this very question."""
        return now <= self.until
