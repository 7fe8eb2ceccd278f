"""Splits that heal, members that leave together, and networks that stutter."""

from __future__ import annotations

import dataclasses

import pytest

from gossip import State
from tests.gossip.scenarios.trial import (
    LAN,
    acquainted,
    agreement_s,
    falsely_dead,
    quantile,
    trials,
)
from tests.gossip.world import World


def split(world: World) -> None:
    names = list(world.nodes)
    half = len(names) // 2
    world.network.partition(names[:half], names[half:])


@trials(1, thorough=3)
def test_17_a_partition_of_five_seconds(seeds: range) -> None:
    for seed in seeds:
        world = acquainted(seed, 100)
        split(world)
        world.run(5)
        world.network.heal()
        assert agreement_s(world, 10.0) <= 10.0
        assert not falsely_dead(world)


@trials(0, thorough=2)  # A longer one heals in test_19.
def test_18_a_partition_of_two_minutes(seeds: range) -> None:
    took_s = []
    for seed in seeds:
        world = acquainted(seed, 100)
        split(world)
        world.run(120)
        for node in world.everyone:
            table = node.swim.membership.table
            assert table.live_count == 50
            assert len([member for member in table.gone if member.state is State.DEAD]) == 50
        world.network.heal()
        took_s.append(agreement_s(world, 45.0, 0.1))
    assert quantile(took_s, 0.5) <= 15.0
    assert max(took_s) <= 45.0


@trials(1, thorough=3)
def test_19_sides_that_have_forgotten_each_other_meet_at_the_seeds(seeds: range) -> None:
    """The memory of the dead lasts a minute here; the slow test below has a day."""
    config = dataclasses.replace(LAN, forget_after_s=60.0)
    for seed in seeds:
        world = acquainted(seed, 30, config)
        split(world)
        world.run(300)
        assert all(len(node.swim.membership.table) == 15 for node in world.everyone)
        world.network.heal()
        assert agreement_s(world, 90.0, 0.5) <= 90.0


@pytest.mark.slow
def test_19_a_partition_of_twenty_five_hours() -> None:
    world = acquainted(1, 10)
    split(world)
    world.run(25 * 3600)
    world.network.heal()
    assert agreement_s(world, 90.0, 0.5) <= 90.0


@trials(3, 200, thorough=10)
def test_31_half_of_fifty_leave_at_once(seeds: range) -> None:
    for seed in seeds:
        world = acquainted(seed, 50)
        world.network.loss = 0.01
        leavers = [f"n{number}" for number in range(25, 50)]
        for name in leavers:
            world.leave(name)
        world.run(40)
        survivors = [world.nodes[f"n{number}"] for number in range(25)]
        for node in survivors:
            states = {member.name: member.state for member in node.swim.membership.table}
            assert [name for name, state in states.items() if state is State.LEFT] == leavers, seed
            assert sum(state is State.ALIVE for state in states.values()) == 25
        assert not world.ever(State.DEAD), f"seed {seed}"


@pytest.mark.thorough
@trials(1, 5)
def test_46_one_of_a_hundred_comes_and_goes_every_ten_seconds(seeds: range) -> None:
    for seed in seeds:
        world = acquainted(seed, 100)
        took_s, longest = [], 0
        for turn in range(60 if len(seeds) > 1 else 12):
            name = f"n{turn + 1}"
            world.leave(name)
            fresh = f"m{turn}"
            world.start(fresh, seeds=("n0",))
            began_s = world.now
            took_s.append(agreement_s(world, 10.0, 0.1))
            longest = max(longest, *(len(node.swim.membership.queue) for node in world.running))
            world.run(10.0 - (world.now - began_s))
        assert quantile(took_s, 0.96) <= 3.0
        assert longest <= 100
        assert not world.ever(State.DEAD)


@trials(1, thorough=2)
def test_52_copies_and_overtaking_change_nothing(seeds: range) -> None:
    for seed in seeds:
        quiet, noisy = acquainted(seed, 50, codec=True), acquainted(seed, 50, codec=True)
        noisy.network.duplicates, noisy.network.reordered = 2, 0.5
        for world in (quiet, noisy):
            world.run(300 if len(seeds) > 1 else 120)
            assert not falsely_dead(world)
        sent = [sum(node.bytes_sent for node in world.everyone) for world in (quiet, noisy)]
        # A second ping gets a second ack: that is not extra gossip, but it is in the sum.
        acks = sum(node.datagrams_sent for node in noisy.everyone)
        acks -= sum(node.datagrams_sent for node in quiet.everyone)
        assert sent[1] - acks * 26 <= 1.02 * sent[0]
