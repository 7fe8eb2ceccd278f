"""How long a suspect may defend itself: longest while a single member accuses it.

A lone accuser may itself be the sick one, so its suspicion starts at the longest time. Every
further accuser that came to its opinion by itself shortens it, down to the shortest. Hearing
the same accuser again, or learning of the suspicion by comparing tables, proves nothing new
and shortens nothing.

Source: Lifeguard (Dadgar, Phillips and Currey, 2017), section IV-B, local health aware
suspicion. The plain protocol has one fixed time (SWIM 2002, section 4.2).
Left out: growing the longest time with our own ill health.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from gossip.config import Config


def suspicion_timeout_s(
    confirmations: int,
    *,
    confirmations_max: int,
    timeout_min_s: float,
    timeout_max_s: float,
) -> float:
    """Return how long a member stays suspect before we call it dead, in seconds.

    max(min, max - (max - min) * ln(C + 1) / ln(K + 1)), with C confirmations of at most K.

    confirmations: accusers beyond the first; 0 or more.
    confirmations_max: number of confirmations that gives the minimum; 0: always the minimum.
    Source: Lifeguard, section IV-B.
    """
    assert confirmations >= 0
    assert 0.0 < timeout_min_s <= timeout_max_s
    if confirmations_max == 0:
        return timeout_min_s
    heard = math.log(confirmations + 1) / math.log(confirmations_max + 1)
    span_s = timeout_max_s - timeout_min_s
    return max(timeout_min_s, timeout_max_s - heard * span_s)


def suspicion_min_s(live_count: int, config: Config) -> float:  # Tests replace this.
    """Return the shortest suspicion among `live_count` members: mult * max(1, log10 n) * T.

    Grows with the logarithm because rumours need that long to reach the accused and return.
    Source: Lifeguard, section IV-B; SWIM section 4.2 for the logarithm.
    """
    spread = max(1.0, math.log10(max(1, live_count)))
    return config.suspicion_mult * spread * config.probe_interval_s


@dataclass(slots=True)
class Suspicion:
    """One running suspicion: the suspect, the members that report it, and its deadline."""

    name: str
    incarnation: int
    started_at_s: float
    timeout_min_s: float
    timeout_max_s: float
    confirmations_max: int
    reporters: set[str] = field(default_factory=set)
    confirmations: int = 0
    extended_s: float = 0.0
    deadline_max_s: float = math.inf

    @property
    def deadline_s(self) -> float:
        """Time at which the suspect counts as dead unless it has refuted. May be in the past."""
        timeout_s = suspicion_timeout_s(
            self.confirmations,
            confirmations_max=self.confirmations_max,
            timeout_min_s=self.timeout_min_s,
            timeout_max_s=self.timeout_max_s,
        )
        return min(self.started_at_s + timeout_s, self.deadline_max_s) + self.extended_s

    def next_look_s(self, now: float, observer: str) -> float:
        """Return when `observer` looks again: after the shortest time, then at the end.

        Accusers look at each quarter of the shortest time as well. At each look the
        accused gets the accusation: the rumour may have been lost, or a partition in its way, and
        now there is time left to refute.
        """
        begun_s = self.started_at_s + self.extended_s
        for quarter in (1, 2, 3, 4) if observer in self.reporters else (4,):
            look_s = begun_s + quarter / 4 * self.timeout_min_s
            if now < look_s:
                return min(look_s, self.deadline_s)
        return self.deadline_s

    def confirm(self, reporter: str) -> bool:
        """Count an accuser; tell whether it was new and shortened the suspicion."""
        if reporter in self.reporters or self.confirmations >= self.confirmations_max:
            return False
        self.reporters.add(reporter)
        self.confirmations += 1
        return True

    def hasten(self, deadline_s: float) -> None:
        """End the suspicion at `deadline_s` at the latest: a refusal proves more than silence."""
        self.deadline_max_s = min(self.deadline_max_s, deadline_s)

    def extend(self, lag_s: float) -> None:
        """Give back the time during which we could not have heard a refutation.

        All extensions together stay below the shortest suspicion, so that a member that is
        always late still comes to a decision.
        """
        assert lag_s >= 0
        self.extended_s = min(self.extended_s + lag_s, self.timeout_min_s)


def begin_suspicion(
    name: str, incarnation: int, reporter: str, *, now: float, live_count: int, config: Config
) -> Suspicion:
    """Return a suspicion as it begins at `now`.

    At most n-2 others can confirm: neither the suspect nor the first accuser counts.
    """
    timeout_min_s = suspicion_min_s(live_count, config)
    return Suspicion(
        name=name,
        incarnation=incarnation,
        started_at_s=now,
        timeout_min_s=timeout_min_s,
        timeout_max_s=config.suspicion_max_mult * timeout_min_s,
        confirmations_max=min(config.confirmations_max, max(0, live_count - 2)),
        reporters={reporter},
    )
