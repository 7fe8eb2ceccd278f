"""The table on the terminal, the page in the documentation, and the file that keeps the figures."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.gossip.figure import Figure

ROOT = Path(__file__).parent.parent.parent
RESULTS = ROOT / "bench" / "results"
PAGE = ROOT / "docs" / "gossip-figures.md"


SOURCES = (
    "Written by `make bench-gossip`. The column *published* has what the papers on SWIM (2002) and"
    " Lifeguard (2017) say. kinship is another library of that kind: its column has what the README"
    " of version 0.4 says, or, where the line names processes, what it did on this machine in the"
    " same run. B9 and B15 count as that README does: one false death for each member and"
    " incarnation, quantiles over the detections of all members, and bytes after encryption. That"
    " README has 200 runs for each figure; the lines here say how many they have."
)


def verdict(figure: Figure) -> str:
    """Return whether the goal was met, in a word."""
    return "" if figure.met is None else ("met" if figure.met else "MISSED")


def show(figures: Sequence[Figure]) -> None:
    """Print the table."""
    table = Table("", "figure", "ours", "goal", "kinship", "published", "")
    for figure in figures:
        rival = "" if figure.rival is None else f"{figure.rival:g}"
        table.add_row(
            figure.bench, figure.what, f"{figure.ours:g} {figure.unit}", figure.goal, rival,
            figure.published, verdict(figure),
        )  # fmt: skip
    Console(width=150).print(table)


def keep(name: str, figures: Sequence[Figure], machine: dict[str, object]) -> list[Figure]:
    """Write the figures as JSON; return all that the file holds now.

    Benchmarks that did not run this time keep their figures: the whole takes an hour, and one
    may be run anew by itself.
    """
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"gossip-{name}.json"
    kept: list[Figure] = []
    if path.exists():
        kept = [Figure(**each) for each in json.loads(path.read_text())["figures"]]
    anew = {figure.bench for figure in figures}
    both = [*(figure for figure in kept if figure.bench not in anew), *figures]
    both.sort(key=lambda figure: int("".join(filter(str.isdigit, figure.bench)) or 0))
    page = {"machine": machine, "figures": [figure.as_json() for figure in both]}
    path.write_text(json.dumps(page, indent=1) + "\n")
    return both


def document(figures: Sequence[Figure], machine: dict[str, object]) -> None:
    """Write the page with the table and every plot that was drawn."""
    lines = [
        "# Figures of gossip",
        "",
        SOURCES,
        "",
        "Machine: " + ", ".join(f"{key} {value}" for key, value in machine.items()) + ".",
        "",
        "| | figure | ours | goal | kinship | published | |",
        "|---|---|---|---|---|---|---|",
    ]
    for figure in figures:
        rival = "" if figure.rival is None else f"{figure.rival:g}"
        lines.append(
            f"| {figure.bench} | {figure.what.strip()} | {figure.ours:g} {figure.unit} |"
            f" {figure.goal} | {rival} | {figure.published} | {verdict(figure)} |"
        )
    plots = sorted((ROOT / "docs" / "img").glob("gossip-*.svg"))
    lines += ["", *(f"![{path.stem}](img/{path.name})" for path in plots), ""]
    PAGE.write_text("\n".join(lines))
