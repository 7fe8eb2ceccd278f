"""Line 47: ten thousand members, and the shared tables that make room for them."""

from __future__ import annotations

import resource
import subprocess
import sys
import time

import pytest

from gossip import State
from tests.gossip.scenarios.trial import LAN, falsely_dead, last_change_s
from tests.gossip.shared import start_sharing
from tests.gossip.world import World


def crash(count: int, seconds: float) -> World:
    """Return a world upon one base in which one member has crashed after five seconds."""
    world = World(1, LAN, codec=False)
    start_sharing(world, count)
    world.oracles.whole_every = 100_000
    world.run(5)
    world.unplug("n7")
    world.run(seconds - 5)
    return world


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(1, 6))
def test_shared_tables_and_ordinary_ones_come_to_the_same_verdicts(seed: int) -> None:
    verdicts = []
    for start in (start_sharing, World.start_acquainted):
        world = World(seed, LAN, codec=False)
        start(world, 64)
        world.run(3)
        world.unplug("n7")
        world.pause("n9")
        world.run(5)
        world.resume("n9")
        world.leave("n11")
        world.run(30)
        verdicts.append(
            {
                node.name: {member.name: member.state for member in node.swim.membership.table}
                for node in world.running
            }
        )
        whole = {node.swim.membership.table.digest.whole for node in world.running}
        assert len(whole) == 1
    assert verdicts[0] == verdicts[1]


@pytest.mark.thorough
def test_47_a_crash_among_many_upon_shared_tables() -> None:
    world = crash(1000, 40)
    assert last_change_s(world, "n7", State.DEAD, 5.0) <= 30.0
    assert not falsely_dead(world, "n7")


@pytest.mark.slow
def test_47_a_crash_among_ten_thousand() -> None:
    code = "from tests.gossip.scenarios.test_ten_thousand import measure; measure()"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=600)


def measure() -> None:
    """Run a minute of ten thousand in a process of its own, and hold time and memory against it."""
    begun_s = time.perf_counter()
    world = crash(10_000, 60)
    took_s = time.perf_counter() - begun_s
    memory_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    known_s = last_change_s(world, "n7", State.DEAD, 5.0)
    informed = len([1 for _, _, name in world.changes_to(State.DEAD) if name == "n7"])
    sys.stdout.write(
        f"10,000 members: 60 s in {took_s:.0f} s, {memory_mib:.0f} MiB, {world.steps} steps;"
        f" {informed} know after {known_s:.1f} s\n"
    )
    assert informed == 9999
    assert known_s <= 30.0
    assert not falsely_dead(world, "n7")
    assert memory_mib <= 400
