"""What was promised of streams, what was measured: the table, and the file that keeps it."""

import json
import statistics
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from bench.report import RESULTS

Figures = dict[str, list[dict[str, float]]]
"""System and row -> what each round gave."""

JETSTREAM, DOCSTORE = "jetstream", "docstore"
NOTE = (
    "200 bytes a record, three copies. docstore: fsync on the whole live replica set before an "
    "answer; JetStream: fsync every two minutes."
)


@dataclass(frozen=True)
class Row:
    """One line of the table: a figure, and what it must reach.

    ratio: at least this many times JetStream's figure. least, most: bounds on docstore's own
    figure; all but `spared` of the rounds keep to them. within: how far from 1 it may be. aim:
    what we would like beyond the bound, in words.
    """

    key: str
    title: str
    figure: str = "rate"
    unit: str = "/s"
    ratio: float | None = None
    least: float | None = None
    most: float | None = None
    within: float | None = None
    spared: int | None = None
    aim: str = ""


CPU = "   processor of three nodes"
ROWS = [
    Row("batches", "batches of 500, 12 clients", unit="records/s", least=50_000, aim="100,000"),
    Row("batches", "   p99 of a batch", "p99_ms", "ms"),
    Row("batches", CPU, "cpu_us", "us"),
    Row("singles", "single records, 64 clients", unit="records/s", ratio=0.5, aim="1x"),
    Row("singles", "   p50", "p50_ms", "ms"),
    Row("singles", "   p99", "p99_ms", "ms"),
    Row("singles", CPU, "cpu_us", "us"),
    Row("one_client", "single records, 1 client", unit="records/s"),
    Row("one_client", "   p50", "p50_ms", "ms"),
    Row("tail", "sent to read by who waits, p50", "p50_ms", "ms", most=10),
    Row("tail", "   p99", "p99_ms", "ms"),
    Row("fetch", "full fetch, as sealed batches", unit="records/s", least=200_000),
    Row("fetch", CPU, "cpu_us", "us"),
    Row("fetch_lines", "full fetch, as lines of JSON", unit="records/s"),
    Row("fetch_lines", CPU, "cpu_us", "us"),
    Row("kafka", "by confluent-kafka, 1 producer", unit="records/s", least=100_000),
    Row("kafka", CPU, "cpu_us", "us"),
    Row("kafka_fetch", "   1 consumer, full fetch", unit="records/s"),
    Row("kafka_fetch", CPU, "cpu_us", "us"),
    Row("put_alone", "PUT, 100/s alone, p99", "p99_ms", "ms"),
    Row("put_beside", "   beside 20,000 records/s", "p99_ms", "ms"),
    Row("put_ratio", "   times as long", "p99", "x", most=2),
    Row("beside", "   records meanwhile", unit="records/s"),
    Row("idle", "at rest, three nodes: processor", "percent", "%"),
    Row("idle_topic", "   with 1,000 partitions", "percent", "%"),
    Row("idle_ratio", "   times as much", "ratio", "x", within=0.1),
    Row("killed", "leader killed to commit, p50", "s", "s"),
    Row("killed", "   longest", "s", "s", most=1, spared=1),
    Row("stopped", "leader stopped, longest", "s", "s", most=3, spared=0),
]


def figure(figures: Figures, side: str, row: Row) -> float | None:
    """Return the median over the rounds, or the greatest if none but a few are spared."""
    rounds = [found[row.figure] for found in figures.get(f"{side} {row.key}", [])]
    if not rounds:
        return None
    return statistics.median(rounds) if row.spared is None else max(rounds)


def errors(figures: Figures, side: str, row: Row) -> int:
    """Return how many requests of this row, in all rounds, were not answered as they should."""
    return int(sum(found.get("errors", 0) for found in figures.get(f"{side} {row.key}", [])))


def verdict(figures: Figures, row: Row) -> bool | None:
    """Say whether the goal of `row` is met; None if it has none or cannot be told."""
    ours, theirs = (figure(figures, side, row) for side in (DOCSTORE, JETSTREAM))
    if ours is None:
        return None
    if row.ratio is not None:
        return ours >= row.ratio * theirs if theirs else None
    if row.least is not None:
        return ours >= row.least
    if row.within is not None:
        return abs(ours - 1) <= row.within
    if row.most is None:
        return None
    if row.spared is None:
        return ours <= row.most
    rounds = figures[f"{DOCSTORE} {row.key}"]
    return sum(found[row.figure] > row.most for found in rounds) <= row.spared


def table(figures: Figures) -> Table:
    """Return all rows side by side. A row with errors shows them instead of a verdict."""
    shown = Table("work", title="streams beside JetStream, medians", title_justify="left")
    for name in ("JetStream", "docstore", "ratio", "goal", ""):
        shown.add_column(name, justify="right" if name not in {"goal", ""} else "left")
    for row in ROWS:
        theirs, ours = (figure(figures, side, row) for side in (JETSTREAM, DOCSTORE))
        if ours is None and theirs is None:
            continue
        wrong = sum(errors(figures, side, row) for side in (JETSTREAM, DOCSTORE))
        word = {None: "", True: "[green]met[/]", False: "[red]missed[/]"}[verdict(figures, row)]
        shown.add_row(
            row.title,
            _number(theirs, row.unit),
            _number(ours, row.unit),
            f"{ours / theirs:.2f}x" if ours is not None and theirs else "",
            _goal(row),
            f"[red]{wrong} errors[/]" if wrong else word,
        )
    return shown


def _number(value: float | None, unit: str) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"


def _goal(row: Row) -> str:
    bounds = {"≥ {:g}x": row.ratio, "≥ {:,.0f}": row.least, "1 ± {:g}": row.within}
    found = [text.format(bound) for text, bound in bounds.items() if bound is not None]
    if row.most is not None:
        but = f" but {row.spared}" if row.spared else ""
        found.append(f"≤ {row.most:g} {row.unit}{but}")
    return ", ".join([*found, *([f"aim {row.aim}"] if row.aim else [])])


def show(figures: Figures) -> bool:
    """Print the table; say whether no line was missed, and every request answered."""
    console = Console()
    if not console.is_terminal:  # A pipe has no width; the table has.
        console = Console(width=120)
    console.print(table(figures))
    console.print(NOTE)
    sides = (DOCSTORE, JETSTREAM)
    wrong = sum(errors(figures, side, row) for side in sides for row in ROWS)
    return not wrong and all(verdict(figures, row) is not False for row in ROWS)


def keep(name: str, facts: dict[str, object], figures: Figures) -> None:
    """Write machine facts, medians and every round's figures under bench/results/."""
    RESULTS.mkdir(exist_ok=True)
    medians = {
        f"{row.key}.{row.figure}.max" if row.spared is not None else f"{row.key}.{row.figure}": {
            side: figure(figures, side, row) for side in (JETSTREAM, DOCSTORE)
        }
        for row in ROWS
    }
    kept = {"facts": facts, "medians": medians, "rounds": figures}
    (RESULTS / f"{name}.json").write_text(json.dumps(kept, indent=1) + "\n", "utf-8")
