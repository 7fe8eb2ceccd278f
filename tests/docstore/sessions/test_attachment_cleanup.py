"""Attached documents end with their lease (S5): each rule has a test that fails without it."""

import pytest

from docstore.model import json
from docstore.model.document import LEASE
from docstore.model.operation import Answer, Operation
from docstore.services.leases import LEASES, Behavior
from tests.docstore.sessions.granting import (
    LINK,
    MISSING,
    TTL_S,
    attached,
    granted,
    kept_alive,
    phase,
)
from tests.docstore.sessions.group import Group


@pytest.fixture
def group() -> Group:
    return Group()


BEHAVIORS: list[tuple[Behavior, object]] = [
    (Behavior.DELETE, None),
    (Behavior.RELEASE, {}),
]


@pytest.mark.parametrize(("behavior", "left"), BEHAVIORS)
def test_s5_attached_documents_end_with_their_lease(
    group: Group, behavior: Behavior, left: object
) -> None:
    granted(group, behavior=behavior)
    attached(group, LINK, "/notes/a")
    group.run(TTL_S + 1.0)
    assert group.state("/notes/a") == left


def test_s5_a_listed_end_is_confirmed_before_documents_are_deleted(group: Group) -> None:
    """Read it, as a listed end may be an own update that is never decided: the lease lives on."""
    granted(group)
    attached(group, LINK, "/notes/a")
    row = group.documents[LINK]
    ended = json.dump({**json.load(row.state), "state": "ended", "why": "expired"})
    undecided = row._replace(version=row.version + 1, state=ended)
    group.govern("c")
    group.machines["c"].owned.learn(undecided, is_sure=False)
    group.run(0.5)
    assert group.state("/notes/a") == {LEASE: LINK}
    assert phase(group) == "alive"
    group.run(TTL_S + 1.0)  # It has its whole time, and then it ends.
    assert phase(group) == "ended"
    assert group.state("/notes/a") is None


def test_s5_a_document_that_names_another_lease_stays(group: Group) -> None:
    granted(group)
    attached(group, LINK, "/notes/a", names=f"{LEASES}/other")
    group.run(TTL_S + 70)
    assert group.state("/notes/a") == {LEASE: f"{LEASES}/other"}


def test_s5_a_late_write_is_found_by_a_later_pass(group: Group) -> None:
    granted(group)
    group.patch(LINK, {"kind": "AttachRequest", "link": "/notes/late"})
    group.run(TTL_S + 50)
    group.put("/notes/late", {LEASE: LINK})
    group.run(20)
    assert group.state("/notes/late") is None


def test_s5_the_lease_is_deleted_after_the_last_pass(group: Group) -> None:
    granted(group)
    group.run(TTL_S + 60)
    assert phase(group) == "ended"
    group.run(10)
    assert phase(group) == "none"
    assert kept_alive(group) == MISSING


def test_s5_a_new_owner_begins_the_passes_anew(group: Group) -> None:
    granted(group)
    attached(group, LINK, "/notes/a")
    group.answers = lambda node, operation: (
        Answer(503, "no-quorum") if operation.link == "/notes/a" else None
    )
    group.run(TTL_S + 1)
    group.govern("b")
    group.crash("a")
    group.answers = lambda node, operation: None
    group.run(70)
    assert group.state("/notes/a") is None
    assert phase(group) == "none"


def test_s5_a_document_changed_meanwhile_is_read_again(group: Group) -> None:
    granted(group)
    attached(group, LINK, "/notes/a")

    def overtaken(node: str, operation: Operation) -> Answer | None:
        if operation.verb == "DELETE":
            group.answers = lambda node, operation: None
            group.put("/notes/a", {"taken": True})
        return None

    group.answers = overtaken
    group.run(TTL_S + 5)
    assert group.state("/notes/a") == {"taken": True}
