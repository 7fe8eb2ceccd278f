"""A frame that comes twice: what an owner says of the second one clears no doubt (rule C3)."""

import pytest

from docstore.operation import Operation
from docstore.protocol.configuration import first_registered
from docstore.protocol.effects import Effect, Read
from docstore.protocol.events import DiskFilled, Event, QueriesAnswered, Received, TurnEnded
from docstore.protocol.replica import Replica
from docstore.storage.store import Recovered
from docstore.wire import Answered, Forward, Forwarded, Prepare
from tests.docstore.protocol.test_replica import ALL_SLOTS, founded, opened, sends

FRAME = Forward([Forwarded(9, 5, 5, 1, 3000, Operation("PUT", "/t/a", b"{}", creates=True))])
DEPOSED = Received("n3", Prepare(5, ALL_SLOTS))
FULL = DiskFilled(Recovered("n1", 1, first_registered(founded("n1", "n2", "n3")).pack()))


def answers(effects: list[Effect]) -> list[tuple[int, int | None, bool]]:
    """Return (sequence number, status, whether it was proposed) of what is handed back."""
    handed_back = [message for _, message in sends(effects) if isinstance(message, Answered)]
    return [
        (seq, answer and answer.status, proposed)
        for message in handed_back
        for seq, _, answer, proposed in message.answers
    ]


def appended() -> Replica:
    """Return an owner that has put the operation at the end of its log, in this turn."""
    machine = opened()
    asked = machine.step(Received("n2", FRAME), 0.6)
    found = [(effect.token, []) for effect in asked if isinstance(effect, Read)]
    machine.step(QueriesAnswered(found), 0.6)
    return machine


@pytest.mark.parametrize("end", [DEPOSED, FULL], ids=["deposed", "disk full"])
def test_an_echo_of_what_was_proposed_is_not_given_back_as_if_it_were_not(end: Event) -> None:
    machine = appended()
    machine.step(TurnEnded(), 0.6)
    # What it says now is lost; then the same frame comes once more.
    assert answers(machine.step(end, 0.8)) == [(5, None, True)]
    assert answers(machine.step(Received("n2", FRAME), 0.9)) == [(5, None, True)]


def test_what_was_not_proposed_yet_is_given_back_as_such() -> None:
    assert answers(appended().step(DEPOSED, 0.6)) == [(5, None, False)]


def test_what_nobody_asks_for_any_more_is_forgotten() -> None:
    proposed = opened().core.proposed
    for seq in range(100):
        proposed.note(("n2", 9), seq, max(0, seq - 3))
    assert [seq for seq in range(100) if proposed.has(("n2", 9), seq)] == [96, 97, 98, 99]
    assert not proposed.has(("n3", 9), 99)
    proposed.note(("n3", 9), 5, 7)  # A peer that contradicts itself does no harm.
    assert not proposed.has(("n3", 9), 5)
