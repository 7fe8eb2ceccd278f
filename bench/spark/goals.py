"""The goals: each figure beside what it must be, and both sides of each ratio."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

REPEATS = 3


@dataclass(slots=True)
class Goals:
    """Measurements, and the goals that they must meet."""

    rows: list[dict[str, Any]] = field(default_factory=list)

    def note(
        self, number: str, what: str, seen: float, must: float, *, least: bool = True,
        said: str = "",
    ) -> None:  # fmt: skip
        """Note one goal: at least, or at most, `must`. said: what else to know, as both sides."""
        met = seen >= must if least else seen <= must
        row = {"goal": number, "what": what, "seen": round(seen, 3), "must": must, "met": met,
               "least": least, "said": said}  # fmt: skip
        self.rows.append(row)
        sign, word = "≥" if least else "≤", "met" if met else "MISSED"
        print(f"{number:4} {what:54} {seen:12.3f} {sign} {must:<9g} {word:6} {said}", flush=True)

    def compare(
        self, number: str, ours: "Side", theirs: "Side", must: float, *, said: str = ""
    ) -> None:
        """Note how many times as fast as theirs ours is, and both."""
        sides = f"{ours} against {theirs}"
        what = f"{ours.name} / {theirs.name}"
        self.note(number, what, theirs.seconds / ours.seconds, must,
                  said=f"{sides}; {said}" if said else sides)  # fmt: skip

    @property
    def met(self) -> bool:
        return all(row["met"] for row in self.rows)


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a comparison: its seconds for its documents."""

    name: str
    seconds: float
    documents: int

    def __str__(self) -> str:
        """Return its rate."""
        return f"{self.documents / self.seconds:,.0f}/s"


def took(work: Callable[[], Any], repeats: int = REPEATS) -> float:
    """Return the median seconds of some runs, after one that does not count."""
    once(work)
    return statistics.median(once(work) for _ in range(repeats))


def once(work: Callable[[], Any]) -> float:
    """Return the seconds of one run."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun
