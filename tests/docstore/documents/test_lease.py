"""Reads by lease: a replica's promise with its answer, and how long an owner trusts it."""

import pytest

from docstore.documents.core import NEVER
from docstore.documents.events import Requested
from docstore.documents.replica import Replica
from docstore.documents.term import Phase
from docstore.documents.timing import ReplicaConfig
from docstore.machines.events import Received
from docstore.model.operation import Answer, Operation
from docstore.model.slots import to_bitmap
from docstore.testing.simulation.world import World
from docstore.wire.messages import Confirm, Prepare, Release
from tests.sim.cluster import Cluster
from tests.sim.run import Profile, run

CONFIG = ReplicaConfig()
SLOT = to_bitmap([0], 1)


def group(reads: str = "lease") -> tuple[World, Cluster]:
    """Return three nodes of which one owns the only slot, on links that lose nothing."""
    world = World(3)
    cluster = Cluster(world, 3, factor=None, slots=1, config=CONFIG, reads=reads)
    weather = cluster.network.weather
    weather.loss = weather.straggle = weather.double = 0.0
    world.run(4.0)
    return world, cluster


def owner_and_others(cluster: Cluster) -> tuple[str, list[str]]:
    def owns(name: str) -> bool:
        term = cluster.processes[name].replica.core.logs[0].term
        return term is not None and term.phase is Phase.OPEN

    owner = next(name for name in cluster.names if owns(name))
    return owner, [name for name in cluster.names if name != owner]


def read(world: World, cluster: Cluster, name: str) -> list[Answer]:
    answers: list[Answer] = []
    operation, deadline = Operation(verb="GET", link="/t/a"), world.now + 2.0
    cluster.processes[name].request(
        lambda number: Requested(number, operation, deadline), answers.append
    )
    world.run(world.now + 0.1)
    return answers


def promises(replica: Replica, now: float, candidate: str, epoch: int) -> bool:
    """Say whether a replica promises the slot to a candidate at that moment."""
    before = replica.core.logs[0].promised
    replica.step(Received(candidate, Prepare(epoch, SLOT)), now)
    return replica.core.logs[0].promised != before


def test_only_the_first_read_under_a_lease_asks_replicas() -> None:
    world, cluster = group()
    owner, _ = owner_and_others(cluster)
    rounds = cluster.processes[owner].replica.core.counters
    assert len(read(world, cluster, owner)) == 1
    asked = rounds["confirm_rounds"]
    for _ in range(4):
        assert len(read(world, cluster, owner)) == 1
    assert rounds["confirm_rounds"] == asked


def test_without_leases_every_read_asks_replicas() -> None:
    world, cluster = group("confirm")
    owner, _ = owner_and_others(cluster)
    rounds = cluster.processes[owner].replica.core.counters
    asked = rounds["confirm_rounds"]
    for _ in range(4):
        assert len(read(world, cluster, owner)) == 1
    assert rounds["confirm_rounds"] == asked + 4


def test_a_replica_promises_no_slot_to_others_before_its_lease_is_over() -> None:
    world, cluster = group()
    owner, (replica, candidate) = owner_and_others(cluster)
    core = cluster.processes[replica].replica.core
    epoch = core.logs[0].promised[0]
    now = world.now
    machine = cluster.processes[replica].replica
    machine.step(Received(owner, Confirm(1, [(0, epoch)])), now)
    assert not promises(machine, now + CONFIG.leadership.lease_s - 0.001, candidate, epoch + 5)
    assert promises(machine, now + CONFIG.leadership.lease_s, candidate, epoch + 5)


def test_the_holder_of_a_lease_does_not_wait_and_may_release() -> None:
    world, cluster = group()
    owner, (replica, candidate) = owner_and_others(cluster)
    machine = cluster.processes[replica].replica
    epoch, now = machine.core.logs[0].promised[0], world.now
    machine.step(Received(owner, Confirm(1, [(0, epoch)])), now)
    assert promises(machine, now, owner, epoch + 1)
    machine.step(Received(owner, Confirm(2, [(0, epoch + 1)])), now)
    machine.step(Received(owner, Release([(0, epoch)])), now)  # A late release for the term before.
    assert not promises(machine, now, candidate, epoch + 5)
    machine.step(Received(owner, Release([(0, epoch + 1)])), now)
    assert promises(machine, now, candidate, epoch + 5)


def test_a_replica_promises_nothing_after_a_start_for_one_lease() -> None:
    world, cluster = group()
    _, (replica, candidate) = owner_and_others(cluster)
    cluster.crash(replica)
    cluster.start(replica)
    machine, now = cluster.processes[replica].replica, world.now
    epoch = machine.core.logs[0].promised[0]
    assert not promises(machine, now + CONFIG.leadership.lease_s - 0.001, candidate, epoch + 5)
    assert promises(machine, now + CONFIG.leadership.lease_s, candidate, epoch + 5)


def test_a_lease_counts_from_the_question() -> None:
    world, cluster = group()
    owner, _ = owner_and_others(cluster)
    process = cluster.processes[owner]
    term = process.replica.core.logs[0].term
    assert term is not None
    term.lease_until = NEVER
    asked_at = world.now
    # Answers take two thirds of a lease to come back.
    cluster.network.cuts = {(other, owner) for other in cluster.names if other != owner}
    read(world, cluster, owner)
    world.run(asked_at + CONFIG.leadership.lease_s * 0.66)
    cluster.network.cuts = set()
    world.run(asked_at + CONFIG.leadership.lease_s * 0.9)
    assert term.lease_until > NEVER
    turn_s = 0.01  # The question leaves at the end of the turn in which the read came.
    times = CONFIG.leadership
    assert term.lease_until <= asked_at + turn_s + times.lease_s - times.lease_guard_s


@pytest.mark.parametrize("seed", range(6))
def test_leases_in_the_simulator(seed: int) -> None:
    outcome = run(seed, Profile(slots=2, leases=True))
    assert (outcome.problems, outcome.stuck) == ([], [])
