"""Slots of nodes with full disks: a node with room owns them; without one, only reads go on."""

import pytest

from docstore.documents.events import Requested
from docstore.documents.peers import Peers
from docstore.machines.events import Room
from docstore.model.operation import Answer, Operation
from tests.docstore.documents.trio import NAMES, Trio

READ = Operation(verb="GET", link="/t/a")
UPDATE = Operation(verb="PUT", link="/t/a", body=b"{}", creates=True)


@pytest.fixture
def trio() -> Trio:
    trio = Trio()
    assert trio.run_until(trio.owner, 10)
    return trio


def asked(trio: Trio, entry: str, operation: Operation) -> Answer:
    """Return a node's answer."""
    trio.answers.clear()
    trio.feed(entry, Requested(len(trio.sent), operation, trio.now + 5))
    assert trio.run_until(lambda: trio.answers, 10)
    [(_, respond)] = trio.answers
    return respond.outcome


def reigns_ended(trio: Trio) -> int:
    return sum(each.core.counters["reigns_ended"] for each in trio.replicas.values())


def test_a_slot_goes_to_a_node_with_room_and_no_update_is_refused(trio: Trio) -> None:
    left = trio.owner()
    trio.feed(left, Room(has_room=False))
    for entry in NAMES:
        assert asked(trio, entry, UPDATE).is_success
    assert trio.owner() != left
    # The preferred node does not get the slot back as long as its disk is full.
    trio.run_until(lambda: False, 20)
    assert trio.owner() not in ("", left)
    trio.feed(left, Room(has_room=True))
    assert trio.run_until(lambda: trio.owner() == left, 20)


def test_without_room_on_any_disk_reads_continue_and_updates_are_refused(trio: Trio) -> None:
    assert asked(trio, trio.owner(), UPDATE).status == 201
    for name in NAMES:
        trio.feed(name, Room(has_room=False))
    trio.run_until(lambda: False, 2)
    before = reigns_ended(trio)
    for _ in range(3):
        for entry in NAMES:
            begun = trio.now
            refused = asked(trio, entry, UPDATE)
            assert (refused.status, refused.code, refused.unknown) == (503, "disk-full", False)
            assert asked(trio, entry, READ).status == 200
            assert trio.now - begun < 0.1
        trio.run_until(lambda: False, 5)
    assert reigns_ended(trio) == before
    roomy, second = (name for name in NAMES if name != trio.owner())
    trio.feed(roomy, Room(has_room=True))
    assert trio.run_until(lambda: trio.owner() == roomy, 5)
    assert asked(trio, NAMES[0], UPDATE).code == "disk-full"  # Only the owner has room.
    trio.feed(second, Room(has_room=True))
    trio.run_until(lambda: False, 1)
    assert asked(trio, NAMES[0], UPDATE).status == 200


def test_a_node_with_a_full_disk_takes_a_slot_that_no_other_can(trio: Trio) -> None:
    for name in NAMES:
        trio.restart(name)
        trio.feed(name, Room(has_room=False))
    assert trio.run_until(trio.owner, 10)
    assert asked(trio, trio.owner(), READ).status == 404


def test_a_closed_slot_is_served_again_when_its_owner_has_room(trio: Trio) -> None:
    owner = trio.owner()
    trio.run_until(lambda: False, 1)
    trio.sync_s = dict.fromkeys(NAMES, 1e9)  # No write ends.
    trio.feed(owner, Requested(1, UPDATE, trio.now + 100))
    term = trio.replicas[owner].core.logs[0].term
    assert term is not None
    trio.feed(owner, Room(has_room=False))
    assert trio.run_until(lambda: term.closed_since is not None, 1)
    trio.feed(owner, Room(has_room=True))
    assert trio.run_until(lambda: term.closed_since is None, 1)


def test_o8_an_owner_with_room_refuses_at_once_while_most_replicas_have_none() -> None:
    """Refuse before replicas take rows that could only end as 504 at the deadline."""
    trio = Trio()
    assert trio.run_until(trio.owner, 10)
    owner = trio.owner()
    first, second = (name for name in NAMES if name != owner)
    trio.feed(first, Room(has_room=False))
    trio.run_until(lambda: False, 1)
    assert asked(trio, owner, UPDATE).status == 201  # The owner and `second` are a majority.
    trio.feed(second, Room(has_room=False))
    trio.run_until(lambda: False, 1)
    stored = trio.stored.copy()
    for entry in NAMES:
        begun = trio.now
        refused = asked(trio, entry, UPDATE)
        assert (refused.status, refused.code, refused.unknown) == (503, "disk-full", False)
        assert asked(trio, entry, READ).status == 200
        assert trio.now - begun < 0.1
    assert trio.stored == stored
    trio.feed(first, Room(has_room=True))
    trio.run_until(lambda: False, 1)
    assert asked(trio, owner, UPDATE).status == 200


def test_a_silent_member_is_not_taken_for_a_full_one(trio: Trio) -> None:
    owner = trio.owner()
    silent, full = (name for name in NAMES if name != owner)
    trio.cut_off |= {silent}
    trio.feed(full, Room(has_room=False))
    trio.run_until(lambda: False, 0.5)
    assert asked(trio, owner, UPDATE).status == 201


def test_the_room_of_a_removed_member_is_forgotten() -> None:
    peers = Peers(0.0)
    peers.become(("n2", "n3"), 0.0)
    for name in ("n2", "n3"):
        peers.note_room(name, has_room=False)
    peers.note_room("n3", has_room=False)
    assert peers.full == {"n2", "n3"}
    peers.become(("n3", "n4"), 1.0)
    assert peers.full == {"n3"}
    peers.note_room("n3", has_room=True)
    peers.note_room("n4", has_room=True)
    assert not peers.full
