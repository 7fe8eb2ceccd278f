"""Topics take their partitions with them, and their names may be used again."""

from dataclasses import replace

from docstore.machines.events import Noticed
from docstore.model import json
from docstore.model.document import Row
from docstore.model.operation import Answer, Conditions, Operation
from docstore.streams.replica_set import ReplicaSet, Resolution, partition_link, replica_set_of
from docstore.streams.topic import Provision, Topic
from docstore.wire.streams_messages import Notice
from tests.docstore.streams.group import LINK, NAME, Group
from tests.docstore.streams.topics import TOPIC, ask, change, make, names, partitions, topic


def test_a_topic_takes_its_partitions_and_their_data_with_it() -> None:
    group = Group("abc", orphans_s=5.0)
    make(group, 2)
    group.run(0.5)
    assert any(machine.logs for machine in group.machines.values())
    ask(group, "DELETE")
    assert {each.resolution for each in partitions(group).values()} == {Resolution.DELETED}
    assert not any(machine.logs for machine in group.machines.values())
    group.run(0.5)
    assert len(partitions(group)) == 2, "for replicas that come in time"
    group.run(1)
    assert not partitions(group)
    machine = group.machines["a"]
    assert not machine.controller.governed
    assert not machine.duties.provisioning._jobs
    group.run(5)
    assert not machine.duties.topic_audit._links
    assert not machine.duties.topic_audit._looks


def test_a_name_may_be_used_again_at_once_and_means_another_topic() -> None:
    group = Group("abc")
    make(group, 2)
    group.run(0.5)
    ask(group, "DELETE")
    make(group, 1, incarnation="i2")
    group.run(1.5)
    assert topic(group).resolution is Provision.PROVISIONED
    found = partitions(group)
    assert list(found) == [0]
    assert (found[0].incarnation, found[0].resolution) == ("i2", Resolution.ONLINE)
    assert [names(group, node) for node in "abc"] == [{"t/0@i2"}] * 3


def test_a_leader_that_missed_the_deletion_of_its_partition_learns_it_from_an_update() -> None:
    group = Group("abc")
    make(group, 2)
    group.run(0.5)
    assert [each.leader for each in partitions(group).values()] == ["c", "b"]
    group.cut("b", "a")
    ask(group, "DELETE")
    make(group, 1, 2, incarnation="i2")
    group.run(1.5)
    assert topic(group).resolution is Provision.PROVISIONED
    group.heal()
    group.run(1)
    assert names(group, "b") == {"t/0@i1"}, "it keeps a replica that no message named"
    assert group.machines["b"].core.counters["updates"] < 50
    assert names(group, "c") == {"t/0@i2"}


def test_a_replica_that_missed_the_deletion_of_its_partition_checks_periodically() -> None:
    group = Group("abc", strays_s=20.0)
    make(group, 2)
    group.run(0.5)
    before = partitions(group)
    group.run(30)
    assert [len(names(group, node)) for node in "abc"] == [2, 2, 2]
    assert partitions(group) == before
    group.cut("b", "a")
    ask(group, "DELETE")
    group.run(1.5)
    group.heal()
    group.run(45)
    assert not any(names(group, node) for node in "abc")


def test_a_replica_of_an_earlier_topic_is_deleted_on_notice_of_the_next() -> None:
    group = Group("abc")
    make(group, 1)
    group.run(0.5)
    group.cut("b", "a")
    ask(group, "DELETE")
    group.run(1.5)
    group.heal()
    assert names(group, "b") == {"t/0@i1"}
    later = ReplicaSet(incarnation="i2", replicas=("c",))
    row = group.write(partition_link("t", 0), later.pack(), 99)
    group.feed("b", Noticed(row))
    group.run(0.2)
    assert names(group, "b") == set()


def test_partitions_of_a_topic_deleted_unnoticed_are_deleted() -> None:
    group = Group("abc", orphans_s=5.0)
    make(group, 2)
    group.run(0.5)
    group.documents[TOPIC] = group.documents[TOPIC]._replace(deleted=True, version=9)
    group.run(4)
    assert {each.resolution for each in partitions(group).values()} == {Resolution.ONLINE}
    group.run(3)
    assert not partitions(group)


def test_partitions_of_an_earlier_topic_of_that_name_are_found() -> None:
    group = Group("abc", orphans_s=5.0)
    make(group, 2)
    group.run(0.5)
    row = group.documents[TOPIC]
    later = Topic(name="t", incarnation="i2", partitions=1, resolution=Provision.PROVISIONED)
    group.documents[TOPIC] = row._replace(version=9, state=later.pack())
    group.run(7)
    assert not partitions(group)


def test_an_existing_or_unreadable_topic_keeps_its_partitions() -> None:
    group = Group("abc", orphans_s=1.0)
    make(group, 2)
    group.run(0.5)
    before = partitions(group)
    group.run(3)
    assert partitions(group) == before
    reads = group._answer

    def unreadable(name: str, operation: Operation) -> Answer:
        return Answer(503, "x") if operation.link == TOPIC else reads(name, operation)

    group._answer = unreadable  # type: ignore[method-assign]
    group.run(3)
    assert partitions(group) == before
    group._answer = reads  # type: ignore[method-assign]
    group.documents[TOPIC] = group.documents[TOPIC]._replace(deleted=True, version=9)
    group.run(3)
    assert not partitions(group)


