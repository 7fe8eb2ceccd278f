"""Election by vote, and the register that it serves: scenarios by their numbers."""

from random import Random

import pytest

from docstore.documents.events import ChangeAsked, DiskFilled, Requested
from docstore.documents.membership.change import Change, Kind
from docstore.documents.timing import LeadershipTimes, ReplicaConfig
from docstore.machines.events import DrainAsked
from docstore.model.operation import Answer, Operation
from docstore.ownership.by_vote import Recency, Role, Times, Voter
from docstore.ownership.configuration import Configuration, Stage
from docstore.testing.simulation.world import World
from docstore.wire.messages import Succeed
from tests.sim.cluster import Cluster
from tests.sim.invariants import Invariants
from tests.sim.process import Process

OLD, SAME, NEW = Recency(1, 9), Recency(2, 3), Recency(2, 4)
SEEDS = range(5)


def voter(name: str = "a", generation: int = 4, voted_for: str = "") -> Voter:
    return Voter(
        name, generation=generation, voted_for=voted_for, rng=Random(1), times=Times(), now=0.0
    )


def group(seed: int, size: int = 3) -> tuple[World, Cluster, Invariants]:
    """Return a group that may be changed, with invariants checked after every step."""
    world, invariants = World(seed), Invariants()
    cluster = Cluster(world, size, factor=None, slots=2, config=ReplicaConfig(), changes=True)
    cluster.network.weather.loss = cluster.network.weather.straggle = 0.0
    for process in cluster.processes.values():
        process.after_step = invariants.after_step
    return world, cluster, invariants


def leaders(cluster: Cluster) -> list[Process]:
    return [
        cluster.processes[name]
        for name in cluster.names
        if cluster.processes[name].up
        and cluster.processes[name].replica.register.stored.voter.role is Role.LEADER
    ]


def elected(world: World, cluster: Cluster) -> Process:
    """Let time pass until a node leads; return it."""
    end = world.now + 10.0
    while not leaders(cluster):
        assert world.now < end, "no node was elected"
        world.run(world.now + 0.05)
    return leaders(cluster)[0]


def sever(cluster: Cluster, *part: str) -> None:
    """Cut these nodes from all others."""
    others = [name for name in cluster.names if name not in part]
    cluster.network.cuts |= {pair for one in part for other in others
                             for pair in ((one, other), (other, one))}  # fmt: skip


def removal(cluster: Cluster, leader: Process) -> Change:
    return Change(Kind.REMOVE, next(n for n in cluster.names if n != leader.name), force=True)


def settled(world: World, cluster: Cluster, number: int, within_s: float = 10.0) -> Configuration:
    """Let time pass until every member that is up uses that configuration."""
    end = world.now + within_s
    while True:
        world.run(world.now + 0.05)
        used = {
            cluster.processes[name].replica.core.configuration.id
            for name in cluster.configuration.names
            if cluster.processes[name].up
        }
        if used == {number}:
            return cluster.configuration
        assert world.now < end, f"in use are {used}, wanted is {number}"


@pytest.mark.parametrize("seed", SEEDS)
def test_l01_three_fresh_nodes_elect_one_leader_within_three_seconds(seed: int) -> None:
    world, cluster, _ = group(seed)
    leader = elected(world, cluster)
    assert world.now < 3.0
    world.run(world.now + 1.0)
    assert leaders(cluster) == [leader]
    registers = [cluster.processes[name].replica.register for name in cluster.names]
    assert {each.leader for each in registers} == {leader.name}
    assert len({each.stored.voter.generation for each in registers}) == 1


def test_l02_one_of_three_elects_no_leader_and_requests_are_refused() -> None:
    world, cluster, _ = group(1)
    for name in ("n1", "n2"):
        cluster.crash(name)
    world.run(8.0)
    assert leaders(cluster) == []
    answers: list[Answer] = []
    cluster.processes["n0"].request(
        lambda request: Requested(request, Operation(verb="GET", link="/t/a"), world.now + 2.0),
        answers.append,
    )
    world.run(world.now + 2.5)
    assert [answer.status for answer in answers] == [503]


def test_l05_a_vote_is_given_once_in_a_generation() -> None:
    one = voter()
    assert one.asked(0.0, "b", 5, SAME, SAME, pre=False)
    assert one.asked(0.1, "b", 5, SAME, SAME, pre=False)
    assert not one.asked(0.2, "c", 5, NEW, SAME, pre=False)
    assert one.asked(0.3, "c", 6, NEW, SAME, pre=False)
    assert (one.generation, one.voted_for) == (6, "c")


