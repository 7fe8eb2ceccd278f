"""A node that stops: whoever waits for it is answered before it ends."""

from docstore.operation import Operation
from docstore.protocol.events import DrainAsked, Requested
from tests.docstore.protocol.trio import NAMES, TICK_S, Trio


def test_what_still_waits_at_a_node_that_stops_is_told_that_nobody_knows() -> None:
    trio = Trio()
    assert trio.run_until(trio.owner, 10)
    # No disk comes to an end: the update is neither decided nor refused.
    trio.sync_s = dict.fromkeys(NAMES, 1e9)
    entry = next(name for name in NAMES if name != trio.owner())
    patience_s = trio.replicas[entry].core.config.drain_patience_s
    update = Operation("PUT", "/t/a", b"{}", creates=True)
    trio.feed(entry, Requested(1, update, trio.now + 1000))
    trio.run_until(lambda: False, 2 * patience_s)
    assert trio.answers == []
    trio.feed(entry, DrainAsked())
    begun = trio.now
    assert trio.run_until(lambda: trio.answers, 2 * patience_s)
    [(at, respond)] = trio.answers
    assert patience_s <= at - begun <= patience_s + 2 * TICK_S
    assert (respond.answer.status, respond.answer.unknown) == (504, True)


def test_a_node_that_stops_finishes_what_can_be_finished() -> None:
    trio = Trio()
    assert trio.run_until(trio.owner, 10)
    owner = trio.owner()
    trio.feed(owner, Requested(1, Operation("PUT", "/t/a", b"{}", creates=True), trio.now + 5))
    trio.feed(owner, DrainAsked())
    assert trio.run_until(lambda: trio.answers, 5)
    assert [respond.answer.status for _, respond in trio.answers] == [201]
