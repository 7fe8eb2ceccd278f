"""Slots without an owner: for a moment that is normal, for longer a node is not ready."""

from collections.abc import Iterator

import pytest

from docstore.documents.events import ViewChanged
from docstore.documents.timing import LeadershipTimes
from docstore.machines.events import DrainAsked
from tests.docstore.documents.trio import NAMES, TICK_S, Trio

PATIENCE_S = LeadershipTimes().vacant_after_s


@pytest.fixture
def trio() -> Trio:
    return Trio()


def vacant(trio: Trio, *names: str) -> list[int]:
    return [trio.replicas[name].liveness.unowned_slots.lasting() for name in names or NAMES]


def seen(trio: Trio, seconds: float, *names: str) -> Iterator[bool]:
    """Yield, for some seconds, whether one of the nodes finds the slot vacant."""
    until = trio.now + seconds
    while trio.now < until:
        trio.run_until(lambda: False, TICK_S / 10)
        yield any(vacant(trio, *names))


def test_a_node_that_has_just_begun_knows_no_owner(trio: Trio) -> None:
    assert vacant(trio) == [1, 1, 1]
    assert trio.run_until(trio.owner, 10)
    assert trio.run_until(lambda: not any(vacant(trio)), 1)


def test_a_handed_over_slot_is_never_vacant(trio: Trio) -> None:
    assert trio.run_until(lambda: not any(vacant(trio)), 10)
    left = trio.owner()
    trio.feed(left, DrainAsked())
    assert not any(seen(trio, 10))
    assert trio.owner() not in ("", left)


def test_a_slot_is_vacant_after_its_owner_was_lost(trio: Trio) -> None:
    """Cut two of three nodes off, so that the third cannot take over."""
    assert trio.run_until(lambda: not any(vacant(trio)), 10)
    left, lost = trio.owner(), trio.now
    other, last = (name for name in NAMES if name != left)
    trio.cut_off |= {left, other}
    timeout_s = LeadershipTimes().owner_timeout_s
    assert trio.run_until(lambda: vacant(trio, last) == [1], 10)
    assert timeout_s + PATIENCE_S <= trio.now - lost < timeout_s + PATIENCE_S + 0.5
    trio.cut_off.clear()
    assert trio.run_until(lambda: not any(vacant(trio)), 10)


def test_an_owner_believed_dead_owns_no_slot(trio: Trio) -> None:
    """Membership may find a death sooner than the silence on a link shows it."""
    assert trio.run_until(lambda: not any(vacant(trio)), 10)
    owner, lost = trio.owner(), trio.now
    other = next(name for name in NAMES if name != owner)
    trio.cut_off |= set(NAMES)
    trio.feed(other, ViewChanged(frozenset()))
    assert trio.run_until(lambda: vacant(trio, other) == [1], 10)
    assert PATIENCE_S <= trio.now - lost < PATIENCE_S + 0.2
