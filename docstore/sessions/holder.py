"""The holder's side of leases: when to send keep-alives, and how long a proof holds.

A keep-alive is sent every TTL / 5, and a proof is valid for 2/3 of the TTL, so two keep-alives may
be lost. Leases of one TTL are kept alive together, in batches. The sender (a client, a simulator)
reads the clock just before it sends a request, and returns this stamp with the answer. An owner
that was not reached proves nothing; its leases are asked for again soon.

Events of a lease: Lapsed (no proof is valid, but the owner may still keep the lease), Regained, and
LeaseLost (the lease has ended for ever). `holds` needs no event, as it compares the clock.
"""

import heapq
import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from docstore.ownership.proof import RATE_ERROR, Proof, check_disjoint

WINDOW = 2.0 / 3.0
"""Share of the TTL for which a proof is valid."""
KEEP_ALIVES_PER_TTL = 5
BATCH_MAX = 1_000
"""Greatest number of leases in one request; the owner reads each before it answers."""
AGAIN = 0.25
"""Pause before leases without an answer are asked for again, as a share of the usual interval."""


class KeepAlive(NamedTuple):
    """Effect: ask for these leases in one request, and read the clock just before it is sent."""

    leases: tuple[str, ...]


class Lapsed(NamedTuple):
    """No proof of this lease is valid any more, but no owner has said that it has ended."""

    lease: str


class Regained(NamedTuple):
    """A lease that had lapsed is proven again: the owner has kept it without a break."""

    lease: str


class LeaseLost(NamedTuple):
    """This lease has ended for ever.

    why: "ended" by its owner, or "released" by this process.
    """

    lease: str
    why: str


Happening = Lapsed | Regained | LeaseLost


@dataclass(slots=True)
class _Held:
    ttl_s: float
    proof: Proof
    has_lapsed: bool = False


@dataclass(slots=True)
class _Cohort:
    """Leases of one TTL, which are due at the same time so that they share requests."""

    due_at: float
    leases: dict[str, None] = field(default_factory=dict)


class Holder:
    """Keeps the leases of one process alive."""

    def __init__(self, rate_error: float = RATE_ERROR) -> None:
        self._rate_error = rate_error
        self._held: dict[str, _Held] = {}
        self._cohorts: dict[float, _Cohort] = {}
        self._again: dict[str, float] = {}
        self._lapses: list[tuple[float, str]] = []

    def hold(self, lease: str, ttl_s: float, stamp: float, *, window_s: float = 0.0) -> Proof:
        """Keep a lease that was created, and return its proof.

        stamp: when the request that created the lease was sent, so before the owner began to count.
        window_s: for how long a proof is valid; 0 for two thirds of the TTL. Raises ValueError if
        the holder could believe in the lease for longer than the owner keeps it.
        """
        window_s = window_s or ttl_s * WINDOW
        check_disjoint(window_s, ttl_s, self._rate_error)
        assert lease not in self._held
        held = self._held[lease] = _Held(ttl_s, Proof(window_s, stamp))
        interval_s = ttl_s / KEEP_ALIVES_PER_TTL
        cohort = self._cohorts.setdefault(ttl_s, _Cohort(stamp + interval_s))
        cohort.leases[lease] = None
        heapq.heappush(self._lapses, (held.proof.until, lease))
        return held.proof

    def holds(self, lease: str, now: float) -> bool:
        """Say whether a lease is held at `now`, which must be read after the question arose."""
        held = self._held.get(lease)
        return held is not None and held.proof.is_valid(now)

    def release(self, lease: str) -> list[Happening]:
        """Stop holding a lease; to be called before the request that releases it is sent."""
        return self._lose(lease, "released")

    def drop_all(self) -> None:
        """Stop holding all leases, as this process is a fork of the one that holds them."""
        for lease in tuple(self._held):
            self._lose(lease, "released")

    @property
    def leases(self) -> Collection[str]:
        """Return the ids of the leases that are kept."""
        return self._held.keys()

    def next_at(self) -> float:
        """Return the time of the next keep-alive or lapse, by the holder's clock."""
        due = [cohort.due_at for cohort in self._cohorts.values()]
        due += self._again.values()
        # A proof is still valid at its end.
        due += [math.nextafter(at, math.inf) for at, _ in self._lapses[:1]]
        return min(due, default=math.inf)

    def due(self, now: float) -> list[KeepAlive | Happening]:
        """Return the keep-alives to send at once, and the leases that have lapsed."""
        wanted = dict.fromkeys(lease for lease, at in self._again.items() if at <= now)
        for ttl_s, cohort in self._cohorts.items():
            if cohort.due_at <= now:
                cohort.due_at = now + ttl_s / KEEP_ALIVES_PER_TTL
                wanted.update(cohort.leases)
        for lease in wanted:
            self._again.pop(lease, None)
        return [*self._lapsed(now), *_batches(list(wanted))]

    def answered(
        self,
        asked: KeepAlive,
        *,
        stamp: float,
        now: float,
        alive: Collection[str] = (),
        gone: Collection[str] = (),
    ) -> list[Happening]:
        """Take the answer to a keep-alive that was sent at `stamp`.

        alive: leases confirmed by their owners. gone: leases that have ended, or that their owners
        do not know. All others are asked for again, as when no answer came.
        """
        happened: list[Happening] = []
        for lease in asked.leases:
            held = self._held.get(lease)
            if held is None:
                continue  # Released, or lost, while the request was under way.
            if lease in gone:
                happened += self._lose(lease, "ended")
            elif lease in alive:
                happened += self._confirm(lease, stamp, now)
            else:
                self._again[lease] = now + held.ttl_s / KEEP_ALIVES_PER_TTL * AGAIN
        return happened

    def _confirm(self, lease: str, stamp: float, now: float) -> Iterator[Happening]:
        held = self._held[lease]
        held.proof.confirm(stamp)
        if held.has_lapsed and held.proof.is_valid(now):
            held.has_lapsed = False
            heapq.heappush(self._lapses, (held.proof.until, lease))
            yield Regained(lease)

    def _lose(self, lease: str, why: str) -> list[Happening]:
        held = self._held.pop(lease, None)
        if held is None:
            return []
        held.proof.drop()
        self._again.pop(lease, None)
        cohort = self._cohorts[held.ttl_s]
        del cohort.leases[lease]
        if not cohort.leases:
            del self._cohorts[held.ttl_s]
        return [LeaseLost(lease, why)]

    def _lapsed(self, now: float) -> Iterator[Happening]:
        """Yield the leases that have lapsed by now; the others keep one entry each in the heap."""
        while self._lapses and self._lapses[0][0] < now:
            _, lease = heapq.heappop(self._lapses)
            held = self._held.get(lease)
            if held is None or held.has_lapsed:
                continue
            if held.proof.is_valid(now):
                heapq.heappush(self._lapses, (held.proof.until, lease))
            else:
                held.has_lapsed = True
                yield Lapsed(lease)


def _batches(leases: Sequence[str]) -> Iterator[KeepAlive]:
    for first in range(0, len(leases), BATCH_MAX):
        yield KeepAlive(tuple(leases[first : first + BATCH_MAX]))
