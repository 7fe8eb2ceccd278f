"""Coming: one, many at once, late seeds, old names, other addresses, other data."""

from __future__ import annotations

import dataclasses
import itertools

import pytest

from gossip import State
from gossip.messages import Alive
from gossip.protocol.effects import ReportConflict
from gossip.protocol.events import SeedDue
from gossip.wire import ENVELOPE_BYTES, encoded_bytes
from tests.gossip.scenarios.trial import (
    LAN,
    acquainted,
    agreement_s,
    falsely_dead,
    quantile,
    trials,
    until_all_see,
)
from tests.gossip.world import Node, World


def start_within(world: World, count: int, seconds: float, seed: int) -> None:
    """Let the others of `count` start through n0, at random moments of the next seconds."""
    rng = World.rng_for("starts", seed)
    for index in range(1, count):
        at_s = seconds * rng.random()
        world.at(at_s, lambda name=f"n{index}": world.start(name, seeds=("n0",)))


@trials(5)
def test_02_one_joins_a_hundred_through_one_seed(seeds: range) -> None:
    took_s = []
    for seed in seeds:
        world = acquainted(seed, 100)
        world.start("new", seeds=("n7",))
        took_s.append(agreement_s(world, 3.0))
    assert quantile(took_s, 0.99) <= 3.0
    assert quantile(took_s, 0.50) <= 1.5
    if len(took_s) >= 30:
        assert quantile(took_s, 0.96) <= 1.5  # One outlier of 30 is allowed.


@trials(1, thorough=3)
def test_03_a_hundred_start_in_the_same_second(seeds: range) -> None:
    took_s = []
    for seed in seeds:
        world = World(seed, LAN, codec=False)
        world.start("n0")
        start_within(world, 100, 1.0, seed)
        world.run(1.0)
        waiting = dict(world.nodes)
        while waiting:
            assert world.now <= 6.0, f"seed {seed}: {len(waiting)} do not list 100"
            for name, node in list(waiting.items()):
                if node.swim.membership.table.live_count == 100:
                    took_s.append(world.now - 1.0)
                    del waiting[name]
            world.run(0.02)
        assert not falsely_dead(world)
    assert quantile(took_s, 0.5) <= 1.0
    assert max(took_s) <= 5.0


@pytest.mark.slow
def test_04_a_thousand_join_in_ten_seconds() -> None:
    for seed in (1, 2):
        world = World(seed, LAN, codec=True)
        world.start("n0")
        start_within(world, 1000, 10.0, seed)
        greatest = 0
        sent: dict[str, int] = {}
        while world.now < 30 and not (world.now >= 10 and world.all_agree()):
            world.run(1.0)
            for name, node in world.nodes.items():
                greatest = max(greatest, node.bytes_sent - sent.get(name, 0))
                sent[name] = node.bytes_sent
        assert world.all_agree()
        assert greatest <= 256 * 1024


def test_06_a_seed_that_comes_up_after_twenty_seconds_is_found() -> None:
    for seed in range(1, 6):
        world = World(seed, LAN)
        world.start("n0")
        world.unplug("n0")
        world.start("n1", seeds=("n0",))
        waits = []
        while world.now < 20.0:
            due = [at_s for timer, at_s in world.nodes["n1"].timers.items() if timer == SEED]
            if due and (not waits or due[0] != waits[-1]):
                waits += due
            world.run(0.05)
        world.network.unplugged.clear()
        world.start("n0", host=0)
        assert agreement_s(world, 10.0 + LAN.stream_timeout_s) <= 20.0
        gaps = [after - before for before, after in itertools.pairwise(waits)]
        assert all(later > 1.0 for later in gaps)


SEED = SeedDue(("10.0.0.0", 7946))


@trials(3)
def test_26_a_restart_whose_clock_was_set_back_an_hour(seeds: range) -> None:
    for seed in seeds:
        world = acquainted(seed, 20)
        world.unplug("n9")
        until_all_see(world, ["n9"], State.DEAD, 20.0)
        world.start("n9", seeds=("n0",), clock_s=1_000_000.0 - 3600)
        assert agreement_s(world, 5.0) <= 5.0


@trials(3)
@pytest.mark.parametrize("held", [State.DEAD, State.SUSPECT])
def test_27_a_restart_at_another_address(seeds: range, held: State) -> None:
    for seed in seeds:
        world = acquainted(seed, 20)
        world.unplug("n9")
        until_all_see(world, ["n9"], held, 20.0)
        moved = world.start("n9", seeds=("n0",))

        def is_followed(address: object = moved.address, world: World = world) -> bool:
            tables = [node.swim.membership.table for node in world.running]
            return all(getattr(table.get("n9"), "address", None) == address for table in tables)

        assert world.run_until(is_followed, within_s=2.0) <= 2.0
        assert not any(node.conflicts for node in world.everyone)


def knows_of_it(node: Node) -> bool:
    return bool(node.conflicts)


@trials(3)
def test_28_two_live_members_with_one_name(seeds: range) -> None:
    for seed in seeds:
        world = acquainted(seed, 20)
        first = world.nodes["n9"]
        second = world.start("n9", seeds=("n0",))
        world.nodes["n9 first"] = first
        del world.nodes["n9"]
        others = [node for node in world.everyone if node is not second]
        world.run_until(lambda others=others: all(map(knows_of_it, others)), within_s=3.0)
        assert isinstance(second.conflicts[0], ReportConflict)
        assert second.reports[0][0] - 5.0 <= 2.0
        for node in others:
            held = node.swim.membership.table.get("n9")
            assert held is not None
            assert held.address == first.address
        assert not falsely_dead(world)


@trials(3)
def test_29_an_address_that_is_used_again_by_another_name(seeds: range) -> None:
    for seed in seeds:
        world = acquainted(seed, 20)
        old = world.nodes["n9"]
        world.kill("n9")
        world.start("pod", seeds=("n0",), host=old.number)
        until_all_see(world, ["n9"], State.DEAD, 20.0)
        assert world.all_see({"pod": State.ALIVE})
        assert "pod" not in world.ever(State.SUSPECT)
        assert not falsely_dead(world, "n9")


@trials(3)
def test_32_a_member_that_left_comes_back_under_its_name(seeds: range) -> None:
    for seed in seeds:
        world = acquainted(seed, 20)
        world.leave("n9")
        until_all_see(world, ["n9"], State.LEFT, 10.0)
        world.kill("n9")
        world.start("n9", seeds=("n0",))
        assert agreement_s(world, 3.0) <= 3.0


def test_34_the_longest_announcement_fits_the_smallest_datagram() -> None:
    address = ("2001:0db8:85a3:0000:0000:8a2e:0370:7334", 65535)
    alive = Alive("n" * 128, bytes(8), 2**62, address, bytes(512))
    assert encoded_bytes(alive) + ENVELOPE_BYTES + SEAL_BYTES <= 1232
    smallest = dataclasses.replace(LAN, datagram_bytes_max=1232)
    assert smallest.datagram_bytes_max == 1232


SEAL_BYTES = 33
"""Bytes that encryption adds to a datagram."""
