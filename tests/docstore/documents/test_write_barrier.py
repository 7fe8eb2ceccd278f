"""A write barrier: updates wait for its end, reads do not, and pending updates are decided."""

from docstore.documents.events import BarrierAsked, Requested
from docstore.documents.leadership.write_barrier import STILL_S_MAX
from docstore.model.operation import Operation
from tests.docstore.documents.trio import Trio

PUT = Operation(verb="PUT", link="/t/1", body=b'{"n":1}', creates=True)


def opened() -> Trio:
    trio = Trio()
    assert trio.run_until(trio.owner, 10)
    return trio


def ask(trio: Trio, number: int, operation: Operation) -> None:
    trio.feed(trio.owner(), Requested(number, operation, trio.now + 10))


def answered(trio: Trio, number: int) -> bool:
    return any(effect.request == number for _, effect in trio.answers)


def test_updates_wait_and_reads_do_not() -> None:
    trio = opened()
    owner = trio.replicas[trio.owner()].core
    ask(trio, 1, PUT)
    assert trio.run_until(lambda: answered(trio, 1), 1)
    began = trio.now
    trio.feed(trio.owner(), BarrierAsked(0.15))
    end = owner.logs[0].end
    ask(trio, 2, PUT)
    ask(trio, 3, Operation(verb="GET", link="/t/1"))
    assert trio.run_until(lambda: answered(trio, 3), 1)
    assert trio.now < began + 0.15
    term = owner.logs[0].term
    assert term is not None
    assert (owner.logs[0].end, term.is_writing, len(term.clients.deferred)) == (end, False, 1)
    assert trio.run_until(lambda: answered(trio, 2), 1)
    assert trio.now >= began + 0.15
    assert owner.logs[0].end == end + 1


def test_pending_updates_are_decided_during_a_barrier() -> None:
    trio = opened()
    owner = trio.replicas[trio.owner()].core
    ask(trio, 1, PUT)
    trio.feed(trio.owner(), BarrierAsked(0.15))
    log = owner.logs[0]
    assert log.term is not None
    assert log.term.is_writing
    assert trio.run_until(lambda: answered(trio, 1), 0.1)
    assert not log.term.is_writing
    assert log.decided == log.end


def test_a_barrier_has_a_maximum_duration() -> None:
    trio = opened()
    began = trio.now
    trio.feed(trio.owner(), BarrierAsked(3600.0))
    ask(trio, 1, PUT)
    assert trio.run_until(lambda: answered(trio, 1), 5)
    assert trio.now < began + 2 * STILL_S_MAX
