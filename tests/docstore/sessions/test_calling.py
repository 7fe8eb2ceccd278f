"""Calls find the owner of a document, and the next one when it is lost."""

import pytest

from docstore.machines.events import LinkLost
from docstore.services.leases import LEASES, LeaseState
from tests.docstore.sessions.group import Group

LINK = f"{LEASES}/x"


@pytest.fixture
def group() -> Group:
    group = Group()
    group.put(LINK, LeaseState(ttl_ms=60_000).state())
    return group


def keep_alive(group: Group, at: str) -> int:
    return group.call(LINK, "keep-alive", ("x",), at=at)


def test_a_call_reaches_the_owner_through_every_node(group: Group) -> None:
    for name in "abc":
        assert group.reply(keep_alive(group, name)).result[0] == {"x": 60_000}


def test_a_call_to_a_former_owner_goes_to_its_successor(group: Group) -> None:
    group.govern("c", unnoticed_by="b")
    request = keep_alive(group, "b")
    assert request not in group.replies
    group.notice_owner("b")
    group.run(0.1)
    assert group.reply(request).result[0] == {"x": 60_000}


def test_a_call_lost_with_its_owner_goes_to_the_successor(group: Group) -> None:
    group.pause("a")
    request = keep_alive(group, "b")
    group.paused.pop("a")
    group.crash("a")
    group.govern("c")
    group.run(0.1)
    assert group.reply(request).result[0] == {"x": 60_000}


def test_a_call_lost_with_its_link_is_resent_at_once(group: Group) -> None:
    group.pause("a")
    request = keep_alive(group, "b")
    group.paused["a"].clear()
    group.resume("a")
    group.feed("b", LinkLost("a"))  # The link is back already: the node was alive.
    group.run(0.1)
    assert group.reply(request).result[0] == {"x": 60_000}


def test_a_lost_call_is_resent(group: Group) -> None:
    group.pause("a")
    request = group.call(LINK, "keep-alive", ("x",), at="b", timeout_s=20)
    group.paused["a"].clear()
    group.resume("a")
    group.run(group.config.resend_s[0] - 0.1)
    assert request not in group.replies
    group.run(0.2)
    assert group.reply(request).result[0] == {"x": 60_000}


def test_without_an_owner_a_call_ends_at_its_deadline(group: Group) -> None:
    for name in "bc":
        group.cut("a", name)
    request = keep_alive(group, "b")
    group.run(4.9)
    assert request not in group.replies
    group.run(0.2)
    assert (group.reply(request).status, group.reply(request).code) == (503, "no-owner")


def test_a_call_without_a_majority_ends_with_no_quorum(group: Group) -> None:
    group.cut("a", "b")
    group.sights["b"].lacks_quorum = True
    request = keep_alive(group, "b")
    group.run(5.1)
    assert group.reply(request).code == "no-quorum"


def test_an_unknown_kind_of_call_is_refused(group: Group) -> None:
    request = group.call(LINK, "unheard-of", at="b")
    assert (group.reply(request).status, group.reply(request).code) == (501, "not-implemented")
