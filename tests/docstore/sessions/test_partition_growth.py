"""Consumer groups whose topics get more partitions."""

from docstore.model import json
from docstore.model.document import Row
from docstore.services.group_document import (
    GROUPS,
    PARTITIONS_MAX,
    GroupState,
    MemberDetails,
    group_of,
)
from docstore.sessions.group_messages import Changed, Join, Pulse, reply_of
from tests.docstore.sessions.group import Group as Nodes

LINK, TOPIC = f"{GROUPS}/etl", "/core/streams/flights"


def put_topic(nodes: Nodes, partitions: int) -> None:
    """Decide the document of a topic, with its number of partitions only."""
    state = json.dump({"partitions": partitions})
    row = Row(0, 0, 1, "x", TOPIC, partitions, "PUT", 0, False, b"", b"", b"", state)
    nodes.documents[TOPIC] = row


def test_a_group_takes_new_partitions_of_its_topic() -> None:
    nodes = Nodes(topics_s=1.0)
    put_topic(nodes, 2)
    nodes.put(LINK, GroupState(parts={"flights": 2}).state())
    call = nodes.call(LINK, "groups-join", list(Join("x", MemberDetails())))
    assert not nodes.replies[call].code
    nodes.run(2.0)
    assert found(nodes).parts == {"flights": 2}
    put_topic(nodes, 3)
    nodes.run(1.5)
    group = found(nodes)
    assert (group.parts, group.generation) == ({"flights": 3}, 2)
    assert group.tenure["flights/2"].member == "x"
    call = nodes.call(LINK, "groups-pulse", list(Pulse("x", 1, 1, 1, ("flights/0", "flights/1"))))
    reply = reply_of(nodes.replies[call].result)
    assert isinstance(reply, Changed)
    assert set(reply.assigned) == {"flights/0", "flights/1", "flights/2"}


def test_a_deleted_topic_removes_no_partitions() -> None:
    nodes = Nodes(topics_s=1.0)
    nodes.put(LINK, GroupState(parts={"flights": 2}).state())
    nodes.run(2.5)
    assert found(nodes).parts == {"flights": 2}


def test_a_group_works_without_partitions_beyond_its_maximum() -> None:
    """Pinned: no update of the group was stored, so no member joined and no silent one left."""
    nodes = Nodes(topics_s=1.0)
    put_topic(nodes, PARTITIONS_MAX + 1)
    nodes.put(LINK, GroupState(parts={"flights": PARTITIONS_MAX}).state())
    nodes.run(2.5)
    call = nodes.call(LINK, "groups-join", list(Join("x", MemberDetails())))
    nodes.run(1.0)
    assert not nodes.replies[call].code
    assert found(nodes).parts == {"flights": PARTITIONS_MAX}


def found(nodes: Nodes) -> GroupState:
    return group_of(json.load(nodes.documents[LINK].state))
