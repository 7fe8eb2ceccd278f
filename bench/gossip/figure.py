"""One figure: what it is, what others published, what we measured, and whether that is enough."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the report."""

    bench: str
    what: str
    ours: float
    unit: str = ""
    goal: str = ""
    met: bool | None = None
    """None where there is no goal to meet, only something to look at."""
    rival: float | None = None
    published: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return the figure as the file keeps it."""
        return asdict(self)


@dataclass(slots=True)
class Series:
    """Points of one line in a plot."""

    name: str
    points: list[tuple[float, float]] = field(default_factory=list)


@dataclass(slots=True)
class Plot:
    """One plot: lines over a common axis."""

    name: str
    title: str
    x: str
    y: str
    series: list[Series]


def within(value: float, wanted: float, tolerance: float) -> bool:
    """Tell whether `value` is as wanted, give or take a part of it."""
    return abs(value - wanted) <= tolerance * abs(wanted)