def test_l06_a_voter_that_restarts_still_refuses_others() -> None:
    again = voter(generation=5, voted_for="b")
    assert not again.asked(0.0, "c", 5, NEW, SAME, pre=False)
    assert again.asked(0.0, "b", 5, SAME, SAME, pre=False)
    # A vote is on the disk before it is sent.
    world, cluster, _ = group(2)
    leader = elected(world, cluster)
    follower = next(n for n in cluster.names if n != leader.name)
    before = cluster.processes[follower].replica.register.stored.voter
    cluster.crash(follower)
    cluster.start(follower)
    after = cluster.processes[follower].replica.register.stored.voter
    assert (after.generation, after.voted_for) == (before.generation, before.voted_for)


@pytest.mark.parametrize("pre", [True, False])
def test_l07_a_longer_log_of_an_older_generation_is_refused(pre: bool) -> None:
    assert not voter().asked(9.0, "b", 5, OLD, SAME, pre=pre)
    assert not voter().asked(9.0, "b", 5, SAME, NEW, pre=pre)
    assert voter().asked(9.0, "b", 5, SAME, SAME, pre=pre)
    assert voter().asked(9.0, "b", 5, NEW, OLD, pre=pre)


def test_a_pre_vote_does_not_bind_and_spares_a_heard_leader() -> None:
    one = voter()
    assert one.asked(9.0, "b", 5, SAME, SAME, pre=True)
    assert (one.generation, one.voted_for, one.role) == (4, "", Role.FOLLOWER)
    assert one.follow("c", 4, 10.0)
    assert not one.asked(10.5, "b", 5, SAME, SAME, pre=True)
    assert one.asked(12.0, "b", 5, SAME, SAME, pre=True)


@pytest.mark.parametrize("seed", SEEDS)
def test_l09_candidates_at_once_elect_at_most_one_leader_of_a_generation(seed: int) -> None:
    world, cluster, _ = group(seed, 5)
    for name in cluster.names:
        cluster.processes[name].replica.register.stored.voter._heard_at = -10.0
    elected(world, cluster)  # The invariants watch every step.
    world.run(world.now + 2.0)
    assert len(leaders(cluster)) == 1


@pytest.mark.parametrize("seed", SEEDS)
def test_l10_a_leader_in_the_minority_decides_nothing_and_follows_when_healed(seed: int) -> None:
    world, cluster, _ = group(seed, 5)
    old = elected(world, cluster)
    world.run(world.now + 0.5)
    companion = next(name for name in cluster.names if name != old.name)
    sever(cluster, old.name, companion)
    old.feed(ChangeAsked(7, removal(cluster, old)))
    world.run(world.now + 6.0)
    assert old.replica.register.stored.voter.role is not Role.LEADER
    new = elected(world, cluster)
    assert new.name not in (old.name, companion)
    assert old.replica.core.configuration.id == 1
    copy = old.replica.register.stored
    assert copy.latest.id == 2  # Scenario L11: a tail that never was decided,
    cluster.network.cuts.clear()
    world.run(world.now + 3.0)
    assert old.replica.register.leader == new.name
    assert copy.latest == new.replica.register.stored.latest  # and is gone.
    assert {p.replica.core.configuration.id for p in cluster.processes.values() if p.life} == {1}


@pytest.mark.parametrize("seed", SEEDS)
def test_l13_a_paused_leader_that_resumes_is_refused(seed: int) -> None:
    world, cluster, _ = group(seed)
    old = elected(world, cluster)
    old.pause()
    world.run(world.now + 5.0)
    new = next(each for each in leaders(cluster) if each is not old)
    old.resume()
    old.feed(ChangeAsked(7, removal(cluster, old)))
    world.run(world.now + 3.0)
    assert leaders(cluster) == [new]
    assert new.replica.core.configuration.id == 1


