"""Topics become partitions, and these follow their settings."""

from dataclasses import replace

import pytest

from docstore.machines.events import Noticed
from docstore.model.operation import Answer, Operation
from docstore.streams.provisioning import AT_ONCE, with_settings
from docstore.streams.replica_set import (
    ReplicaSet,
    Resolution,
    is_partition,
    partition_link,
    partition_name,
)
from docstore.streams.topic import Provision, Topic
from tests.docstore.streams.group import Group
from tests.docstore.streams.topics import TOPIC, ask, change, make, partitions, topic


def test_a_topic_gets_its_partitions_and_they_get_leaders() -> None:
    group = Group("abcd")
    make(group, 8, 3, min_in_sync=2, max_lag_ms=700, max_lag_records=9)
    group.run(1)
    assert topic(group).resolution is Provision.PROVISIONED
    found = partitions(group)
    assert list(found) == list(range(8))
    for each in found.values():
        assert (each.incarnation, len(each.replicas)) == ("i1", 3)
        assert (each.min_in_sync, each.max_lag_ms, each.max_lag_records) == (2, 700, 9)
        assert each.resolution is Resolution.ONLINE
        assert "a" not in each.replicas[1:-1], "it owns the documents, and should lead last"
    leaders = [each.replicas[0] for each in found.values()]
    assert {leaders.count(node) for node in "abcd"} == {2}


def test_f01_a_topic_waits_for_as_many_live_nodes_as_it_has_replicas() -> None:
    group = Group("abc")
    group.crash("c")
    make(group, 2, 3)
    group.run(0.5)
    assert topic(group).resolution is Provision.INSUFFICIENT
    assert not partitions(group)
    version = group.documents[TOPIC].version
    group.run(5)
    assert group.documents[TOPIC].version == version, "it waits in silence"
    group.start("c")
    group.run(0.5)
    assert topic(group).resolution is Provision.PROVISIONED
    assert [set(each.replicas) for each in partitions(group).values()] == [set("abc")] * 2


def test_a_node_that_leaves_is_given_no_replicas() -> None:
    group = Group("abcd")
    group.leavers = frozenset("b")
    make(group, 4, 3)
    assert {node for each in partitions(group).values() for node in each.replicas} == set("acd")
    group.leavers = frozenset("bc")
    change(group, partitions=5)
    assert topic(group).resolution is Provision.INSUFFICIENT
    assert len(partitions(group)) == 4


def test_a_topic_with_added_partitions_keeps_the_earlier_ones() -> None:
    group = Group("abc")
    make(group, 2)
    group.run(0.5)
    before = partitions(group)
    change(group, partitions=7)
    assert topic(group).resolution is Provision.PROVISIONED
    after = partitions(group)
    assert list(after) == list(range(7))
    assert after.items() >= before.items()


def test_settings_of_a_topic_reach_its_partitions() -> None:
    group = Group("abc")
    make(group, 2)
    group.run(0.5)
    change(group, minInSync=2, maxLag={"ms": 900, "records": 5})
    assert topic(group).resolution is Provision.PROVISIONED
    for number, each in partitions(group).items():
        assert (each.min_in_sync, each.max_lag_ms, each.max_lag_records) == (2, 900, 5)
        leader = group.machines[each.leader].leader
        name = partition_name(partition_link("t", number), "i1")
        assert leader.leading[name].least == 2


def test_a_change_of_min_in_sync_computes_eligible_replicas_anew() -> None:
    found = ReplicaSet(
        incarnation="i", replicas=("a", "b"), lrs=(("a", "1"),), elr=(("b", "1"),), min_in_sync=2
    )
    settings = Topic(name="t", incarnation="i", replication_factor=2, min_in_sync=1)
    assert with_settings(found, settings).elr == ()
    assert with_settings(found, Topic(name="t", incarnation="i", min_in_sync=2)) == found


@pytest.mark.parametrize("status", [503, 504, 429])
def test_failed_provisioning_updates_are_retried(status: int) -> None:
    group = Group("abc")
    attempts: dict[tuple[str, str], int] = {}

    def fails(operation: Operation) -> Answer | None:
        """Refuse each update once; what is undecided has been applied all the same."""
        key = (operation.verb, operation.link)
        attempts[key] = attempts.get(key, 0) + 1
        if attempts[key] > 1:
            return None
        if status == 504:
            group.apply(operation)
        return Answer(status, "x", unknown=status == 504)

    group.answer_updates = fails
    make(group, 3)
    group.run(2)
    assert topic(group).resolution is Provision.PROVISIONED
    assert list(partitions(group)) == [0, 1, 2]
    assert attempts["POST", partition_link("t", 0)] >= (1 if status == 504 else 2)
    assert not group.alarms


