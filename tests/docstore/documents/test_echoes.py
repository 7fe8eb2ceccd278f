"""A frame that comes twice: the answer to the second clears no doubt (rule C3)."""

import pytest

from docstore.documents.clients import Inflight
from docstore.documents.effects import Effect
from docstore.documents.events import DiskFilled, Event
from docstore.documents.operations import Operations
from docstore.documents.replica import Replica
from docstore.documents.timing import ReplicaConfig
from docstore.machines.effects import Read
from docstore.machines.events import DrainAsked, QueriesAnswered, Received, TurnEnded
from docstore.model.operation import Answer, Operation
from docstore.ownership.configuration import first_registered
from docstore.storage.store import Recovered
from docstore.testing.simulation.world import World
from docstore.wire.messages import (
    Accepted,
    Answered,
    Confirm,
    Confirmed,
    Forward,
    Forwarded,
    Prepare,
)
from tests.docstore.documents.test_replica import ALL_SLOTS, founded, opened, sends
from tests.sim.cluster import Cluster
from tests.sim.process import Process

PUT = Operation(verb="PUT", link="/t/a", body=b"{}", creates=True)
FRAME = Forward([Forwarded(9, 5, 5, 1, 3000, PUT.packed())])
DEPOSED = Received("n3", Prepare(5, ALL_SLOTS))
FULL = DiskFilled(Recovered("n1", 1, first_registered(founded("n1", "n2", "n3")).pack()))


def answers(effects: list[Effect]) -> list[tuple[int, int | None, bool]]:
    """Return (sequence number, status, whether it was proposed) of each operation handed back."""
    handed_back = [message for _, message in sends(effects) if isinstance(message, Answered)]
    return [
        (seq, answer and answer.status, proposed)
        for message in handed_back
        for seq, _, answer, proposed in message.answers
    ]


def appended() -> Replica:
    """Return an owner that has appended the operation to its log in this turn."""
    machine = opened()
    asked = machine.step(Received("n2", FRAME), 0.6)
    found = [(effect.token, []) for effect in asked if isinstance(effect, Read)]
    machine.step(QueriesAnswered(found), 0.6)
    return machine


@pytest.mark.parametrize("end", [DEPOSED, FULL], ids=["deposed", "disk full"])
def test_an_echo_of_a_proposed_operation_is_handed_back_as_proposed(end: Event) -> None:
    machine = appended()
    machine.step(TurnEnded(), 0.6)
    # This answer is lost; then the same frame comes once more.
    assert answers(machine.step(end, 0.8)) == [(5, None, True)]
    assert answers(machine.step(Received("n2", FRAME), 0.9)) == [(5, None, True)]


def test_an_echo_of_a_refused_operation_is_not_applied_to_a_refilled_log() -> None:
    machine = opened()
    machine.step(Received("n2", Accepted([(0, 1, 0)])), 0.6)
    change = Operation(verb="PATCH", link="/t/a", body=b"{}")
    frame = Forward([Forwarded(9, 5, 5, 1, 3000, change.packed())])
    asked = machine.step(Received("n2", frame), 0.6)
    found = [(effect.token, []) for effect in asked if isinstance(effect, Read)]
    machine.step(QueriesAnswered(found), 0.6)
    [confirm, *_] = [
        each for _, each in sends(machine.step(TurnEnded(), 0.6)) if type(each) is Confirm
    ]
    assert answers(machine.step(Received("n2", Confirmed(confirm.round, ())), 0.7)) == [
        (5, 404, False)
    ]
    # A checksum failed, and the log came back from another replica with the document.
    log = machine.core.logs[0]
    log.operations = Operations()
    log.term.cache.clear()
    assert machine.step(Received("n2", frame), 0.8) == []


def test_an_unproposed_operation_is_handed_back_as_unproposed() -> None:
    assert answers(appended().step(DEPOSED, 0.6)) == [(5, None, False)]


def test_operations_below_the_oldest_open_one_are_forgotten() -> None:
    proposed = opened().core.proposed
    for seq in range(100):
        proposed.note(("n2", 9), seq, max(0, seq - 3))
    assert [seq for seq in range(100) if proposed.has(("n2", 9), seq)] == [96, 97, 98, 99]
    assert [seq for seq in range(100) if not proposed.is_over(("n2", 9), seq)] == [96, 97, 98, 99]
    assert not proposed.has(("n3", 9), 99)
    assert not proposed.is_over(("n3", 9), 0)
    proposed.note(("n3", 9), 5, 7)  # A peer that contradicts itself does no harm.
    assert not proposed.has(("n3", 9), 5)


HandedBack = list[tuple[int | None, bool]]


def weaker() -> tuple[World, Cluster, list[Process]]:
    """Return a group of level 2, in the order in which nodes execute its operations."""
    world = World(1)
    cluster = Cluster(world, 3, factor=None, slots=1, config=ReplicaConfig(), changes=False)
    cluster.network.weather.loss = cluster.network.weather.straggle = 0.0
    for process in cluster.processes.values():
        process.level = 2  # From the next start on.
        process.crash()
        cluster.start(process.name)
    world.run(4.0)
    order = cluster.processes["n0"].replica.core.placement.replicas(0)
    return world, cluster, [cluster.processes[name] for name in order]


def handed_back_by(process: Process) -> HandedBack:
    """Return a list that will get (status, whether it was proposed) of each operation."""
    handed_back: HandedBack = []
    core, reply = process.replica.core, process.replica.core.reply

    def noted(inflight: Inflight, answer: Answer | None, *, proposed: bool = False) -> None:
        handed_back.append((answer and answer.status, proposed))
        reply(inflight, answer, proposed=proposed)

    core.reply = noted  # type: ignore[method-assign]
    return handed_back


def frame(entry: Process, attempt: int) -> Received:
    """Return an operation of level 2 as its entry node forwards it."""
    operation = Operation(verb="PUT", link="/t/a", body=b'{"log":[]}', creates=True, level=2)
    return Received(entry.name, Forward([Forwarded(9, 5, 5, attempt, 30_000, operation.packed())]))


def test_an_echo_of_an_executed_operation_clears_no_doubt() -> None:
    world, _, (owner, _, entry) = weaker()
    handed_back = handed_back_by(owner)
    owner.feed(frame(entry, 1))
    world.run(world.now + 1.0)
    assert handed_back == [(201, False)]
    owner.feed(DrainAsked())  # From here on another node executes.
    owner.feed(frame(entry, 1))
    assert handed_back[1:] == [(None, True)]


def test_an_operation_handed_back_is_not_executed_by_its_echo() -> None:
    world, cluster, (first, second, entry) = weaker()
    handed_back = handed_back_by(second)
    second.feed(frame(entry, 1))
    assert handed_back == [(None, False)]
    cluster.crash(first.name)
    world.run(world.now + 4.0)
    second.feed(frame(entry, 1))
    world.run(world.now + 1.0)
    assert handed_back[1:] == []
    second.feed(frame(entry, 2))  # Another attempt is no echo.
    world.run(world.now + 1.0)
    assert handed_back[1:] == [(201, False)]


def test_an_operation_executed_by_another_node_is_not_executed_again() -> None:
    world, cluster, (first, second, entry) = weaker()
    first.feed(frame(entry, 2))
    world.run(world.now + 1.0)
    cluster.crash(first.name)
    world.run(world.now + 4.0)
    handed_back = handed_back_by(second)
    second.feed(frame(entry, 1))  # Late, or held until this node had followed the others.
    world.run(world.now + 1.0)
    assert handed_back == [(201, False)]
    assert second.replica.core.counters["executed"] == 0
