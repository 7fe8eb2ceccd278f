"""Write the golden files anew, after a change that is meant; or look at more seeds than these.

python -m tests.edges                               the texts, and docs/metrics.md
python -m tests.edges --pin-traces                  the hashes in traces.json
python -m tests.edges --traces 20 --into FILE       hashes of 20 seeds of each quick world
python -m tests.edges --traces 20 --against FILE    say which of them are others now
"""

import argparse
import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.edges.measures import PAGE, page_of_docs
from tests.edges.pinned import GOLDEN, TEXTS, TRACES, Traces, write_traces
from tests.edges.worlds import QUICK, WORLDS, traced

FIRST = "012"
"""The seeds of a world that is new."""


def hashes(seeds: Mapping[str, Iterable[str]]) -> Traces:
    """Return the hashes of some seeds of some worlds."""
    return {
        world: {seed: traced(world, int(seed)) for seed in chosen}
        for world, chosen in seeds.items()
    }


def first(number: int) -> Mapping[str, Iterable[str]]:
    """Return the first seeds of each quick world."""
    return {world: [str(seed) for seed in range(number)] for world in QUICK}


def compare(found: Traces, pinned: Traces) -> int:
    """Print the seeds with another hash now; return how many they are."""
    others = [
        f"{world} {seed}"
        for world in found
        for seed, each in found[world].items()
        if pinned[world][seed] != each
    ]
    print("\n".join(others) or f"{len(found)} worlds: all as they were")
    return len(others)


def main() -> int:
    """Parse the command line and do what it asks for."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.edges",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--pin-traces", action="store_true")
    parser.add_argument("--traces", type=int, metavar="N", default=0)
    parser.add_argument("--into", type=Path, metavar="FILE")
    parser.add_argument("--against", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    if arguments.pin_traces:
        pinned = json.loads(TRACES.read_text("utf-8"))
        seeds = {world: pinned.get(world, FIRST) for world in WORLDS}
        write_traces(TRACES, hashes(seeds))
    elif arguments.against:
        pinned = json.loads(arguments.against.read_text("utf-8"))
        return min(1, compare(hashes(first(arguments.traces)), pinned))
    elif arguments.into:
        write_traces(arguments.into, hashes(first(arguments.traces)))
    else:
        for name, text in TEXTS.items():
            (GOLDEN / name).write_text(text(), "utf-8")
        PAGE.write_text(page_of_docs(), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
