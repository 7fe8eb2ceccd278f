"""Letting go when somebody asks: never of what a snapshot may hold that nobody has heard of."""

from docstore.model.operation import Answer, Operation
from docstore.protocol.events import CompactAsked, Requested
from docstore.protocol.history.needs import CLOCKS_APART_S, Needs
from docstore.protocol.slots import slot_of
from docstore.protocol.timing import ReplicaConfig
from docstore.simulation.world import World
from tests.sim.cluster import Cluster
from tests.sim.process import Process


def group(slots: int = 1) -> tuple[World, Process]:
    """Return a group with three versions of a document in its last slot, and the owner of that."""
    world = World(1)
    cluster = Cluster(world, 3, factor=None, slots=slots, config=ReplicaConfig(), changes=False)
    cluster.network.weather.loss = cluster.network.weather.straggle = 0.0
    world.run(4.0)
    owner = next(p for p in cluster.processes.values() if p.replica.core.logs[slots - 1].reign)
    link = next(link for n in range(9999) if slot_of(link := f"/t/{n}", slots) == slots - 1)
    answers: list[Answer] = []
    for number in range(3):
        body = b'{"log":["%d"]}' % number
        owner.request(
            lambda request, body=body: Requested(  # type: ignore[misc]
                request, Operation(verb="PUT", link=link, body=body, creates=True), world.now + 3.0
            ),
            answers.append,
        )
        world.run(world.now + 0.5)
    assert [answer.status for answer in answers] == [201, 200, 200]
    return world, owner


def test_old_versions_wait_until_snapshots_are_known_as_of_later() -> None:
    world, owner = group()
    core, trimmer = owner.replica.core, owner.replica.trimmer
    core.needs = Needs(core.now, {})
    asked_us = core.wall_now_us()
    owner.feed(CompactAsked(asked_us))
    world.run(world.now + CLOCKS_APART_S + 5.0)
    assert trimmer.slots_left == 1
    assert core.logs[0].kept == 0
    core.needs = Needs(core.now, {})
    world.run(world.now + 1.0)
    assert trimmer.slots_left == 0
    assert core.logs[0].kept == core.logs[0].end


def test_what_is_held_stays() -> None:
    world, owner = group()
    core = owner.replica.core
    owner.feed(CompactAsked(core.wall_now_us()))
    core.needs = Needs(core.now + CLOCKS_APART_S, {0: core.logs[0].end - 1})
    world.run(world.now + CLOCKS_APART_S + 1.0)
    assert core.logs[0].kept == core.logs[0].end - 1


def test_who_asks_again_and_again_keeps_no_round_from_its_end() -> None:
    world, owner = group(slots=64)
    log = owner.replica.core.logs[63]
    asked_us = owner.replica.core.wall_now_us()
    world.run(world.now + CLOCKS_APART_S)
    for _ in range(400):
        owner.replica.core.needs = Needs(owner.replica.core.now, {})
        owner.feed(CompactAsked(asked_us))
        world.run(world.now + 0.01)
    assert log.kept == log.end > 0
