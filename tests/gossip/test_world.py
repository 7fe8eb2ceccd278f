"""Whole groups in virtual time: events that must happen, and events that must not.

To replay a failure: `World(seed, config)` with the seed that the message prints.
"""

from __future__ import annotations

import dataclasses

import pytest

from gossip import Config, State
from tests.gossip.world import Node, World

LAN = Config.lan()
LOOPBACK = Config.loopback()
SEEDS = (1, 2, 3)


def joined(seed: int, count: int, config: Config = LAN) -> World:
    """Return a world in which `count` nodes know each other and the air is clear."""
    world = World(seed, config)
    world.start_many(count)
    everyone = dict.fromkeys(world.nodes, State.ALIVE)
    world.run_until(lambda: world.all_see(everyone), within_s=10)
    world.run(5)
    return world


def states(world: World, **exceptions: State) -> dict[str, State]:
    return dict.fromkeys(world.nodes, State.ALIVE) | exceptions


@pytest.mark.parametrize("seed", SEEDS)
def test_thirty_that_join_through_one_seed_all_know_each_other(seed: int) -> None:
    world = World(seed, LAN)
    world.start_many(30)
    world.run_until(lambda: world.all_see(states(world)), within_s=5)


def test_each_newcomer_causes_one_change() -> None:
    world = joined(1, 5)
    for node in world.nodes.values():
        changed = sorted(change.member.name for _, change in node.changes)
        assert changed == sorted(world.nodes.keys() - {node.name})


def test_a_seed_that_comes_up_late_is_found() -> None:
    world = World(1, LAN)
    world.start("n0")
    world.kill("n0")
    world.start("n1", seeds=("n0",))
    world.run(20)
    world.start("n0", host=0)
    world.run_until(lambda: world.sees("n1", "n0") is State.ALIVE, within_s=25)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_killed_process_is_dead_within_a_second_on_one_machine(seed: int) -> None:
    world = joined(seed, 3, LOOPBACK)
    world.kill("n2")
    world.run_until(lambda: world.all_see(states(world, n2=State.DEAD)), within_s=1)
    assert world.ever(State.DEAD) == {"n2"}


def test_a_process_to_probe_that_is_gone_is_dead_at_once() -> None:
    from gossip.protocol.events import ProbeAsked

    world = joined(1, 3, LOOPBACK)
    world.kill("n2")
    world.feed(world.nodes["n0"], ProbeAsked("n2"))
    world.run(0.02)
    assert world.sees("n0", "n2") is State.DEAD


def test_a_process_to_probe_that_lives_is_not_even_suspected() -> None:
    from gossip.protocol.events import ProbeAsked

    world = joined(1, 3, LOOPBACK)
    world.feed(world.nodes["n0"], ProbeAsked("n2"))
    world.run(5)
    assert world.ever(State.SUSPECT) == set()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_host_that_vanishes_is_dead_after_a_suspicion(seed: int) -> None:
    world = joined(seed, 20)
    world.unplug("n7")
    took_s = world.run_until(lambda: world.all_see(states(world, n7=State.DEAD)), within_s=16)
    # The shortest suspicion among 20 is 4 * log10(20) = 5.2 intervals of a second.
    assert took_s > 5.2
    assert world.ever(State.DEAD) == {"n7"}


def test_of_two_the_survivor_finds_out_alone() -> None:
    world = joined(1, 2)
    world.unplug("n1")
    world.run_until(lambda: world.sees("n0", "n1") is State.DEAD, within_s=6.5)


@pytest.mark.parametrize("seed", SEEDS)
def test_lost_packets_cause_no_deaths(seed: int) -> None:
    world = joined(seed, 20)
    world.network.loss = 0.05
    world.run(120)
    assert world.ever(State.DEAD) == set()


def test_an_idle_group_sends_two_messages_per_member_and_interval() -> None:
    world = joined(1, 20)
    before = world.datagrams
    world.run(50)
    # A ping and an ack, SWIM section 3.1; gossip is silent without news.
    assert (world.datagrams - before) / (20 * 50) == pytest.approx(2.0, abs=0.1)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_paused_process_refutes_and_causes_no_deaths(seed: int) -> None:
    world = joined(seed, 20)
    world.pause("n3")
    world.run(5)
    world.resume("n3")
    world.run_until(lambda: world.all_see(states(world)), within_s=2)
    world.run(30)
    assert world.ever(State.DEAD) == set()


def test_a_process_returns_from_a_long_pause_and_causes_no_other_deaths() -> None:
    world = joined(1, 20)
    world.pause("n3")
    world.run(60)
    assert world.sees("n0", "n3") is State.DEAD
    world.resume("n3")
    world.run_until(lambda: world.all_see(states(world)), within_s=10)
    assert world.ever(State.DEAD) == {"n3"}


@pytest.mark.parametrize("seed", SEEDS)
def test_a_short_partition_causes_no_deaths(seed: int) -> None:
    world = joined(seed, 20)
    names = list(world.nodes)
    world.network.partition(names[:10], names[10:])
    world.run(4)
    world.network.heal()
    world.run_until(lambda: world.all_see(states(world)), within_s=10)
    assert world.ever(State.DEAD) == set()


