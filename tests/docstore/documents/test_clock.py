"""Wrong clocks of a minority stamp no row wrongly, and age no row."""

from collections.abc import Iterable

import pytest

from docstore.documents.clock import WallClock
from docstore.documents.timing import ReplicaConfig
from docstore.testing.simulation.world import World
from tests.sim.cluster import Cluster
from tests.sim.process import EPOCH_US
from tests.sim.run import Profile, run

HOUR_US = 3_600_000_000


def group(size: int = 3) -> tuple[World, Cluster]:
    world = World(7)
    cluster = Cluster(world, size, factor=None, slots=1, config=ReplicaConfig())
    world.run(2.0)
    return world, cluster


def ahead_us(world: World, cluster: Cluster, name: str) -> int:
    """Return how far a node's stamps are ahead of the true time."""
    core = cluster.processes[name].replica.core
    return core.wall_now_us() - EPOCH_US - int(core.now * 1e6)


def past_by_us(world: World, cluster: Cluster, name: str) -> int:
    """Return the age of the latest instant that a node takes for past."""
    core = cluster.processes[name].replica.core
    return EPOCH_US + int(core.now * 1e6) - core.past_us()


@pytest.mark.parametrize("wrong_us", [HOUR_US, -HOUR_US])
def test_a_jumped_clock_stamps_at_most_half_a_second_wrong_after_one_tick(
    wrong_us: int,
) -> None:
    world, cluster = group()
    cluster.processes["n0"].clock_ahead_us = wrong_us
    for _ in range(40):
        world.run(world.now + 0.05)
        assert abs(ahead_us(world, cluster, "n0")) <= 600_000
    assert abs(ahead_us(world, cluster, "n1")) <= 10_000
    cluster.processes["n0"].clock_ahead_us = 0
    world.run(world.now + 0.1)
    assert abs(ahead_us(world, cluster, "n0")) <= 10_000


def test_of_two_clocks_each_node_stamps_with_its_own() -> None:
    world, cluster = group(2)
    cluster.processes["n0"].clock_ahead_us = HOUR_US
    world.run(world.now + 0.5)
    assert ahead_us(world, cluster, "n0") >= HOUR_US - 10_000
    assert abs(ahead_us(world, cluster, "n1")) <= 10_000


def test_a_lone_node_goes_by_its_own_clock() -> None:
    world = World(1)
    cluster = Cluster(world, 1, factor=None, slots=1, config=ReplicaConfig())
    cluster.processes["n0"].clock_ahead_us = HOUR_US
    world.run(0.5)
    assert ahead_us(world, cluster, "n0") >= HOUR_US - 10_000
    assert abs(past_by_us(world, cluster, "n0") + HOUR_US) <= 100_000


@pytest.mark.parametrize("size", [3, 4, 5])
@pytest.mark.parametrize("wrong_us", [HOUR_US, -HOUR_US])
def test_one_wrong_clock_does_not_move_the_past_while_a_minority_is_down(
    size: int, wrong_us: int
) -> None:
    world, cluster = group(size)
    cluster.processes["n0"].clock_ahead_us = wrong_us
    for name in cluster.names[2:][: (size - 1) // 2]:
        cluster.crash(name)
    for _ in range(100):
        world.run(world.now + 0.05)
        for name in ("n0", "n1"):
            assert 0 <= past_by_us(world, cluster, name) <= 2_000_000


@pytest.mark.parametrize("wrong_us", [HOUR_US, -HOUR_US])
def test_of_two_clocks_the_earlier_one_sets_the_past(wrong_us: int) -> None:
    world, cluster = group(2)
    cluster.processes["n0"].clock_ahead_us = wrong_us
    world.run(world.now + 0.5)
    for name in cluster.names:
        assert 0 <= past_by_us(world, cluster, name) + min(0, wrong_us) <= 2_000_000


def test_a_member_not_heard_since_the_start_has_passed_no_instant() -> None:
    world, cluster = group()
    cluster.processes["n0"].clock_ahead_us = HOUR_US
    for name in cluster.names:
        cluster.crash(name)
    cluster.start("n0")
    world.run(world.now + 3.0)
    assert cluster.processes["n0"].replica.core.past_us() == 0
    cluster.start("n1")
    for _ in range(100):
        world.run(world.now + 0.05)
        for name in ("n0", "n1"):
            past_us = cluster.processes[name].replica.core.past_us()
            assert past_us == 0 or past_by_us(world, cluster, name) >= 0
    assert 0 <= past_by_us(world, cluster, "n0") <= 2_000_000


@pytest.mark.parametrize(
    ("sets", "past"),
    [
        ([("a",)], 90),
        ([("a", "b", "c")], 40),
        ([("a", "b", "c"), ("a", "b", "d")], 40),
        ([("a", "b", "c"), ("d", "e", "a")], 20),
        ([("a", "b", "c"), ("a", "new", "newer")], 0),
        ([("a", "b", "c", "d", "e")], 30),
        ([("a", "b", "c", "new", "newer")], 30),
    ],
)
def test_the_past_has_been_passed_by_a_majority_of_both_sets(
    sets: Iterable[tuple[str, ...]], past: int
) -> None:
    clock = WallClock(500_000, 0.0)
    clock.set(90, 0.0, "a", {"b": 40, "c": 30, "d": 20, "e": 10}, list(sets))
    assert clock.past_us(0.0) == past


@pytest.mark.parametrize("seed", range(3))
def test_history_survives_a_clock_that_is_an_hour_ahead(seed: int) -> None:
    # Clients read again the versions that they have seen; only old ones may be gone.
    calm = Profile(slots=1, links=2, kinds=("clock",), retention_s=30.0, past=True)
    outcome = run(seed, calm)
    assert (outcome.problems, outcome.stuck) == ([], [])
    assert outcome.operations > 300
