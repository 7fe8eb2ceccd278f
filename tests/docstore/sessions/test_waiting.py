"""Calls that wait for a document: they miss no change, and few of them are woken."""

import pytest

from docstore.model.operation import Answer, Operation
from docstore.services.leases import LEASES, LeaseState
from docstore.sessions.calling import Served
from docstore.sessions.owned import Known
from tests.docstore.sessions.group import Group

LINK = f"{LEASES}/x"


@pytest.fixture
def group() -> Group:
    group = Group()
    group.put(LINK, LeaseState(ttl_ms=60_000).state())
    return group


def waiting(group: Group, *, version: int = 0, wait_ms: int = 3_000, at: str = "b") -> int:
    tag = (group.epoch if version else 1, version)
    return group.call(LINK, "wait", (*tag, wait_ms), at=at, timeout_s=wait_ms / 1000 + 2)


def test_a_wait_after_the_newest_version_lasts_until_the_next(group: Group) -> None:
    request = waiting(group)
    group.run(1.0)
    assert request not in group.replies
    group.patch(LINK, {"kind": "AttachRequest", "link": "/notes/1"})
    assert (group.reply(request).status, group.reply(request).result) == (200, True)


def test_a_wait_after_an_older_version_is_answered_at_once(group: Group) -> None:
    group.patch(LINK, {"kind": "AttachRequest", "link": "/notes/1"})
    assert group.reply(waiting(group)).result is True


def test_a_deletion_ends_a_wait(group: Group) -> None:
    request = waiting(group)
    group.apply(Operation(verb="DELETE", link=LINK))
    group.settle()
    assert group.reply(request).result is True


def test_a_change_between_the_registration_and_the_read_is_not_missed(group: Group) -> None:
    def overtaken(node: str, operation: Operation) -> Answer | None:
        """Answer the read from before the change, of which the wait gets a notice."""
        if operation.verb != "GET":
            return None
        group.answers = lambda node, operation: None
        answer = group.apply(operation)
        group.patch(LINK, {"kind": "AttachRequest", "link": "/notes/1"})
        return answer

    group.answers = overtaken
    assert group.reply(waiting(group)).result is True


def test_a_wait_that_times_out_is_202(group: Group) -> None:
    request = waiting(group, wait_ms=1_000)
    group.run(1.1)
    assert (group.reply(request).status, group.reply(request).result) == (202, False)


def test_a_wait_continues_at_the_next_owner(group: Group) -> None:
    request = waiting(group)
    group.govern("c")
    group.run(1.2)  # The node drops the table of the old term.
    assert request not in group.replies
    group.patch(LINK, {"kind": "AttachRequest", "link": "/notes/1"})
    assert group.reply(request).result is True


def test_a_deposed_owner_that_notices_a_version_ends_no_wait(group: Group) -> None:
    request = waiting(group, at="a")
    group.govern("b", unnoticed_by="a")
    group.patch(LINK, {"kind": "AttachRequest", "link": "/notes/1"})
    assert request not in group.replies  # It may be older than the version that the caller read.
    group.notice_owner("a")
    group.run(1.2)
    assert group.reply(request).result is True


def test_an_undecided_version_ends_no_wait(group: Group) -> None:
    undecided = group.documents[LINK]._replace(version=7)
    group.govern("c")

    def listed(node: str, operation: Operation) -> Answer | None:
        group.machines["c"].owned.learn(undecided, is_sure=False)
        return None

    group.answers = listed
    request = waiting(group, at="c")
    assert [operation.verb for _, operation in group.asked] == ["GET"]
    assert request not in group.replies


def test_only_the_wait_with_its_turn_is_answered(group: Group) -> None:
    waiting = group.machines["a"].waiting

    def turn(served: Served) -> None:
        def is_theirs(known: Known | None) -> bool | None:
            return True if known and len(known.found.attached) == served.argument else None

        waiting.wait(served, 10.0, is_theirs, lambda known: False)

    group.machines["a"].calls.add({"turn": turn})
    requests = [group.call(LINK, "turn", place) for place in range(1, 51)]
    group.patch(LINK, {"kind": "AttachRequest", "link": "/notes/1"})
    assert [each for each in requests if each in group.replies] == requests[:1]
    group.patch(LINK, {"kind": "AttachRequest", "link": "/notes/2"})
    assert [each for each in requests if each in group.replies] == requests[:2]


def test_waits_at_a_node_are_bounded() -> None:
    group = Group(waiting_max=2)
    group.put(LINK, LeaseState(ttl_ms=60_000).state())
    requests = [waiting(group, at="a") for _ in range(3)]
    assert [each for each in requests if each in group.replies] == requests[2:]
    assert group.reply(requests[2]).code == "too-many-waiting"
    group.patch(LINK, {"kind": "AttachRequest", "link": "/notes/1"})
    assert waiting(group, version=1, at="a") not in group.replies
