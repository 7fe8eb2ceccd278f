"""Play reliability lines: python -m tests.chaos.lines [R07 R09 ...] [--share 0.2] [--report FILE].

share: part of a line's cycles, rounds or minutes that is played; 1 for all of them.
"""

import argparse
import asyncio
import sys
import time
from pathlib import Path

from docstore.client import local
from tests.chaos.kafka import lines as kafka_lines
from tests.chaos.lines import (
    counting,
    cut,
    disks,
    groups,
    levels,
    locks,
    members,
    owners,
    roles,
    stage,
    strain,
    stream_disks,
    streams,
    walks,
)
from tests.chaos.lines.stage import LINES, Line, Seen
from tests.fork_server import SERVER

__all__ = [
    "counting", "cut", "disks", "groups", "kafka_lines", "levels", "locks", "members", "owners",
    "roles", "strain", "stream_disks", "streams", "walks",
]  # fmt: skip
"""Modules that each enter their lines."""


def row_of(line: Line, seen: Seen) -> str:
    """Return a row of the report."""
    return f"| {line.number} | {line.promise} | {seen.figures} | {'yes' if seen.holds else 'NO'} |"


def main() -> int:
    """Parse the command line, play, print; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.lines", description=__doc__)
    parser.add_argument("numbers", nargs="*", choices=[*sorted(LINES), []], help="default: all")
    parser.add_argument("--share", type=float, default=0.2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--report", help="write Markdown here")
    options = parser.parse_args()
    local.launch = SERVER.launch  # A node that is killed is back a second of processor time sooner.
    rows: list[str] = []
    missed = 0
    for number in options.numbers or sorted(LINES):
        begun = time.monotonic()
        seen = asyncio.run(stage.play(LINES[number], options.seed, options.share))
        took_s = time.monotonic() - begun
        rows.append(row_of(LINES[number], seen))
        print(rows[-1], f"({took_s:.0f} s)", *seen.problems[:5], sep="\n  ", flush=True)
        missed += not seen.holds
    SERVER.stop()
    if options.report:
        head = ["| line | promise | seen | holds |", "|---|---|---|---|"]
        Path(options.report).write_text("\n".join([*head, *rows, ""]))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
