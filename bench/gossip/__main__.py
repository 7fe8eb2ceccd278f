"""`python -m bench.gossip`: measure, print the table, keep the figures, draw the plots.

Exit codes: 0 measured and every bound held, 1 some bound did not.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from collections.abc import Callable
from typing import Any

from bench.gossip import plots, report, rounds, survivors, throughput, worlds
from bench.gossip.figure import Figure, Plot
from bench.gossip.processes import real

BENCHES: dict[str, Callable[..., Any]] = {
    "B1": rounds.b1,
    "B2": worlds.b2,
    "B3": rounds.b3,
    "B4": survivors.b4,
    "B5": rounds.b5,
    "B6": worlds.b6,
    "B7": worlds.b7,
    "B8": worlds.b8,
    "B9": worlds.b9,
    "B10": worlds.b10,
    "B14": worlds.b14,
    "B15": worlds.b15,
    "B16": throughput.b16,
}
SHORT = ("B1", "B2", "B3", "B4", "B5", "B10", "B14")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.gossip", description=__doc__)
    parser.add_argument("--short", action="store_true", help="a minute, for every change")
    parser.add_argument("--only", default="", help="B1,B5,...; `real` for the processes")
    parser.add_argument("--with-kinship", action="store_true", help="install and run the rival")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--name", help="keep the figures under bench/results/, write the page")
    return parser.parse_args()


def main() -> int:
    """Run what was asked for; return the exit code."""
    options = arguments()
    names = options.only.split(",") if options.only else [*(SHORT if options.short else BENCHES)]
    if not options.only and not options.short:
        names.append("real")
    figures: list[Figure] = []
    drawn: list[Plot] = []
    for name in names:
        begun_s = time.perf_counter()
        if name == "real":
            figures += real(short=options.short, with_kinship=options.with_kinship)
        else:
            found = BENCHES[name](options.seed, short=options.short)
            if isinstance(found, tuple):
                drawn.append(found[1])
                found = found[0]
            figures += found
        print(f"{name}: {time.perf_counter() - begun_s:.0f} s", file=sys.stderr)
    report.show(figures)
    if options.name:
        machine: dict[str, object] = {
            "cpus": os.cpu_count(),
            "system": platform.platform(terse=True),
            "python": platform.python_version(),
        }
        for plot in drawn:
            plots.write(plot, report.ROOT / "docs" / "img")
        report.document(report.keep(options.name, figures, machine), machine)
    missed = [figure for figure in figures if figure.met is False]
    for figure in missed:
        print(f"missed: {figure.bench} {figure.what}: {figure.ours:g}, goal {figure.goal}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