@pytest.mark.parametrize("seed", SEEDS)
def test_the_halves_of_a_long_partition_find_each_other_again(seed: int) -> None:
    world = joined(seed, 12)
    names = list(world.nodes)
    world.network.partition(names[:6], names[6:])
    world.run(120)
    assert world.sees("n0", "n11") is State.DEAD
    assert world.sees("n11", "n0") is State.DEAD
    world.network.heal()
    world.run_until(lambda: world.all_see(states(world)), within_s=45)


def test_halves_that_have_forgotten_each_other_meet_at_a_seed() -> None:
    config = dataclasses.replace(LAN, forget_after_s=60.0)
    world = joined(1, 8, config)
    names = list(world.nodes)
    world.network.partition(names[:4], names[4:])
    world.run(300)
    assert world.sees("n0", "n7") is None
    world.network.heal()
    world.run_until(lambda: world.all_see(states(world)), within_s=90)


@pytest.mark.parametrize("seed", SEEDS)
def test_members_that_leave_are_left_and_not_dead(seed: int) -> None:
    world = joined(seed, 20)
    world.network.loss = 0.01
    leavers = [f"n{i}" for i in range(10, 20)]
    for name in leavers:
        world.leave(name)
    departed = lambda: all(world.nodes[name].is_departed for name in leavers)  # noqa: E731
    world.run_until(departed, within_s=LAN.leave_timeout_s + 0.1)
    for name in leavers:
        world.kill(name)
    gone = dict.fromkeys(leavers, State.LEFT)
    world.run_until(lambda: world.all_see(states(world, **gone)), within_s=60)
    assert world.ever(State.DEAD) == set()


def test_one_that_left_may_come_back() -> None:
    world = joined(1, 5)
    world.leave("n4")
    world.run(5)
    world.kill("n4")
    world.start("n4", seeds=("n0",))
    world.run_until(lambda: world.all_see(states(world)), within_s=3)


def test_the_last_one_leaves_at_once() -> None:
    world = World(1, LAN)
    node = world.start("n0")
    world.leave("n0")
    assert node.is_departed


def test_a_restart_on_the_same_port_is_a_change_and_no_death() -> None:
    world = joined(1, 5)
    host = world.nodes["n4"].number
    world.kill("n4")
    world.run(0.05)
    restarted = world.start("n4", seeds=("n0",), host=host)
    uid = restarted.swim.membership.me.uid

    def is_known(node: Node) -> bool:
        held = node.swim.membership.table.get("n4")
        return held is not None and held.uid == uid

    world.run_until(lambda: all(map(is_known, world.nodes.values())), within_s=3)
    assert world.ever(State.DEAD) == set()


def test_a_restart_with_its_clock_set_back_an_hour_is_alive_everywhere() -> None:
    world = joined(1, 8)
    world.unplug("n7")
    world.run_until(lambda: world.sees("n0", "n7") is State.DEAD, within_s=16)
    world.start("n7", seeds=("n0",), clock_s=1_000_000.0 - 3600)
    world.run_until(lambda: world.all_see(states(world)), within_s=5)


def test_a_restart_at_another_address_is_followed() -> None:
    world = joined(1, 8)
    world.kill("n7")
    world.run_until(lambda: world.sees("n0", "n7") is State.DEAD, within_s=16)
    moved = world.start("n7", seeds=("n0",))

    def knows_address(node: Node) -> bool:
        held = node.swim.membership.table.get("n7")
        return held is not None and held.address == moved.address

    world.run_until(lambda: all(map(knows_address, world.nodes.values())), within_s=2)


def test_of_two_living_processes_with_one_name_the_first_keeps_it() -> None:
    world = joined(1, 5)
    first = world.nodes["n4"]
    second = world.start("n4", seeds=("n0",))
    world.nodes["n4"], world.nodes["impostor"] = first, second
    world.run(30)
    assert second.conflicts
    assert world.nodes["n0"].conflicts
    held = world.nodes["n0"].swim.membership.table.get("n4")
    assert held is not None
    assert held.address == first.address
    # The two do not outbid each other for ever: the incarnation stays.
    assert held.incarnation <= first.swim.membership.me.incarnation + 2


def test_a_deaf_member_blames_itself_and_causes_no_other_deaths() -> None:
    world = joined(1, 10)
    deaf = world.nodes["n9"]
    world.network.deaf.add("n9")
    world.run(8)
    assert deaf.swim.membership.awareness.score > 0
    world.run(60)
    others = [node for node in world.everyone if node is not deaf]
    believed = [change.member for node in others for _, change in node.changes]
    assert {member.name for member in believed if member.state is State.DEAD} == {"n9"}


def test_the_same_seed_gives_the_same_trace() -> None:
    def story(seed: int) -> str:
        world = joined(seed, 10)
        world.network.loss = 0.1
        world.kill("n3")
        world.run(10)
        world.leave("n4")
        world.run(20)
        return world.trace

    assert story(1) == story(1)
    assert story(1) != story(2)
