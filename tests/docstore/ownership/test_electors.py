"""The vote as a group: scenarios by their numbers, and faults by seed."""

import pytest

from docstore.ownership.by_vote import Times
from docstore.testing.simulation.electors import RHO, Electors
from tests.docstore.ownership.storm import cut_leader, elected, restart_third, weather

SEEDS = range(5)
HEARTBEAT_S, PATIENCE_S = Times().heartbeat_s, Times().patience_s


@pytest.mark.parametrize("seed", SEEDS)
def test_l01_three_fresh_processes_elect_one_leader_within_three_seconds(seed: int) -> None:
    arena = Electors(3, seed=seed)
    leader = elected(arena, within_s=3.0)
    arena.run(5)
    assert arena.leaders() == [leader]
    assert {arena.generation(name) for name in "abc"} == {arena.generation(leader)}
    learned = {name: found for _, name, _, found in arena.changes}
    assert learned == dict.fromkeys("abc", leader)


def test_l02_one_of_three_never_leads_and_two_of_three_do() -> None:
    arena = Electors(3, seed=1)
    arena.crash("a")
    arena.crash("b")
    arena.run(30)
    assert arena.leaders() == []
    assert arena.generation("c") == 0, "a lone candidate raised its generation"
    arena.restart("a")
    assert elected(arena, within_s=3.0)


@pytest.mark.parametrize("seed", SEEDS)
def test_l06_votes_survive_a_crash_of_all_processes(seed: int) -> None:
    arena = Electors(3, seed=seed)
    before = arena.generation(elected(arena))
    for _ in range(3):
        for name in "abc":
            arena.crash(name)
            arena.restart(name)
        leader = elected(arena)
        assert arena.generation(leader) > before
        before = arena.generation(leader)


@pytest.mark.parametrize("seed", SEEDS)
def test_l07_a_process_behind_a_majority_is_never_elected(seed: int) -> None:
    arena = Electors(3, seed=seed)
    arena.hold("a", 1, 900)
    arena.hold("b", 2, 5)
    arena.hold("c", 2, 5)
    first = elected(arena)
    assert first != "a"
    arena.crash(first)
    assert elected(arena, but=first) != "a"


@pytest.mark.parametrize("seed", SEEDS)
def test_l09_candidates_at_once_elect_one_in_the_end(seed: int) -> None:
    times = Times(heartbeat_s=0.01, patience_s=0.021)  # All campaign at about the same time.
    arena = Electors(5, seed=seed, times=times)
    arena.network.weather.straggle = 0.0
    elected(arena, within_s=5.0)


@pytest.mark.parametrize("seed", SEEDS)
def test_l10_a_leader_in_the_minority_stops_before_another_begins(seed: int) -> None:
    arena = Electors(5, seed=seed)
    old = elected(arena)
    companion = next(name for name in arena.processes if name != old)
    arena.cut(old, companion)
    cut_at, generation = arena.world.now, arena.generation(old)
    while arena.leaders() == [old]:
        arena.run(0.001)
    assert arena.world.now - cut_at <= PATIENCE_S / (1 - RHO)
    new = elected(arena)
    assert new not in (old, companion)
    assert arena.generation(new) > generation
    arena.heal()  # Scenario L11: it follows.
    arena.run(2)
    assert arena.leaders() == [new]
    assert arena.generation(old) == arena.generation(new)


@pytest.mark.parametrize("seed", SEEDS)
def test_l13_a_paused_leader_does_not_lead_at_its_first_check(seed: int) -> None:
    arena = Electors(3, seed=seed)
    old = elected(arena)
    generation = arena.generation(old)
    arena.pause(old, 5)
    arena.run(4.999)
    assert not arena.processes[old].leads()
    [new] = arena.leaders()
    assert arena.generation(new) > generation
    arena.run(2)
    assert arena.leaders() == [new]


@pytest.mark.parametrize("seed", range(20))
def test_l22_a_transfer_takes_less_than_two_heartbeats(seed: int) -> None:
    arena = Electors(5, seed=seed)
    arena.network.weather.straggle = 0.0
    old = elected(arena)
    arena.run(1)
    to = next(name for name in arena.processes if name != old)
    arena.transfer(old, to)
    assert arena.leaders() == []
    assert elected(arena, within_s=2 * HEARTBEAT_S) == to


def test_l22_another_leader_is_elected_when_the_successor_dies() -> None:
    arena = Electors(3, seed=3)
    old = elected(arena)
    arena.run(1)
    to = next(name for name in "abc" if name != old)
    arena.transfer(old, to)
    arena.crash(to)
    elected(arena, within_s=4 * PATIENCE_S)


def test_l23_the_offsets_of_clocks_have_no_effect() -> None:
    def leaders(offset_s: float) -> list[tuple[str, int, str | None]]:
        arena = Electors(3, seed=5)
        for process in arena.processes.values():
            process._offset_s = offset_s
            arena.restart(process.name)
        arena.run(5)
        arena.crash(elected(arena))
        arena.run(5)
        return [change[1:] for change in arena.changes]

    assert leaders(0.0) == leaders(3600.0) == leaders(-3600.0)


def test_no_seed_has_two_leaders_and_each_heals() -> None:
    for seed in range(25):
        weather(seed)


@pytest.mark.slow
def test_no_seed_of_thousands_has_two_leaders() -> None:
    for seed in range(25, 6_000):
        weather(seed)


def test_a_voter_that_restarts_does_not_depose_a_leader_that_it_has_heard() -> None:
    for seed in range(5):
        restart_third(seed)


def test_clock_rates_wrong_by_two_percent_never_make_two_leaders() -> None:
    for seed in range(20):
        cut_leader(seed)
