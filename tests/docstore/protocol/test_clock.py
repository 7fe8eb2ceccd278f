"""One wrong clock in a group stamps nothing in the future, and lets nothing go too early."""

import pytest

from docstore.protocol.timing import ReplicaConfig
from docstore.simulation.world import World
from tests.sim.cluster import Cluster
from tests.sim.process import EPOCH_US
from tests.sim.run import Profile, run

HOUR_US = 3_600_000_000


def group() -> tuple[World, Cluster]:
    world = World(7)
    cluster = Cluster(world, 3, factor=None, slots=1, config=ReplicaConfig())
    world.run(2.0)
    return world, cluster


def ahead_us(world: World, cluster: Cluster, name: str) -> int:
    """Return how far a node's idea of the time is ahead of the truth."""
    core = cluster.processes[name].replica.core
    return core.wall_now_us() - EPOCH_US - int(core.now * 1e6)


def test_a_clock_that_jumps_ahead_is_held_back_at_its_first_tick() -> None:
    world, cluster = group()
    cluster.processes["n0"].clock_ahead_us = HOUR_US
    for _ in range(40):
        world.run(world.now + 0.05)
        assert ahead_us(world, cluster, "n0") <= 600_000
    assert abs(ahead_us(world, cluster, "n1")) <= 10_000
    cluster.processes["n0"].clock_ahead_us = 0
    world.run(world.now + 0.1)
    assert abs(ahead_us(world, cluster, "n0")) <= 10_000


def test_a_clock_that_is_behind_is_believed() -> None:
    world, cluster = group()
    cluster.processes["n0"].clock_ahead_us = -HOUR_US
    world.run(world.now + 0.5)
    assert ahead_us(world, cluster, "n0") < -HOUR_US / 2
    assert abs(ahead_us(world, cluster, "n1")) <= 600_000


def test_a_lone_node_has_nobody_to_ask() -> None:
    world = World(1)
    cluster = Cluster(world, 1, factor=None, slots=1, config=ReplicaConfig())
    cluster.processes["n0"].clock_ahead_us = HOUR_US
    world.run(0.5)
    assert ahead_us(world, cluster, "n0") >= HOUR_US - 10_000


@pytest.mark.parametrize("seed", range(3))
def test_history_outlives_a_clock_that_is_an_hour_ahead(seed: int) -> None:
    # What a client was told of is asked for again; only what is old may be gone.
    calm = Profile(slots=1, links=2, kinds=("clock",), retention_s=30.0, past=True)
    outcome = run(seed, calm)
    assert (outcome.problems, outcome.stuck) == ([], [])
    assert outcome.operations > 300