def test_partitions_of_an_earlier_topic_are_replaced_after_their_replicas_delete_them() -> None:
    group = Group("abc")
    make(group, 1)
    group.run(0.5)
    link = partition_link("t", 0)
    deletes: list[tuple[Operation, Row]] = []

    def notes(operation: Operation) -> Answer | None:
        if operation.verb == "DELETE":
            deletes.append((operation, group.documents[link]))
        return None

    group.answer_updates = notes
    later = Topic(name="t", incarnation="i2", replication_factor=3)
    group.write(TOPIC, later.pack(), 9)  # No node saw the deletion of the earlier one.
    group.run(1)
    assert topic(group).resolution is Provision.PROVISIONED
    assert partitions(group)[0].incarnation == "i2"
    [(operation, row)] = deletes
    assert operation.conditions == Conditions(match=[[row.epoch, row.version]])
    assert replica_set_of(json.load(row.state)).resolution is Resolution.DELETED
    assert [names(group, node) for node in "abc"] == [{"t/0@i2"}] * 3


def test_an_echo_of_an_earlier_topic_does_not_change_the_later_partitions() -> None:
    group = Group("abc")
    make(group, 1)
    first = group.documents[TOPIC]
    pending = replace(topic(group), resolution=Provision.PENDING)
    ask(group, "DELETE")
    gone = group.documents[TOPIC]
    group.run(2)
    make(group, 1, incarnation="i2")
    group.run(1)
    before = partitions(group)
    assert before[0].incarnation == "i2"
    for echo in (first._replace(version=0, state=pending.pack()), first, gone):
        group.feed("a", Noticed(echo))
        group.run(1)
        assert partitions(group) == before
    assert not group.machines["a"].duties.provisioning._jobs


def test_a_partition_whose_settings_were_undone_gets_them_again() -> None:
    group = Group("abc", orphans_s=3.0)
    make(group, 2, min_in_sync=2)
    group.run(0.5)
    link, before = partition_link("t", 0), partitions(group)
    # Sent by an earlier controller of the topic, it arrives now.
    late = replace(before[0], min_in_sync=1, max_lag_ms=500)
    group.write(link, late.pack(), group.documents[link].version + 1)
    group.run(4)
    assert partitions(group) == before


def test_partitions_of_a_topic_that_is_worked_at_are_left_to_its_controller() -> None:
    group = Group("abc", orphans_s=1.0)
    make(group, 1)
    group.run(0.5)
    group.answer_updates = lambda operation: Answer(503, "no-quorum")
    change(group, minInSync=2)
    group.run(3)
    assert group.machines["a"].core.counters["updates"] > 1
    assert not group.machines["a"].controller.governed[partition_link("t", 0)].is_updating


def test_a_partition_of_a_deleted_topic_is_deleted_after_a_pending_change() -> None:
    group = Group("abc", orphans_s=1.0)
    make(group, 1)
    group.run(0.5)
    bodies: list[bytes] = []

    def fails(operation: Operation) -> Answer | None:
        bodies.append(operation.body)
        return Answer(503, "no-quorum")

    group.answer_updates = fails
    group.crash(partitions(group)[0].leader)
    assert "a" in group.machines, "it governs, and so does not lead"
    group.documents[TOPIC] = group.documents[TOPIC]._replace(deleted=True, version=9)
    group.run(3)
    said = {replica_set_of(json.load(body)).resolution for body in bodies}
    assert said == {Resolution.ELECTION}
    group.answer_updates = lambda operation: None
    group.run(3)
    assert not partitions(group)


def test_a_document_that_cannot_be_deleted_is_tried_again_in_a_while() -> None:
    group = Group("abc")
    make(group, 1)
    ask(group, "DELETE")
    attempts = 0

    def fails_twice(operation: Operation) -> Answer | None:
        nonlocal attempts
        attempts += operation.verb == "DELETE"
        return Answer(503, "no-quorum") if attempts < 3 else None

    group.answer_updates = fails_twice
    group.run(4)
    assert attempts == 1
    group.run(8)
    assert attempts == 3
    assert not partitions(group)


def test_a_deletion_is_learnt_from_its_answer() -> None:
    group = Group("abc")
    make(group, 1)
    ask(group, "DELETE")
    row = group.documents[partition_link("t", 0)]
    gone = row._replace(deleted=True, version=row.version + 1)
    group.answer_updates = lambda operation: Answer(200, row=gone)
    group.run(1.5)
    assert not group.machines["a"].controller.governed


def test_a_document_that_changed_since_it_was_marked_is_not_deleted() -> None:
    group = Group("abc")
    make(group, 1)
    group.run(0.5)
    link = partition_link("t", 0)
    deletes: list[Operation] = []

    def notes(operation: Operation) -> Answer | None:
        if operation.verb == "DELETE":
            deletes.append(operation)
        return None

    group.answer_updates = notes
    ask(group, "DELETE")
    tag = group.documents[link]
    group.run(1.5)
    assert [each.conditions for each in deletes] == [Conditions(match=[[tag.epoch, tag.version]])]


def test_a_partition_deleted_by_another_node_is_no_longer_governed() -> None:
    group = Group("abc")
    make(group, 1)
    ask(group, "DELETE")
    link = partition_link("t", 0)
    row: Row = group.documents[link]
    group.documents[link] = row._replace(deleted=True, version=row.version + 1)
    group.run(1.5)
    assert not group.machines["a"].controller.governed


def test_a_replica_of_a_deleted_partition_that_names_others_is_dropped_once() -> None:
    group = Group("abc", strays_s=1.0)
    group.govern("c")
    group.create("ab")
    group.run(1)
    group.drops = lambda source, to, message: to == "b" and isinstance(message, Notice)
    row = group.documents[LINK]
    left = tuple(copy for copy in group.document.lrs if copy[0] == "a")
    after = replace(group.document, replicas=("a", "c"), lrs=left, resolution=Resolution.DELETED)
    group.write(LINK, after.pack(), row.version + 1)
    group.run(3)
    assert NAME not in group.machines["b"].logs
    assert group.machines["b"].core.counters["dropped"] == 1
