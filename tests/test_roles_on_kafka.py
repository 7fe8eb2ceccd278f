"""Roles on a model of Kafka's coordinator: exclusive ones are led by one at a time."""

import pytest

from tests.sim.kafka_ablations import run

SEEDS = range(80)
SEEDS_MANY = range(80, 5_000)


def test_no_seed_lets_two_lead_at_one_instant() -> None:
    runs = [run(seed) for seed in SEEDS]
    assert [arena.problems for arena in runs if arena.problems] == []
    led = sum(arena.counters["Acquired"] for arena in runs)
    ended = sum(arena.counters["Fenced"] + arena.counters["Revoked"] for arena in runs)
    assert min(led, ended) > 3 * len(runs)


@pytest.mark.slow
def test_no_seed_of_thousands_lets_two_lead_at_one_instant() -> None:
    assert [seed for seed in SEEDS_MANY if run(seed).problems] == []
