"""After a restart: a retry finds what its first attempt has made, or is told that nobody knows."""

from dataclasses import replace
from typing import Any

from docstore.operation import Operation
from docstore.protocol.effects import Read, Send
from docstore.protocol.events import QueriesAnswered, Received, TurnEnded
from docstore.wire import Answered, Forward, Forwarded
from tests.docstore.protocol.trio import Trio

LATER = 5_000
"""Rows that came after the operation: several pages to be read, and more than were read once."""


def frame(attempt: int) -> Forward:
    """Return the operation as its entry node sends it for the first time, or again."""
    operation = Operation("PUT", "/t/once", b'{"n":1}', creates=True)
    return Forward([Forwarded(9, 5, 5, attempt, 3000, operation)])


def told(trio: Trio, name: str, attempt: int) -> list[tuple[int, Any]]:
    """Return (status, version) of what an owner answers to an attempt."""
    replica, found = trio.replicas[name], []
    events: list[Any] = [Received("n2", frame(attempt))]
    while events:
        for effect in replica.step(events.pop(0), trio.now):
            match effect:
                case Send(_, Answered(_, answers)):
                    found += [(each[2].status, each[2].row and each[2].row.version)
                              for each in answers]  # fmt: skip
                case Read(token, query):
                    result = trio.disks[name].answer(query)
                    events.append(QueriesAnswered([(token, result)]))
        if not events and replica.wants_turn:
            events.append(TurnEnded())
    return found


def restarted(later: int) -> Trio:
    """Return a group that has done the operation, and more after it, and has begun anew."""
    trio = Trio()
    assert trio.run_until(trio.owner, 10)
    trio.feed(trio.owner(), Received("n2", frame(1)))
    log = trio.replicas[trio.owner()].core.logs[0]
    assert trio.run_until(lambda: log.decided == 1, 1)
    for done in range(0, later, 500):
        trio.write(min(500, later - done))
        assert trio.run_until(lambda: log.decided == 1 + min(later, done + 500), 60)  # noqa: B023
    for name in trio.replicas:
        trio.restart(name)
    assert trio.run_until(lambda: not trio.owner(), 1)
    assert trio.run_until(trio.owner, 10)
    return trio


def test_a_retry_finds_its_row_however_much_came_after_it() -> None:
    trio = restarted(LATER)
    owner = trio.owner()
    assert told(trio, owner, attempt=2) == [(201, 0)]
    assert trio.replicas[owner].core.logs[0].end == 1 + LATER


def test_a_retry_of_what_may_lie_further_back_is_not_done_again() -> None:
    trio = restarted(40)
    owner = trio.owner()
    core = trio.replicas[owner].core
    core.config = replace(core.config, recall_rows=10)
    assert told(trio, owner, attempt=2) == [(504, None)]
    assert core.logs[0].end == 41
