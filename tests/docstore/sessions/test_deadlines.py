"""Deadlines in a heap: a renewal is one number, and an ending key is not renewed."""

from random import Random

from docstore.sessions.core import Core
from docstore.sessions.deadlines import Deadlines
from docstore.sessions.timing import SessionsConfig
from tests.docstore.sessions.group import Group


def of_one_clock() -> tuple[Core, Deadlines[str]]:
    sight = Group("a").sights["a"]
    core = Core("a", view=sight, rng=Random(1), config=SessionsConfig(pause_s=100.0), now=0.0)
    return core, Deadlines[str](core)


def overdue(deadlines: Deadlines[str], limit: int = 10) -> list[str]:
    return [key for key, _ in deadlines.overdue(limit)]


def test_keys_are_overdue_once_in_the_order_of_their_deadlines() -> None:
    core, deadlines = of_one_clock()
    for key, span_s in (("c", 3.0), ("a", 1.0), ("b", 2.0)):
        deadlines.grant(key, span_s)
    core.heard_s = 2.5
    assert overdue(deadlines) == ["a", "b"]
    assert overdue(deadlines) == []
    core.heard_s = 3.5
    assert list(deadlines.overdue(10)) == [("c", 0.5)]


def test_overdue_keys_beyond_the_limit_come_next_time_and_may_be_renewed() -> None:
    core, deadlines = of_one_clock()
    for key in "abc":
        deadlines.grant(key, 1.0)
    core.heard_s = 2.0
    assert overdue(deadlines, limit=1) == ["a"]
    assert deadlines.renew("b")
    assert overdue(deadlines) == ["c"]


def test_an_ending_key_is_not_renewed_until_it_is_granted_anew() -> None:
    core, deadlines = of_one_clock()
    deadlines.grant("a", 1.0)
    core.heard_s = 1.0
    assert overdue(deadlines) == ["a"]
    assert not deadlines.renew("a")
    assert deadlines.is_ending("a")
    deadlines.grant("a", 1.0)
    assert not deadlines.is_ending("a")
    assert deadlines.renew("a")
    core.heard_s = 2.0
    assert overdue(deadlines) == ["a"]


def test_dropped_keys_do_not_stay_in_memory_until_due() -> None:
    """Drop and grant long leases often, as when clients make and end them all the time."""
    core, deadlines = of_one_clock()
    deadlines.grant("kept", 1.0)
    for number in range(10_000):
        deadlines.grant(str(number), 3_600.0)
        deadlines.drop(str(number))
    assert len(deadlines._heap) < 2_000
    core.heard_s = 2.0
    assert overdue(deadlines) == ["kept"]


def test_a_dropped_key_is_not_overdue() -> None:
    core, deadlines = of_one_clock()
    deadlines.grant("a", 1.0)
    deadlines.drop("a")
    core.heard_s = 5.0
    assert overdue(deadlines) == []
    assert deadlines.left_s("a") is None
    assert not deadlines.renew("a")
