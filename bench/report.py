"""What was promised, what was measured: the table, and the file that keeps it."""

import json
import statistics
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.docstores import ANY
from bench.load import percentile
from bench.rounds import Side

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Row:
    """One line of the table: a figure, and what it must reach.

    ratio: at least this many times etcd's figure. most, least: bounds on docstore's own figure.
    aim: what we would like beyond the bound, in words.
    """

    key: str
    title: str
    figure: str = "rate"
    unit: str = "/s"
    ratio: float | None = None
    least: float | None = None
    most: float | None = None
    aim: str = ""


THROUGH_ANY = "   through any node"
ROWS = [
    Row("put_1", "PUT, 1 client", ratio=0.8),
    Row("put_1", "   p50", "p50_ms", "ms"),
    Row("put_1" + ANY, THROUGH_ANY),
    Row("put_16", "PUT, 16 clients", ratio=0.85, aim="1x"),
    Row("put_16", "   p99", "p99_ms", "ms"),
    Row("put_16" + ANY, THROUGH_ANY),
    Row("put_64", "PUT, 64 clients", ratio=0.85, aim="1x"),
    Row("put_64", "   p99", "p99_ms", "ms"),
    Row("put_64" + ANY, THROUGH_ANY),
    Row("get_1", "GET, linearizable, 1 client"),
    Row("get_1" + ANY, THROUGH_ANY),
    Row("get_64", "GET, linearizable, 64 clients", ratio=2.5),
    Row("get_64", "   p99", "p99_ms", "ms"),
    Row("get_64" + ANY, THROUGH_ANY),
    Row("bulk", "bulk load (etcd: transactions of 100)", unit="docs/s", ratio=0.65, aim="0.85x"),
    Row("bulk", "   per core-second of servers", "rate_per_core_s", "docs"),
    Row("failover_waits", "kill -9 to next write, p50", "p50", "s"),
    Row("failover_waits", "   p99", "p99", "s", most=2.0),
    Row("failover_waits", "   max", "max", "s"),
    Row("startup", "start to ready, three nodes", "s", "s"),
    Row("rss_idle", "memory per node, idle", "mib", "MiB"),
    Row("rss_loaded", "   after the load", "mib", "MiB"),
]


def figure(side: Side, row: Row) -> float | None:
    """Return the median over the rounds (of the waits: the percentile), None if not measured."""
    rounds = side.figures.get(row.key, [])
    if not rounds:
        return None
    if row.key != "failover_waits":
        return statistics.median(found[row.figure] for found in rounds)
    waits_us = Counter(round(found["s"] * 1e6) for found in rounds)
    share = {"p50": 0.50, "p99": 0.99, "max": 1.0}[row.figure]
    return percentile(waits_us, share) / 1e6


def errors(side: Side, row: Row) -> int:
    """Return how many requests of this row, in all rounds, were not answered with 2xx."""
    return int(sum(found.get("errors", 0) for found in side.figures.get(row.key, [])))


def verdict(row: Row, ours: float | None, theirs: float | None) -> bool | None:
    """Say whether the goal of `row` is met; None if it has none or cannot be told."""
    if ours is None:
        return None
    if row.ratio is not None:
        return ours >= row.ratio * theirs if theirs else None
    if row.least is not None:
        return ours >= row.least
    if row.most is not None:
        return ours <= row.most
    return None


def table(etcd: Side, docstore: Side) -> Table:
    """Return all rows side by side. A row with errors shows them instead of a verdict."""
    shown = Table("work", title="docstore beside etcd, medians", title_justify="left")
    for name in ("etcd", "docstore", "ratio", "goal", ""):
        shown.add_column(name, justify="right" if name not in {"goal", ""} else "left")
    for row in ROWS:
        theirs, ours = figure(etcd, row), figure(docstore, row)
        if ours is None and theirs is None:
            continue
        wrong = errors(etcd, row) + errors(docstore, row)
        met = verdict(row, ours, theirs)
        word = {None: "", True: "[green]met[/]", False: "[red]missed[/]"}[met]
        ratio = f"{ours / theirs:.2f}x" if ours is not None and theirs else ""
        shown.add_row(
            row.title,
            _number(theirs, row.unit),
            _number(ours, row.unit),
            ratio,
            _goal(row),
            f"[red]{wrong} errors[/]" if wrong else word,
        )
    return shown


def _number(value: float | None, unit: str) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"


def _goal(row: Row) -> str:
    bounds = {"≥ {:g}x": row.ratio, "≥ {:,.0f}": row.least, "≤ {:g} s": row.most}
    found = [text.format(bound) for text, bound in bounds.items() if bound is not None]
    return ", ".join([*found, *([f"aim {row.aim}"] if row.aim else [])])


def show(etcd: Side, docstore: Side) -> bool:
    """Print the table; say whether every request of every row was answered with 2xx."""
    console = Console()
    if not console.is_terminal:  # A pipe has no width; the table has.
        console = Console(width=110)
    console.print(table(etcd, docstore))
    wrong = {row.title.strip(): errors(side, row) for side in (etcd, docstore) for row in ROWS}
    return not any(wrong.values())


def keep(name: str, facts: dict[str, object], sides: list[Side]) -> Path:
    """Write machine facts, medians and every round's figures under bench/results/."""
    RESULTS.mkdir(exist_ok=True)
    medians = {
        f"{row.key}.{row.figure}": {side.name: figure(side, row) for side in sides} for row in ROWS
    }
    rounds = {side.name: side.figures for side in sides}
    path = RESULTS / f"{name}.json"
    text = json.dumps({"facts": facts, "medians": medians, "rounds": rounds}, indent=1)
    path.write_text(text + "\n", "utf-8")
    return path
