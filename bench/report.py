"""The table of goals and measurements, and the file that keeps it."""

import json
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.load import percentile

RESULTS = Path(__file__).parent / "results"
DOCSTORE = "docstore"
THROUGH_ANY = "   through any node"
WORDS = {None: "", True: "[green]met[/]", False: "[red]missed[/]"}


@dataclass(frozen=True)
class Row:
    """One line of the table: a figure, and what it must reach.

    share: which of the rounds is shown, 1 for the greatest; else their median. ratio, price: at
    least, at most this many times the rival's figure. least, most: bounds on docstore's own figure;
    all but `spared` of the rounds keep to `most`. within: how far from 1 it may be. aim: what we
    would like beyond the bound, in words.
    """

    key: str
    title: str
    figure: str = "rate"
    unit: str = "/s"
    share: float | None = None
    ratio: float | None = None
    price: float | None = None
    least: float | None = None
    most: float | None = None
    spared: int | None = None
    within: float | None = None
    aim: str = ""

    @property
    def name(self) -> str:
        """Return its name in the file of results."""
        share = "" if self.share is None else f".p{100 * self.share:g}"
        return f"{self.key}.{self.figure}{share}"

    def goal(self) -> str:
        """Return its bounds in words."""
        but = f" but {self.spared}" if self.spared else ""
        bounds = {
            "≥ {:g}x": self.ratio, "≤ {:g}x": self.price, "≥ {:,.0f}": self.least,
            "≤ {:g} " + self.unit + but: self.most, "1 ± {:g}": self.within,
        }  # fmt: skip
        found = [text.format(bound) for text, bound in bounds.items() if bound is not None]
        return ", ".join([*found, *([f"aim {self.aim}"] if self.aim else [])])


@dataclass
class Report:
    """docstore beside a rival."""

    title: str
    rival: str
    rows: Sequence[Row]
    note_below: str = ""
    rounds: dict[str, list[dict[str, float]]] = field(default_factory=dict)
    """Side and row -> the figures of each round."""

    def note(self, side: str, row: str, **figures: float) -> None:
        """Keep and print the figures of one round for a row."""
        self.rounds.setdefault(f"{side} {row}", []).append(figures)
        shown = "  ".join(f"{name} {value:,.4g}" for name, value in figures.items())
        print(f"  {side:9} {row:18} {shown}", flush=True)

    def _found(self, side: str, row: Row) -> list[float]:
        return [found[row.figure] for found in self.rounds.get(f"{side} {row.key}", [])]

    def figure(self, side: str, row: Row) -> float | None:
        """Return the figure of a row over all rounds, None if it was not measured."""
        found = self._found(side, row)
        if not found:
            return None
        if row.share is None:
            return statistics.median(found)
        return percentile(Counter(round(each * 1e6) for each in found), row.share) / 1e6

    def errors(self, row: Row) -> int:
        """Return how many requests of a row, in all rounds, were not answered with 2xx."""
        rounds = (self.rounds.get(f"{side} {row.key}", []) for side in (self.rival, DOCSTORE))
        return int(sum(each.get("errors", 0) for found in rounds for each in found))

    def verdict(self, row: Row) -> bool | None:
        """Say whether the goal of a row is met; None if it has none or nothing was measured."""
        theirs, ours = (self.figure(side, row) for side in (self.rival, DOCSTORE))
        if ours is None:
            return None
        kept = []
        if row.ratio is not None and theirs:
            kept.append(ours >= row.ratio * theirs)
        if row.price is not None and theirs:
            kept.append(ours <= row.price * theirs)
        if row.least is not None:
            kept.append(ours >= row.least)
        if row.within is not None:
            kept.append(abs(ours - 1) <= row.within)
        if row.most is not None:
            rounds = [ours] if row.spared is None else self._found(DOCSTORE, row)
            kept.append(sum(each > row.most for each in rounds) <= (row.spared or 0))
        return all(kept) if kept else None

    def has_errors(self) -> bool:
        """Say whether any request of any row failed."""
        return any(map(self.errors, self.rows))

    def is_met(self) -> bool:
        """Say whether no line was missed, and every request answered."""
        return not self.has_errors() and all(self.verdict(row) is not False for row in self.rows)

    def show(self) -> None:
        """Print all rows side by side. A row with errors shows them instead of a verdict."""
        console = Console()
        if not console.is_terminal:  # A pipe has no width; the table has.
            console = Console(width=120)
        shown = Table("work", title=f"{self.title}, medians", title_justify="left")
        for name in (self.rival, DOCSTORE, "ratio", "goal", ""):
            shown.add_column(name, justify="right" if name not in {"goal", ""} else "left")
        for row in self.rows:
            theirs, ours = (self.figure(side, row) for side in (self.rival, DOCSTORE))
            if ours is None and theirs is None:
                continue
            wrong = self.errors(row)
            shown.add_row(
                row.title, _number(theirs, row.unit), _number(ours, row.unit),
                f"{ours / theirs:.2f}x" if ours is not None and theirs else "", row.goal(),
                f"[red]{wrong} errors[/]" if wrong else WORDS[self.verdict(row)],
            )  # fmt: skip
        console.print(shown)
        if self.note_below:
            console.print(self.note_below)

    def keep(self, name: str, facts: Mapping[str, object]) -> None:
        """Write machine facts, medians and every round's figures under bench/results/."""
        RESULTS.mkdir(exist_ok=True)
        medians = {
            row.name: {side: self.figure(side, row) for side in (self.rival, DOCSTORE)}
            for row in self.rows
        }
        kept = {"facts": facts, "medians": medians, "rounds": self.rounds}
        (RESULTS / f"{name}.json").write_text(json.dumps(kept, indent=1) + "\n", "utf-8")
        print(f"kept in bench/results/{name}.json")


def _number(value: float | None, unit: str) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"
