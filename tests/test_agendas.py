"""Timers and effects in the simulator: each due time once, each effect at least once, in order."""

import pytest

from tests.sim.agendas import Shape, run
from tests.sim.agendas_ablations import RULES, without


@pytest.mark.parametrize("seed", range(6))
def test_a_seed_breaks_nothing(seed: int) -> None:
    outcome = run(seed, Shape())
    assert outcome.problems == []
    assert outcome.counters["timers_fired"] > 40
    assert outcome.counters["effects_delivered"] > 150


@pytest.mark.parametrize("seed", range(2))
def test_a_seed_beside_replicas_breaks_nothing(seed: int) -> None:
    outcome = run(seed, Shape(), register=False)
    assert outcome.problems == []
    assert outcome.counters["effects_delivered"] > 150


def test_a_pinned_seed_comes_to_an_end() -> None:
    """Nodes without a majority reject reads at once: these are not retried at once."""
    assert run(533, Shape(), register=False).problems == []


@pytest.mark.thorough
def test_many_seeds_beside_replicas_break_nothing() -> None:
    found = [seed for seed in range(500, 515) if run(seed, Shape(), register=False).problems]
    assert found == []


def test_without_faults_nothing_is_repeated() -> None:
    outcome = run(0, Shape(kinds=(), trouble=0.0))
    assert outcome.problems == []
    assert (outcome.counters["timers_failed"], outcome.counters["effects_failed"]) == (0, 0)


def test_a_seed_is_played_the_same_way_again() -> None:
    assert run(3, Shape()).counters == run(3, Shape()).counters


@pytest.mark.thorough
def test_many_seeds_break_nothing() -> None:
    assert [seed for seed in range(100, 200) if run(seed, Shape()).problems] == []


@pytest.mark.parametrize("name", RULES)
def test_each_rule_is_needed(name: str) -> None:
    ablation = RULES[name]
    with without(name):
        assert any(
            problem.startswith(ablation.rule)
            for seed in range(24)
            for problem in run(seed, ablation.aim).problems
        )
