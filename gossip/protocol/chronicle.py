"""The last changes of each belief, with cause and reporter.

Operators ask of a detector why it declared a member dead, on which reports, after which probes. So
each change of a belief leaves a moment here. A member that was always alive costs nothing.

Source: our own.
Left out: keeping it over restarts.
"""

from __future__ import annotations

from dataclasses import dataclass

from gossip.member import State

MOMENTS_MAX = 32
"""Moments kept for each member."""


@dataclass(frozen=True, slots=True)
class Moment:
    """One change of a belief."""

    at_s: float
    """Time of the change on our own monotonic clock."""

    state: State
    incarnation: int
    reporter: str
    """The member that began the statement: we, for our own probes and suspicions that ran out."""

    cause: str
    """How the statement came to us, in words."""


class Chronicle:
    """The moments of all members, oldest first."""

    def __init__(self) -> None:
        self._moments: dict[str, tuple[Moment, ...]] = {}

    def note(self, name: str, moment: Moment) -> None:
        """Remember a moment of `name`, and no more than the last few."""
        self._moments[name] = (*self._moments.get(name, ())[1 - MOMENTS_MAX :], moment)

    def of(self, name: str) -> tuple[Moment, ...]:
        """Return the moments of `name`, oldest first; none for one that was always alive."""
        return self._moments.get(name, ())

    def forget(self, name: str) -> None:
        self._moments.pop(name, None)
