"""Read indexes: an owner gives one only for its slots, and after a quorum has confirmed it."""

from dataclasses import replace

from docstore.documents.events import ReadIndexAsked, Requested
from docstore.model.operation import Operation
from tests.docstore.documents.trio import NAMES, Trio

PUT = Operation(verb="PUT", link="/t/1", body=b'{"n":1}', creates=True)


def opened() -> Trio:
    """Return three replicas of one slot, with an owner that has decided one row."""
    trio = Trio()
    assert trio.run_until(trio.owner, 10)
    trio.feed(trio.owner(), Requested(1, PUT, trio.now + 10))
    assert trio.run_until(lambda: trio.answers, 1)
    return trio


def ask(trio: Trio, name: str, number: int, patience_s: float = 5.0) -> None:
    trio.feed(name, ReadIndexAsked(number, [0, 7], trio.now + patience_s))


def test_the_owner_gives_a_read_index_of_its_slot() -> None:
    trio = opened()
    owner = trio.owner()
    log = trio.replicas[owner].core.logs[0]
    ask(trio, owner, 1)
    assert 1 not in trio.indexes  # No replica has confirmed the term yet.
    assert trio.run_until(lambda: 1 in trio.indexes, 1)
    assert trio.indexes[1] == {0: (log.promised[0], log.decided)}


def test_a_read_index_includes_rows_decided_before_the_question() -> None:
    trio = opened()
    owner = trio.owner()
    log = trio.replicas[owner].core.logs[0]
    before = log.decided
    trio.feed(owner, Requested(2, replace(PUT, body=b'{"n":2}'), trio.now + 10))
    assert trio.run_until(lambda: log.decided > before, 1)
    ask(trio, owner, 1)
    assert trio.run_until(lambda: 1 in trio.indexes, 1)
    assert trio.indexes[1][0][1] == before + 1


def test_a_node_that_is_not_the_owner_gives_no_read_index() -> None:
    trio = opened()
    other = next(name for name in NAMES if name != trio.owner())
    ask(trio, other, 1)
    assert trio.indexes == {1: {}}


def test_without_a_quorum_the_read_index_is_empty_at_the_deadline() -> None:
    trio = opened()
    owner = trio.owner()
    trio.cut_off.add(owner)
    ask(trio, owner, 1, patience_s=0.5)
    assert not trio.run_until(lambda: 1 in trio.indexes, 0.45)
    assert trio.run_until(lambda: 1 in trio.indexes, 0.2)
    assert trio.indexes[1] == {}


def test_a_deposed_owner_gives_no_read_index() -> None:
    trio = opened()
    owner = trio.owner()
    trio.cut_off.add(owner)
    ask(trio, owner, 1, patience_s=60.0)
    others = [name for name in NAMES if name != owner]
    ballot = trio.replicas[owner].core.logs[0].promised
    assert trio.run_until(lambda: trio.replicas[others[0]].core.logs[0].promised > ballot, 10)
    trio.cut_off.clear()
    assert trio.run_until(lambda: 1 in trio.indexes, 5)
    assert trio.indexes[1] == {}
