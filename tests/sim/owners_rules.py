"""Rules of ownership, in one list; each of them is removed in turn.

    python -m tests.sim.owners_rules [--seeds 1000] [NUMBER ...]

prints rows of the table in docs/testing.md: for each way to remove a rule the first seed, from 0,
that notices. Three simulations run them: actors on nodes (`sessions.py`), members at a model of
Kafka's coordinator (`kafka.py`), and the vote of users' processes, under faults (`storm.py`, where
its tests are).
"""

import argparse
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence

from docstore.ownership.elector import Elector
from docstore.testing.simulation.electors import Violation
from tests.docstore.ownership import lacking, storm
from tests.sim import kafka_ablations, sessions, sessions_ablations

SEEDS_MAX = 1_000
"""A missing rule must be noticed by then, or by a test of one machine."""

IDEAS: Sequence[tuple[str, Sequence[str]]] = (
    (
        "only the term that judged may end a lease or change a group",
        ("ended-under-any-reign", "groups-changed-under-any-reign"),
    ),
    (
        "a majority confirms an answer's read, for the same owner and term",
        (
            "answered-from-memory", "confirmed-by-any-owner",
            "members-answered-from-memory", "members-confirmed-by-any-owner",
        ),
    ),
    (
        "a new owner restarts the time of every lease and session",
        ("not-granted-in-full", "sessions-not-granted-in-full"),
    ),
    (
        "a proof counts from the sending of its first request",
        ("stamped-at-receipt", "created-by-a-retry"),
    ),
    (
        "a proof lasts less than the TTL, by the allowed error of clock rates",
        ("believed-for-the-whole-time", "rates-ignored"),
    ),
    ("a holder's clock continues in suspend", ("a-clock-that-stops",)),
    (
        "an ending lease or member is not confirmed before the outcome is known",
        ("renewed-though-ending", "members-confirmed-though-leaving"),
    ),
    ("a group is changed only from the version that was read", ("groups-updated-without-a-tag",)),
    (
        "an exclusive partition moves once its member has released it",
        ("tenure-with-the-target",),
    ),
    (
        "absence from a list releases a revoked partition, in a pulse of this generation",
        ("released-though-to-stay", "released-in-an-old-pulse"),
    ),
    (
        "a member leads what it claimed; older answers do not undo a release",
        ("led-when-assigned", "confirmed-after-the-release"),
    ),
    ("a fenced member keeps its partitions until its session expires", ("fenced-and-gone",)),
    ("a fenced member drops all its partitions", ("fenced-and-believing",)),
    ("offsets are claimed, and commits are fenced", ("not-claimed", "commits-with-any-token")),
    (
        "unfenced rows and tombstones carry fences on",
        ("fences-not-carried", "fences-buried"),
    ),
    ("tokens are versions", ("tokens-counted-in-the-state",)),
    ("where two may lead, the old leader leads until the new one does", ("a-gap-between-leaders",)),
    ("attached documents are swept again, long after the end", ("swept-once",)),
    ("a waiter registers first, then reads", ("read-then-waiting",)),
    ("a holder drops its proof before it sends a release", ("dropped-when-answered",)),
    (
        "on Kafka: a grace, an era, commits as proofs",
        ("no-grace", "no-era", "receipt-as-proof", "as-in-the-paper"),
    ),
    (
        "the vote: a member that hears a leader, or has just started, does not vote; and more",
        (
            "voted-though-a-leader-is-heard", "voted-right-after-a-start", "votes-forgotten",
            "led-without-answers", "answers-counted-from-receipt", "rates-ignored-in-the-vote",
            "believed-while-handing-over",
        ),
    ),
    (
        "while a node is paused no deadline comes nearer",
        ("deadlines-not-moved-after-a-pause",),
    ),
    (
        "a candidate whose lease is in the slot of its queue enters while the lease lives",
        ("entered-under-any-lease",),
    ),
    (
        "a lead is handed on from outside once its holder's proof has expired",
        ("handed-on-at-once", "handed-on-by-an-exact-clock"),
    ),
    (
        "a Kafka client commits only in the newest generation, which is decided",
        (
            "kafka-generations-unchecked", "kafka-not-claimed",
            "kafka-answered-from-memory", "kafka-changed-under-any-reign",
        ),
    ),
)  # fmt: skip
"""(rule, the ways to remove it), numbered from 1."""

Play = Callable[[int, type[Elector]], None]

OF_THE_VOTE: Mapping[str, tuple[type[Elector], Play]] = {
    "voted-though-a-leader-is-heard": (lacking.Fickle, storm.weather),
    "voted-right-after-a-start": (lacking.Hasty, storm.restart_third),
    "votes-forgotten": (lacking.Forgetful, storm.weather),
    "led-without-answers": (lacking.Stubborn, storm.weather),
    "answers-counted-from-receipt": (lacking.Receiver, storm.weather),
    "rates-ignored-in-the-vote": (lacking.Exact, storm.cut_leader),
    "believed-while-handing-over": (lacking.Clinging, storm.weather),
}
"""Name -> the elector without the rule, and the faults that aim at it."""
ON_KAFKA = kafka_ablations.RULES.keys() - {"all"}


def first_noticed(name: str, seeds: Iterable[int]) -> int | None:
    """Return the first seed that breaks a promise without a rule; None if none of them does."""
    if name in OF_THE_VOTE:
        notices = _noticed_by_voters
    elif name in ON_KAFKA:
        notices = _noticed_on_kafka
    else:
        notices = _noticed_by_actors
    return next((seed for seed in seeds if notices(name, seed)), None)


def _noticed_by_actors(name: str, seed: int) -> bool:
    with sessions_ablations.without(name):
        outcome = sessions.run(seed, sessions_ablations.RULES[name].aim)
    return bool(outcome.problems or outcome.stuck)


def _noticed_on_kafka(name: str, seed: int) -> bool:
    return bool(kafka_ablations.run(seed, name).problems)


def _noticed_by_voters(name: str, seed: int) -> bool:
    make, play = OF_THE_VOTE[name]
    try:
        play(seed, make)
    except Violation:
        return True
    return False


def main() -> int:
    """Parse the command line and print rows; return 1 if no seed notices a missing rule."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim.owners_rules", description=__doc__)
    parser.add_argument("numbers", nargs="*", type=int, help="of ideas; default: all")
    parser.add_argument("--seeds", type=int, default=SEEDS_MAX)
    options = parser.parse_args()
    is_complete = True
    for number, (idea, names) in enumerate(IDEAS, 1):
        if number in (options.numbers or [number]):
            seeds = {name: first_noticed(name, range(options.seeds)) for name in names}
            noticed = ", ".join(f"`{name}` {'-' if n is None else n}" for name, n in seeds.items())
            print(f"| {number} | {idea} | {noticed} |", flush=True)
            is_complete &= None not in seeds.values()
    return 0 if is_complete else 1


if __name__ == "__main__":
    sys.exit(main())