def test_a_new_controller_resumes_the_work_of_a_dead_one() -> None:
    group = Group("abcd")

    def dies(operation: Operation) -> Answer | None:
        is_late = operation.verb == "POST" and operation.link > partition_link("t", 4)
        return Answer(503, "no-quorum") if is_late or operation.link == TOPIC else None

    group.answer_updates = dies
    make(group, 8, 2)
    group.run(1)
    assert len(partitions(group)) == 5
    before = partitions(group)
    group.answer_updates = lambda operation: None
    group.crash("a")
    group.run(3)
    assert topic(group).resolution is Provision.PROVISIONED
    after = partitions(group)
    assert len(after) == 8
    assert {n: after[n].replicas for n in before} == {
        n: each.replicas for n, each in before.items()
    }


def test_only_the_controller_of_a_topic_creates_its_partitions() -> None:
    group = Group("abc")
    group.answer_updates = lambda operation: Answer(503, "no-quorum")
    make(group, 1)
    group.govern("b")
    group.run(0.2)
    assert {name for name in "abc" if group.machines[name].duties.provisioning._jobs} == {"b"}
    group.answer_updates = lambda operation: None
    group.feed("c", Noticed(group.documents[TOPIC]))
    assert not partitions(group)
    group.run(1)
    created = {name: each.core.counters["partitions_created"] for name, each in
               group.machines.items()}  # fmt: skip
    assert created == {"a": 0, "b": 1, "c": 0}
    assert not any(each.duties.provisioning._jobs for each in group.machines.values())


def test_a_topic_that_cannot_be_read_at_first_is_read_again() -> None:
    group = Group("abc")
    group.answer_updates = lambda operation: Answer(503, "no-quorum")
    make(group, 1)
    answer, failures = group._answer, 3

    def unreadable(name: str, operation: Operation) -> Answer:
        nonlocal failures
        failures -= operation.link == TOPIC
        return Answer(503, "x") if failures >= 0 else answer(name, operation)

    group._answer = unreadable  # type: ignore[method-assign]
    group.answer_updates = lambda operation: None
    group.govern("b")
    group.run(1)
    assert topic(group).resolution is Provision.PROVISIONED


def test_a_partition_that_was_marked_by_mistake_is_made_again() -> None:
    group = Group("abc")
    make(group, 1)
    group.run(0.5)
    link = partition_link("t", 0)
    row, found = group.documents[link], partitions(group)[0]
    marked = replace(found, resolution=Resolution.DELETED)
    group.write(link, marked.pack(), row.version + 1)
    change(group, partitions=2)
    group.run(3)
    assert topic(group).resolution is Provision.PROVISIONED
    assert [each.resolution for each in partitions(group).values()] == [Resolution.ONLINE] * 2


def test_a_topic_that_goes_while_its_partitions_are_made_leaves_none() -> None:
    group = Group("abc")
    answer, links = group._answer, [partition_link("t", n) for n in range(3)]

    def goes(name: str, operation: Operation) -> Answer:
        """Let the topic be deleted just before it is said that there is no partition."""
        row = group.documents[TOPIC]
        if operation.link in links and not row.deleted:
            group.write(TOPIC, row.state, row.version + 1, deleted=True)
        return answer(name, operation)

    group._answer = goes  # type: ignore[method-assign]
    make(group, 3)
    group.run(3)
    assert not partitions(group)


def test_a_deleted_topic_no_longer_waits_for_nodes() -> None:
    group = Group("abc")
    group.crash("c")
    make(group, 2, 3)
    ask(group, "DELETE")
    group.start("c")
    group.run(1)
    assert not partitions(group)
    assert not group.machines["a"].duties.provisioning._jobs


def test_provisioning_handles_a_limited_number_of_partitions_at_once() -> None:
    group = Group("abc")
    machine = group.machines["a"]
    most = 0

    def watches(operation: Operation) -> Answer | None:
        nonlocal most
        most = max(most, machine.duties.provisioning._under_way)
        return None

    group.answer_updates = watches
    make(group, 3 * AT_ONCE)
    assert most == AT_ONCE
    assert machine.duties.provisioning._under_way == 0
    assert len(partitions(group)) == 3 * AT_ONCE


def test_a_late_creation_does_not_restore_a_deleted_partition() -> None:
    group, made = Group("abc"), []
    group.answer_updates = made.append
    make(group, 1)
    group.run(0.5)
    ask(group, "DELETE")
    group.run(3)
    assert not partitions(group)
    late = [each for each in made if each.verb == "POST" and is_partition(each.link)]
    assert [group.apply(each).code for each in late] == ["marked-deleted"]


def test_a_former_controller_creates_no_partitions_of_a_deleted_topic() -> None:
    group = Group("abc")
    full = Answer(503, "no-quorum")
    group.answer_updates = lambda operation: full if operation.verb == "POST" else None
    make(group, 1)
    group.run(0.3)
    group.machines["a"].core.view.owns = lambda link: True  # type: ignore[method-assign]
    group.govern("b")
    ask(group, "DELETE")
    group.answer_updates = lambda operation: None
    group.run(1)
    assert not partitions(group)
