"""A slot leaves a node during a disk read: the result of the read counts no more."""

from typing import Any

import pytest

from docstore.documents.events import Requested
from docstore.documents.membership import reconfigure
from docstore.documents.replica import Replica
from docstore.machines.effects import Give, Read
from docstore.machines.events import Persisted, QueriesAnswered, Received, TurnEnded
from docstore.model.operation import Operation
from docstore.ownership.configuration import Configuration, MemberEntry
from docstore.wire.messages import Accepted, Answered, Confirm, Confirmed, Forward, Forwarded
from tests.docstore.documents.test_replica import opened, put, sends, tokens


def decided_and_stored() -> Replica:
    """Return an owner with one version of one document, which is on its disk and decided."""
    machine = opened()
    [token] = tokens(put(machine, 7))
    machine.step(Received("n2", Accepted([(0, 1, 1)])), 0.7)
    machine.step(Persisted(token), 0.7)
    return machine


def leave_slot(machine: Replica) -> None:
    """Remove the machine from the group."""
    members = tuple(MemberEntry(each, each, "host", 1) for each in ("n2", "n3"))
    reconfigure.use(machine.core, Configuration(2, "test", 1, 1, None, members))
    assert machine.core.logs == {}


@pytest.mark.parametrize("select", [("version", 0), ("history", None, 9), ("at", 1)])
def test_a_row_missing_as_its_slot_has_left_is_not_answered_as_missing(select: Any) -> None:
    machine = decided_and_stored()
    machine.step(Requested(8, Operation(verb="GET", link="/t/a", select=select), 9.0), 0.8)
    [confirm, _] = [
        message for _, message in sends(machine.step(TurnEnded(), 0.8)) if type(message) is Confirm
    ]
    confirmed = machine.step(Received("n2", Confirmed(confirm.round, ())), 0.9)
    [read] = [effect for effect in confirmed if isinstance(effect, Read)]
    leave_slot(machine)
    effects = machine.step(QueriesAnswered([(read.token, [])]), 1.0)
    assert [effect for effect in effects if isinstance(effect, Give)] == []


def test_a_retry_is_answered_from_the_disk_though_the_slot_leaves() -> None:
    machine = decided_and_stored()
    put = Operation(verb="PUT", link="/t/b", body=b"{}", creates=True)
    again = Forwarded(1, 1, 0, 1, 5000, put.packed())
    asked = machine.step(Received("n2", Forward([again])), 0.8)
    [read] = [effect for effect in asked if isinstance(effect, Read)]
    machine.step(QueriesAnswered([(read.token, [])]), 0.8)
    [token] = tokens(machine.step(TurnEnded(), 0.8))
    machine.step(Persisted(token), 0.8)
    made = machine.core.logs[0].pending[2]
    machine.step(Received("n2", Accepted([(0, 1, 2)])), 0.8)
    asked = machine.step(Received("n2", Forward([again._replace(attempt=2)])), 0.9)
    [read] = [effect for effect in asked if isinstance(effect, Read)]
    leave_slot(machine)
    effects = machine.step(QueriesAnswered([(read.token, [made])]), 1.0)
    [answers] = [message.answers for _, message in sends(effects) if isinstance(message, Answered)]
    assert [answer.status for _, _, answer, _ in answers if answer is not None] == [201]
