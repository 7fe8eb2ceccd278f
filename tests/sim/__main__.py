"""Run seeds: python -m tests.sim [--seed S] [--seeds N] [--nodes 3|5|both] [--ablation NAME]."""

import argparse
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor

from tests.sim.ablations import ABLATIONS, ablated
from tests.sim.profiles import profile_of
from tests.sim.run import Outcome, run


def one(arguments: tuple[int, str, str | None]) -> Outcome:
    """Run one seed, in this process or in another."""
    seed, nodes, ablation = arguments
    profile = profile_of(seed, nodes)
    if ablation is None:
        return run(seed, profile)
    aim = ABLATIONS[ablation].profile
    with ablated(ablation):
        return run(seed, aim or profile)


def sweep(first: int, count: int, nodes: str, ablation: str | None, jobs: int) -> int:
    """Run seeds; print what came of them; return how many were bad or stuck."""
    work = [(seed, nodes, ablation) for seed in range(first, first + count)]
    started, bad, stuck, operations = time.perf_counter(), 0, 0, 0
    counters: Counter[str] = Counter()
    with ProcessPoolExecutor(jobs) as pool:
        outcomes = pool.map(one, work, chunksize=8) if jobs > 1 else map(one, work)
        for outcome in outcomes:
            operations += outcome.operations
            counters.update(outcome.counters)
            bad += bool(outcome.problems)
            stuck += bool(outcome.stuck and not outcome.problems)
            found = outcome.problems or outcome.stuck
            if found and (ablation is None or bad + stuck == 1):
                print(f"seed {outcome.seed}: {found[0]}")
                print(
                    f"  again: python -m tests.sim --seed {outcome.seed} --nodes {nodes}",
                    flush=True,
                )
            if ablation is not None and bad:
                break
    took = time.perf_counter() - started
    print(
        f"{ablation or 'all rules'}: {count} seeds, bad {bad}, stuck {stuck},"
        f" {operations} operations, {count / took:.1f} seeds/s"
    )
    if ablation is None:
        print("  " + ", ".join(f"{name} {number}" for name, number in sorted(counters.items())))
    return bad + stuck


def main() -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--nodes", choices=("3", "5", "both"), default="both")
    parser.add_argument("--ablation", choices=("all", *sorted(ABLATIONS)))
    parser.add_argument("--jobs", type=int, default=1)
    arguments = parser.parse_args()
    if arguments.ablation is None:
        wrong = sweep(arguments.seed, arguments.seeds, arguments.nodes, None, arguments.jobs)
        return 1 if wrong else 0
    names = sorted(ABLATIONS) if arguments.ablation == "all" else [arguments.ablation]
    missed = [
        name
        for name in names
        if not sweep(arguments.seed, arguments.seeds, arguments.nodes, name, arguments.jobs)
    ]
    if missed:
        print("not caught: " + ", ".join(missed))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
