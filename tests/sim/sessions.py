"""Runs of sessions: leases, elections and locks, by actors on wrong clocks, from a seed."""

from tests.sim.actors import Actor
from tests.sim.invariants import Violation
from tests.sim.kafka_members import LINK as KAFKA_LINK
from tests.sim.kafka_members import KafkaMember
from tests.sim.meddlers import Meddler, Operator
from tests.sim.members import Participant
from tests.sim.run import Outcome
from tests.sim.sessions_bench import Bench, RegisterBench
from tests.sim.sessions_nemesis import SessionNemesis
from tests.sim.sessions_on_replicas import ReplicaBench
from tests.sim.sessions_shapes import HEALING_S, Shape
from tests.sim.tenants import Candidate, Lessee

SWEPT_S = 10.0
"""Once all is healed, no document may name a lease that ended this many seconds ago."""


def run(seed: int, shape: Shape, *, register: bool = True) -> Outcome:
    """Run a seed under a shape; equal arguments give equal outcomes."""
    outcome = Outcome(seed)
    bench: RegisterBench | ReplicaBench
    bench = RegisterBench(seed, shape) if register else ReplicaBench(seed, shape)
    world = bench.world
    bench.actors += _actors(bench, shape)
    for actor in bench.actors:
        world.after(world.rng.random() * 0.5, actor.start)
    leases = [f"/core/leases/{actor.name}.1.1" for actor in bench.actors]
    kafka = [KAFKA_LINK] * bool(shape.kafka)
    nemesis = SessionNemesis(bench, [*shape.turns, *shape.groups, *kafka, *leases])
    if shape.mode == "nonExclusive":
        bench.watch.of_groups.watch_gaps(lambda: _led(bench))
    try:
        world.run(shape.faults_s)
        nemesis.heal()
        bench.heal()
        world.run(shape.faults_s + HEALING_S)
        outcome.stuck = stuck(bench)
        if bench.watch.unswept(SWEPT_S):
            # A new owner begins its sweep anew, and one may have taken over only now.
            world.run(world.now + SWEPT_S)
        outcome.stuck += bench.watch.unswept(SWEPT_S)
    except Violation as error:
        outcome.problems.append(f"{world.now:.3f}: {error}")
    except Exception as error:  # noqa: BLE001 - a step that raises is a finding like any other
        outcome.problems.append(f"{world.now:.3f}: {type(error).__name__}: {error}")
    outcome.operations = sum(len(rows) for rows in bench.watch.versions.values())
    outcome.counters.update(bench.watch.checked)
    for keeper in bench.keepers.values():
        outcome.counters.update(keeper.sessions.core.counters)
    return outcome


def _actors(bench: Bench, shape: Shape) -> list[Actor]:
    """Return all actors, by the shape."""
    return [
        *(Lessee(f"h{number}", bench, shape) for number in range(shape.lessees)),
        *(
            Candidate(f"{link.rpartition('/')[2]}{number}", bench, shape, link)
            for link in shape.turns
            for number in range(shape.candidates)
        ),
        *(
            Participant(f"{link.rpartition('/')[2]}{number}", bench, shape, link)
            for link in shape.groups
            for number in range(shape.members)
        ),
        *(KafkaMember(f"k{number}", bench, shape) for number in range(shape.kafka)),
        *(Meddler(f"m{number}", bench, shape) for number in range(shape.meddlers)),
        *(Operator(f"o{number}", bench, shape) for number in range(shape.operators)),
    ]


def _led(bench: Bench) -> set[str]:
    """Return all that has a leader at this moment."""
    members = [each for each in bench.actors if isinstance(each, Participant)]
    return {each for member in members if member.up for each in member.led()}


def stuck(bench: Bench) -> list[str]:
    """Return what has not healed."""
    found = []
    for actor in bench.actors:
        if isinstance(actor, Lessee) and not any(map(actor.believes, actor.holder.leases)):
            found.append(f"{actor.name} holds no lease")
        if isinstance(actor, Candidate) and not actor.believes(actor.lease):
            found.append(f"{actor.name} has no lease")
    for link in bench.shape.turns:
        turns = bench.watch.turns(link)
        leaders = [each.name for each in bench.actors if link in each.beliefs()]
        if turns.holder is None and turns.queue:
            found.append(f"{link} has no holder, and {turns.queue} wait")
        elif turns.holder is not None and not leaders:
            found.append(f"{turns.holder.name} has {link}, and does not know it")
    for link in bench.shape.groups:
        found += _unsettled(bench, link)
    return found + _unassigned(bench)


def _unassigned(bench: Bench) -> list[str]:
    """Return the Kafka clients that are not in the newest generation of their group."""
    group = bench.watch.of_groups.groups.get(KAFKA_LINK)
    return [
        f"{actor.name} is {actor.id} of generation {actor.generation} in {group}"
        for actor in bench.actors
        if isinstance(actor, KafkaMember)
        if group is None or group.generation != actor.generation or actor.id not in group.members
    ]


def _unsettled(bench: Bench, link: str) -> list[str]:
    """Return where a group is not settled: exactly the assigned members lead (scenario N01)."""
    group = bench.watch.of_groups.groups.get(link)
    if group is None:
        return [f"{link} is missing"]
    actors = {
        each.member.id: each
        for each in bench.actors
        if isinstance(each, Participant) and each.link == link and each.member is not None
    }
    if actors and not group.members:
        return [f"{link} has no members"]
    found = [
        f"{link} has {member}, which is gone" for member in group.members if member not in actors
    ]
    for partition in group.partitions if group.members else ():
        tenure = group.tenure.get(partition)
        name = f"{link}#{partition}"
        holder = None if tenure is None else actors.get(tenure.member)
        if tenure is None or group.target.get(partition) != tenure.member:
            found.append(f"{name} should be {group.target.get(partition)}'s, and is {tenure}")
        elif holder is None or name not in holder.led():
            found.append(f"{tenure.member} does not lead {name}")
    return found