@pytest.mark.parametrize("seed", SEEDS)
def test_l14_a_decided_change_survives_its_leader(seed: int) -> None:
    world, cluster, _ = group(seed, 5)
    leader = elected(world, cluster)
    world.run(world.now + 0.5)
    leader.feed(ChangeAsked(7, removal(cluster, leader)))
    while leader.replica.core.configuration.id == 1:
        world.run(world.now + 0.001)
    cluster.crash(leader.name)  # The moment it is decided; no other node knows that yet.
    final = settled(world, cluster, 4, 20.0)
    assert final.stage is Stage.STABLE
    assert len(final.members) == 4


@pytest.mark.parametrize("seed", SEEDS)
def test_l15_a_change_that_only_its_leader_has_is_not_used(seed: int) -> None:
    world, cluster, _ = group(seed, 5)
    leader = elected(world, cluster)
    world.run(world.now + 0.5)
    sever(cluster, leader.name)
    leader.feed(ChangeAsked(7, removal(cluster, leader)))
    world.run(world.now + 0.1)
    assert leader.replica.register.stored.latest.id == 2
    cluster.crash(leader.name)
    cluster.network.cuts.clear()
    world.run(world.now + 5.0)
    cluster.start(leader.name)  # Another leader has offered its own in a later generation.
    world.run(world.now + 5.0)
    registers = [process.replica.register for process in cluster.processes.values() if process.up]
    assert {register.stored.latest.id for register in registers} == {1}
    assert {register.core.configuration.id for register in registers} == {1}
    assert cluster.configuration.id == 1, "a node used the change"


@pytest.mark.parametrize("seed", SEEDS)
def test_l17_a_change_stored_at_a_majority_is_kept(seed: int) -> None:
    world, cluster, _ = group(seed, 5)
    leader = elected(world, cluster)
    world.run(world.now + 0.5)
    leader.feed(ChangeAsked(7, removal(cluster, leader)))
    register = leader.replica.register

    def holders() -> int:
        return sum(
            p.life > 0 and p.replica.register.stored.latest.id == 2
            for p in cluster.processes.values()
        )

    while holders() < 3:
        world.run(world.now + 0.0005)
    cluster.crash(leader.name)
    assert register.stored.latest.id == 2
    # The next leader has it, and offers it in its own generation before it counts.
    final = settled(world, cluster, 4, 20.0)
    assert len(final.members) == 4


@pytest.mark.parametrize("seed", SEEDS)
def test_l22_a_draining_leader_is_replaced_within_two_heartbeats(seed: int) -> None:
    world, cluster, _ = group(seed, 5)
    old = elected(world, cluster)
    world.run(world.now + 0.5)
    behind = next(name for name in cluster.names if name != old.name)
    sever(cluster, behind)
    old.feed(ChangeAsked(7, removal(cluster, old)))
    old.feed(DrainAsked())  # The pending change is decided before the successor takes over.
    begun = world.now
    while leaders(cluster) in ([], [old]):
        assert world.now < begun + 2 * LeadershipTimes().heartbeat_interval_s
        world.run(world.now + 0.001)
    [new] = (each for each in leaders(cluster) if each is not old)
    assert new.name != behind  # It is not up to date.
    assert new.replica.register.stored.latest.id == 2
    cluster.network.cuts.clear()
    assert len(settled(world, cluster, 4, 20.0).members) == 4  # The successor completes it.
    assert leaders(cluster) == [new]


def test_l22_only_the_leader_itself_can_ask_for_its_succession() -> None:
    world, cluster, _ = group(4)
    leader = elected(world, cluster)
    world.run(world.now + 0.5)
    others = (name for name in cluster.configuration.names if name != leader.name)
    one, other = (cluster.processes[name] for name in others)
    register = one.replica.register
    register.election.succeed(other.name, Succeed(register.stored.voter.generation))
    register.election.succeed(leader.name, Succeed(register.stored.voter.generation - 1))
    assert register.stored.voter.role is Role.FOLLOWER
    register.election.succeed(leader.name, Succeed(register.stored.voter.generation))
    assert register.stored.voter.role is Role.CANDIDATE


def test_l25_a_voter_with_a_full_disk_returns_to_the_stored_vote() -> None:
    world, cluster, _ = group(3)
    elected(world, cluster)
    world.run(world.now + 0.5)
    one = cluster.processes["n0"]
    register = one.replica.register
    stored = one.disk.recovered(one.store_id, one.boot)
    register.stored.voter.generation += 1  # As before a batch that fails.
    one.feed(DiskFilled(stored))
    assert one.replica.register.stored.voter.generation == register.stored._saved.generation
