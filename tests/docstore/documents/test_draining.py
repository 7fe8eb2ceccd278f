"""A node that stops: it answers waiting requests before it ends."""

from docstore.documents.events import Requested
from docstore.machines.events import DrainAsked
from docstore.model.operation import Operation
from docstore.wire.messages import HandOver
from tests.docstore.documents.trio import CONFIG, NAMES, TICK_S, Trio


def test_a_draining_node_answers_unfinished_updates_with_unknown() -> None:
    trio = Trio()
    assert trio.run_until(trio.owner, 10)
    # No commit ends: the update is neither decided nor refused.
    trio.sync_s = dict.fromkeys(NAMES, 1e9)
    entry = next(name for name in NAMES if name != trio.owner())
    patience_s = trio.replicas[entry].core.config.waiting.drain_patience_s
    update = Operation(verb="PUT", link="/t/a", body=b"{}", creates=True)
    trio.feed(entry, Requested(1, update, trio.now + 1000))
    trio.run_until(lambda: False, 2 * patience_s)
    assert trio.answers == []
    trio.feed(entry, DrainAsked())
    begun = trio.now
    assert trio.run_until(lambda: trio.answers, 2 * patience_s)
    [(at, respond)] = trio.answers
    assert patience_s <= at - begun <= patience_s + 2 * TICK_S
    assert (respond.outcome.status, respond.outcome.unknown) == (504, True)


def test_a_draining_node_finishes_updates_that_can_be_decided() -> None:
    trio = Trio()
    assert trio.run_until(trio.owner, 10)
    owner = trio.owner()
    trio.feed(
        owner,
        Requested(1, Operation(verb="PUT", link="/t/a", body=b"{}", creates=True), trio.now + 5),
    )
    trio.feed(owner, DrainAsked())
    assert trio.run_until(lambda: trio.answers, 5)
    assert [respond.outcome.status for _, respond in trio.answers] == [201]


def successor(trio: Trio) -> str:
    """Have the owner hand the slot over; return the owner two tenths of a second later."""
    left = trio.owner()
    trio.feed(left, DrainAsked())
    trio.run_until(lambda: trio.owner() not in ("", left), 0.2)
    return trio.owner()


def test_a_node_that_has_just_started_takes_a_handed_over_slot_at_once() -> None:
    trio = Trio()
    assert trio.run_until(trio.owner, 10)
    preferred, heir, _ = trio.replicas[trio.owner()].core.logs[0].replicas
    assert trio.owner() == preferred
    trio.restart(heir)
    trio.run_until(lambda: False, 0.3)
    # The heir has heard of the preferred member, so it does not wait for that one to start.
    assert successor(trio) == heir


def test_a_slot_handed_over_during_a_restart_does_not_wait() -> None:
    trio = Trio()
    assert trio.run_until(trio.owner, 10)
    _, second, third = trio.replicas[trio.owner()].core.logs[0].replicas
    owner = trio.owner()
    trio.feed(owner, DrainAsked())
    log = trio.replicas[owner].core.logs[0]
    assert trio.run_until(lambda: log.term.closed_since is not None, 1)
    # The owner does not know the end of the second's log yet, so it hands over to the third.
    trio.restart(second)
    log.term.followers[second].adopted = False
    assert trio.run_until(lambda: trio.sent[third, HandOver], 0.2)
    assert trio.run_until(lambda: trio.owner() in (second, third), 0.3)


def test_a_handed_over_slot_does_not_wait_for_missing_votes() -> None:
    trio = Trio()
    assert trio.run_until(trio.owner, 10)
    preferred, heir, other = trio.replicas[trio.owner()].core.logs[0].replicas
    assert successor(trio) == heir
    trio.cut_off = {other}
    # The preferred member begins anew, and asks for the slot before it hears of its owner.
    trio.restart(preferred)
    trio.run_until(lambda: trio.replicas[preferred].takeover._votes, 0.1)
    asked_at = trio.now
    assert successor(trio) == preferred
    assert trio.now < asked_at + CONFIG.leadership.attempt_timeout_s


def test_a_slot_is_left_to_the_preferred_node_that_may_be_starting() -> None:
    trio = Trio()
    preferred = trio.replicas["n1"].core.logs[0].replicas[0]
    trio.cut_off = {preferred}
    assert not trio.run_until(trio.owner, 0.9 * CONFIG.leadership.start_grace_s)
    trio.cut_off = set()
    assert trio.run_until(trio.owner, 1)
    assert trio.owner() == preferred
