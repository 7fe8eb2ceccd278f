"""Run seeds: python -m tests.sim [--seed S] [--seeds N] [--nodes both] [--ablation NAME].

--nodes: 3, 5, or both sizes. With batches, some clients send several operations at once; with
atomic, all or none of them are applied; with keyed, they also have a key and are repeated.

With --streams: record streams, beside real replicas, or on a model of documents (--register).
With --sessions: leases, elections, locks, roles and groups, likewise.
With --agendas: timers and effects of documents, likewise.
"""

import argparse
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor

from tests.sim.ablations import ABLATIONS, ablated
from tests.sim.agendas import Shape as AgendaShape
from tests.sim.agendas import run as run_agendas
from tests.sim.agendas_ablations import RULES as AGENDA_RULES
from tests.sim.agendas_ablations import without as without_agenda
from tests.sim.profiles import profile_of
from tests.sim.run import Outcome, run
from tests.sim.sessions import run as run_sessions
from tests.sim.sessions_ablations import RULES as SESSION_RULES
from tests.sim.sessions_ablations import without as without_session
from tests.sim.sessions_shapes import shape_of as session_shape_of
from tests.sim.streaming import run as run_streams
from tests.sim.streaming_ablations import RULES, without
from tests.sim.streaming_shapes import shape_of

NODES = ("3", "5", "both", "batches", "atomic", "keyed")
BESIDE = {
    "streams": "--streams",
    "streams on a register": "--streams --register",
    "sessions": "--sessions",
    "sessions on a register": "--sessions --register",
    "agendas": "--agendas",
    "agendas on a register": "--agendas --register",
}
"""Machines that run beside documents -> the options that select them."""


def one(arguments: tuple[int, str, str | None]) -> Outcome:
    """Run one seed, in this process or in another."""
    seed, nodes, ablation = arguments
    if nodes in BESIDE:
        which = nodes.partition(" ")[0]
        beside = {"streams": _one_of_streams, "sessions": _one_of_sessions}.get(
            which, _one_of_agendas
        )
        return beside(seed, ablation, on_register=nodes.endswith("register"))
    profile = profile_of(seed, nodes)
    if ablation is None:
        return run(seed, profile)
    aim = ABLATIONS[ablation].aim
    with ablated(ablation):
        return run(seed, aim or profile)


def _one_of_streams(seed: int, ablation: str | None, *, on_register: bool) -> Outcome:
    if ablation is None:
        return run_streams(seed, shape_of(seed), register=on_register)
    aim = RULES[ablation].aim
    with without(ablation):
        return run_streams(seed, aim, register=on_register and not aim.changes)


def _one_of_sessions(seed: int, ablation: str | None, *, on_register: bool) -> Outcome:
    if ablation is None:
        return run_sessions(seed, session_shape_of(seed), register=on_register)
    with without_session(ablation):
        return run_sessions(seed, SESSION_RULES[ablation].aim, register=on_register)


def _one_of_agendas(seed: int, ablation: str | None, *, on_register: bool) -> Outcome:
    if ablation is None:
        return run_agendas(seed, AgendaShape(), register=on_register)
    with without_agenda(ablation):
        return run_agendas(seed, AGENDA_RULES[ablation].aim)


def sweep(first: int, count: int, nodes: str, ablation: str | None, jobs: int) -> int:
    """Run seeds; print their results; return how many were bad or stuck."""
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
                again = BESIDE.get(nodes, f"--nodes {nodes}")
                again += f" --ablation {ablation}" if ablation else ""
                print(f"  again: python -m tests.sim --seed {outcome.seed} {again}", flush=True)
            if ablation is not None and bad + stuck:
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
    parser.add_argument("--nodes", choices=NODES, default="both")
    rules = sorted({*ABLATIONS, *RULES, *SESSION_RULES, *AGENDA_RULES})
    parser.add_argument("--ablation", choices=("all", *rules))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--streams", action="store_true")
    parser.add_argument("--sessions", action="store_true")
    parser.add_argument("--agendas", action="store_true")
    parser.add_argument("--register", action="store_true")
    arguments = parser.parse_args()
    nodes = arguments.nodes
    asked = [each for each in ("streams", "sessions", "agendas") if getattr(arguments, each)]
    if asked:
        nodes = f"{asked[0]} on a register" if arguments.register else asked[0]
    if arguments.ablation is None:
        wrong = sweep(arguments.seed, arguments.seeds, nodes, None, arguments.jobs)
        return 1 if wrong else 0
    theirs = {"streams": RULES, "sessions": SESSION_RULES, "agendas": AGENDA_RULES}
    every = sorted(theirs[asked[0]] if asked else ABLATIONS)
    names = every if arguments.ablation == "all" else [arguments.ablation]
    missed = [
        name
        for name in names
        if not sweep(arguments.seed, arguments.seeds, nodes, name, arguments.jobs)
    ]
    if missed:
        print("not caught: " + ", ".join(missed))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
