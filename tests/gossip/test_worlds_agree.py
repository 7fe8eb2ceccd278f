"""The simulator itself: equal seeds give equal traces, and every oracle has looked at something."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from gossip import Config, State
from tests.gossip.world import World

LAN = Config.lan()


def stormy(seed: int, *, codec: bool) -> World:
    """Return a world after half a minute of everything."""
    world = World(seed, LAN, codec=codec)
    world.start_many(12)
    world.run(3)
    world.network.loss, world.network.reordered = 0.1, 0.2
    world.pause("n1")
    world.unplug("n2")
    world.leave("n3")
    world.network.starved.add("n4")
    world.run(20)
    world.resume("n1")
    world.run(10)
    return world


def test_48_equal_seeds_give_equal_traces() -> None:
    assert stormy(5, codec=True).trace == stormy(5, codec=True).trace
    assert stormy(5, codec=True).trace != stormy(6, codec=True).trace


@pytest.mark.thorough
def test_48_the_codec_changes_nothing() -> None:
    for seed in (1, 2, 3):
        assert stormy(seed, codec=True).trace == stormy(seed, codec=False).trace


def test_48_another_process_with_other_hashes_gives_the_same_trace() -> None:
    code = "from tests.gossip.test_worlds_agree import *; print(stormy(5, codec=True).trace)"
    traces = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for hash_seed in ("1", "2")
    }
    assert traces == {stormy(5, codec=True).trace}


def test_every_oracle_has_looked_at_something() -> None:
    world = stormy(1, codec=True)
    quiet = World(2, LAN, codec=True)
    quiet.start_acquainted(6)
    quiet.run(60)
    quiet.unplug("n3")
    quiet.run_until(lambda: quiet.sees("n0", "n3") is State.DEAD, within_s=30)
    for each in (world, quiet):
        each.check_news()
    fired = world.oracles.fired + quiet.oracles.fired
    expected = {
        "2 incarnations",
        "3 one meaning",
        "4 precedence",
        "5 own incarnations",
        "6 refutation",
        "7 holds itself alive",
        "8 queue",
        "8 sends",
        "9 datagram size",
        "10 probe fairness",
        "11 suspicion time",
        "12 confirmations",
        "13 health",
        "14 news",
        "22 sums",
    }
    assert set(fired) == expected
    assert all(fired[name] > 0 for name in expected)


def test_21_the_bytes_that_were_sent_are_the_bytes_that_were_counted() -> None:
    world = stormy(1, codec=True)
    assert sum(node.datagrams_sent for node in world.everyone) == world.datagrams
    assert all(node.bytes_sent > 0 for node in world.everyone)
