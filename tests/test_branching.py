"""Levels 1 and 2 in the simulator: no acknowledged update disappears, and replicas converge."""

import pytest

from tests.sim.branching import FAULTS_S, Shape, run, shape_of
from tests.sim.branching_ablations import RULES, without

# Each of these once found a bug, which the commit that pinned it describes.
PINNED = (33, 93, 333, 463, 639, 783, 944, 2850, 800271)

# Rule -> a seed that notices when it is gone.
CAUGHT_BY = {
    "applied-forgotten": 2,
    "cursor-before-its-page": 553,
    "echoes-applied": 79,
    "every-peer-counts-as-replica": 217,
    "losers-forgotten": 0,
    "names-not-asked-for": 0,
    "one-hand-on-all-branches": 2,
    "told-before-disk": 11,
}


# A crash between two writes, on a document that is not written again: rare, and so aimed at.
AIMED = {
    "cursor-before-its-page": Shape(
        level=1, links=12, clients=8, page_rows=2, kinds=("crash", "storm", "storm", "slow", "slow")
    ),
    "every-peer-counts-as-replica": Shape(
        level=2,
        size=5,
        factor=3,
        page_rows=2,
        wipes=True,
        kinds=("isolate", "split", "oneway", "crash"),
    ),
}


@pytest.mark.parametrize("seed", [*range(12), *PINNED])
def test_a_seed_breaks_nothing(seed: int) -> None:
    outcome = run(seed, shape_of(seed))
    assert outcome.problems == []
    assert outcome.stuck == []
    assert outcome.counters["acked"] > 5


@pytest.mark.parametrize("rule", sorted(CAUGHT_BY))
def test_a_missing_rule_is_noticed(rule: str) -> None:
    seed = CAUGHT_BY[rule]
    shape = AIMED.get(rule) or shape_of(seed)
    with without(rule):
        broken = run(seed, shape)
    assert broken.problems or broken.stuck
    whole = run(seed, shape)
    assert (whole.problems, whole.stuck) == ([], [])


def test_every_rule_has_a_seed() -> None:
    assert CAUGHT_BY.keys() == RULES.keys()


def test_cuts_make_conflicts_and_calm_makes_none() -> None:
    stormy = run(4, Shape(level=1, kinds=("split", "isolate")))
    assert stormy.counters["conflicts"] > 0
    calm = run(4, Shape(level=2, kinds=()))
    assert (calm.problems, calm.stuck) == ([], [])
    assert calm.counters["conflicts"] == 0
    assert calm.counters["acked"] > 10 * FAULTS_S


@pytest.mark.parametrize("seed", range(8))
def test_at_level_2_a_clean_change_of_owner_makes_no_branch(seed: int) -> None:
    outcome = run(seed, Shape(level=2, kinds=(), calm=True))
    assert (outcome.problems, outcome.stuck) == ([], [])
    assert outcome.counters["conflicts"] == 0
    assert outcome.counters["acked"] > 10 * FAULTS_S
