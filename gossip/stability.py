"""A calmer view of the group, for those to whom every change is dear: whoever moves data, say.

The detector judges members one by one, and a member that flaps is told each time. Here its
verdicts are collected: while anybody is half accused, more may follow, so nothing is changed;
then all changes are made at once, as one new view. Who came back must have stayed for a while
first, the longer the more often it has flapped. Only the view waits, never the detector.

Source: Rapid (Suresh et al., 2018), section 4.2, almost-everywhere agreement: delivery waits
while a subject's tally of reports lies between a low and a high watermark. Flap damping as in
RFC 2439, with a penalty that decays by half.
Left out: agreement on the sequence of views. Two members may pass through different ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gossip.config import Config
from gossip.member import Change


@dataclass(frozen=True, slots=True)
class View:
    """Who is here, as of the last quiet moment. Numbers count up from 0 on each member."""

    number: int
    names: frozenset[str]


@dataclass(slots=True)
class _Subject:
    """What is going on with one member."""

    is_live: bool
    since_s: float
    penalty: float = 0.0
    penalty_at_s: float = 0.0


class StableView:
    """Turns single verdicts into views."""

    def __init__(self, config: Config, names: Iterable[str]) -> None:
        self._config = config
        self._subjects: dict[str, _Subject] = {}
        self.view = View(0, frozenset(names))

    def changed(self, change: Change, now: float) -> None:
        """Take note of a verdict; the view stays as it is until `look`."""
        member = change.member
        subject = self._subjects.get(member.name)
        if subject is None:
            self._subjects[member.name] = _Subject(member.is_live, now)
        elif subject.is_live is not member.is_live:
            if member.is_live:
                subject.penalty = self._penalty(subject, now) + 1.0
                subject.penalty_at_s = now
            subject.is_live, subject.since_s = member.is_live, now

    def look(self, reporters: Mapping[str, int], now: float) -> bool:
        """Make a new view if there is cause and the moment is quiet; tell whether there is one.

        reporters: how many members have accused each present suspect, by its name.
        """
        ready = [name for name in self._pending() if self._is_ready(name, now)]
        if not ready:
            return False
        oldest_s = max(now - self._subjects[name].since_s for name in ready)
        is_unrest = any(count < self._config.confirmations_max + 1 for count in reporters.values())
        is_overdue = oldest_s >= self._config.view_hold_max_s
        if oldest_s < self._config.view_batch_s or (is_unrest and not is_overdue):
            return False
        names = self.view.names ^ frozenset(ready)
        self.view = View(self.view.number + 1, names)
        self._forget(now)
        return True

    def _pending(self) -> list[str]:
        return [
            name
            for name, subject in self._subjects.items()
            if subject.is_live is not (name in self.view.names)
        ]

    def _is_ready(self, name: str, now: float) -> bool:
        """Who was here before must have been back for a while; others need not wait."""
        subject = self._subjects[name]
        penalty = self._penalty(subject, now)
        if not subject.is_live or penalty < _SETTLED:
            return True
        wait_s = self._config.view_return_s * math.pow(2.0, min(penalty - 1.0, 6.0))
        return now - subject.since_s >= wait_s

    def _penalty(self, subject: _Subject, now: float) -> float:
        age = (now - subject.penalty_at_s) / self._config.flap_half_life_s
        return subject.penalty * math.pow(0.5, age)

    def _forget(self, now: float) -> None:
        """Let go of subjects about whom nothing is left to say."""
        for name, subject in list(self._subjects.items()):
            is_old = now - subject.since_s > self._config.flap_half_life_s
            if is_old and not subject.is_live and self._penalty(subject, now) < _SETTLED:
                del self._subjects[name]


_SETTLED = 0.25
"""A penalty below this counts as none."""
