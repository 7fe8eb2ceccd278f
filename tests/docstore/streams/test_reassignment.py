"""Replicas that move: committed records never have one replica less."""

import pytest

from docstore.streams.events import CommandAsked
from docstore.wire.streams_messages import Notice
from tests.docstore.streams.group import LINK, NAME, TICK_S, Group, online


def moved(group: Group, seconds: float = 3) -> None:
    """Let time pass, and check that the document never has too few in-sync replicas."""
    before = len(group.history)
    group.run(seconds)
    assert all(len(each.lrs) >= each.min_in_sync for each in group.history[before:])


def test_a_replica_of_a_leaving_node_is_replaced_first() -> None:
    group = online("abcd", "abc", least=2)
    group.produce("1", "2", at="d")
    group.leavers = frozenset("c")
    assert group.machines["a"].duties.reassignment.blocks(0)
    moved(group)
    assert group.document.replicas == ("a", "b", "d")
    assert group.document.adding == group.document.leaving == ()
    assert NAME not in group.machines["c"].logs
    assert group.raw_log("d") == group.raw_log("a") != []
    assert not group.machines["a"].duties.reassignment.blocks(0)


def test_a_leaving_leader_resigns_once_its_replacement_is_in_sync() -> None:
    group = online("abcd", "abc", controller="d", least=2)
    group.produce("1", at="d")
    group.leavers = frozenset("a")
    moved(group)
    found = group.document
    assert set(found.replicas) == set("bcd")
    assert found.leader in found.replicas
    assert group.values() == ["1"]
    assert group.produced(group.produce("2", at="d")).base == 1


def test_a_leader_that_missed_two_moves_is_sent_the_second_again() -> None:
    group = online("abcd", "abc", controller="b", least=2)

    def drops(sender: str, to: str, message: object) -> bool:
        is_ours = sender == "b" and type(message) is Notice and "d" in dict(group.document.lrs)
        return is_ours and (to == "a" or (to == "c" and not group.document.adding))

    group.drops = drops
    group.feed("b", CommandAsked(900, LINK, ("place", tuple("abd"))))
    while group.document.replicas != ("a", "b", "d"):
        group.run(TICK_S)
        assert group.now < 20
    # The replica that has just left is to come back: the leader misses both.
    group.feed("b", CommandAsked(901, LINK, ("place", tuple("abc"))))
    group.run(1)
    assert (group.document.adding, group.document.leaving) == (("c",), ("d",))
    group.drops = lambda sender, to, message: False
    group.run(3)
    assert group.document.replicas == ("a", "b", "c")


def test_the_only_replica_of_a_partition_is_not_left_behind() -> None:
    group = online("ab", "a", controller="b")
    group.produce("1", at="b")
    group.leavers = frozenset("a")
    group.run(0.1)
    assert group.machines["b"].duties.reassignment.blocks(0)
    moved(group)
    assert group.document.replicas == ("b",)
    assert group.values() == ["1"]


def test_a_leaving_replica_without_a_replacement_stays() -> None:
    group = online("a")
    group.leavers = frozenset("a")
    group.run(1)
    assert group.document.replicas == ("a",)
    assert group.machines["a"].duties.reassignment.blocks(0)


def test_a_dead_leaver_holds_no_change_of_members_up_but_is_replaced() -> None:
    group = online("abcd", "abc", least=2)
    group.crash("c")
    group.leavers = frozenset("c")
    assert not group.machines["a"].duties.reassignment.blocks(0)
    moved(group)
    assert group.document.replicas == ("a", "b", "d")


def test_a_controller_that_has_not_read_all_its_documents_holds_a_change_up() -> None:
    group = online()
    group.answer_surveys = False
    group.govern("b")
    group.run(0.2)
    assert group.machines["b"].duties.reassignment.blocks(0)
    group.answer_surveys = True
    group.govern("b")
    group.run(0.2)
    assert not group.machines["b"].duties.reassignment.blocks(0)


def test_an_operator_moves_a_partition_to_replicas_in_the_given_order() -> None:
    group = online("abcd", "ab")
    group.feed("a", CommandAsked(1, LINK, ("place", ("d", "b"))))
    moved(group)
    assert group.document.replicas == ("d", "b")


@pytest.mark.parametrize("replicas", [(), ("a", "a"), ("a", "z")])
def test_replicas_that_cannot_be_are_refused(replicas: tuple[str, ...]) -> None:
    group = online("ab")
    group.feed("a", CommandAsked(1, LINK, ("place", replicas)))
    assert group.problem(1).status == 409


def test_a_later_controller_resumes_a_move() -> None:
    group = online("abcd", "bc", controller="a", least=2)
    group.hold_disk("d")
    group.leavers = frozenset("c")
    group.run(0.3)
    assert group.document.adding
    group.govern("b")
    group.release_disk("d")
    group.run(3)
    assert "c" not in group.document.replicas
    assert len(group.document.replicas) == 2


def begun(names: str, *, leaver: str) -> Group:
    """Return a group in which a partition moves from `leaver` to d, whose disk keeps nothing."""
    group = Group(names)
    group.create("abc", least=2)
    group.run(0.3)
    group.produce("1", at="b")
    group.hold_disk("d")
    group.leavers = frozenset(leaver)
    group.run(0.3)
    assert group.document.adding == ("d",)
    return group


def test_a_replica_is_moved_elsewhere_if_its_node_dies_before_it_is_filled() -> None:
    group = begun("abcde", leaver="c")
    group.crash("d")
    moved(group)
    assert group.document.replicas == ("a", "b", "e")
    assert group.document.adding == group.document.leaving == ()
    assert not group.machines["a"].duties.reassignment.blocks(0)


def test_a_replica_is_moved_elsewhere_if_its_node_leaves_before_it_is_filled() -> None:
    group = begun("abcde", leaver="c")
    group.leavers = frozenset("cd")
    moved(group)
    assert group.document.replicas == ("a", "b", "e")
    assert group.raw_log("e") == group.raw_log("a") != []


def test_a_move_ends_when_its_reason_does_with_the_new_node() -> None:
    group = begun("abcd", leaver="c")
    group.leavers = frozenset()
    group.names.remove("d")
    group.crash("d")
    moved(group)
    assert group.document.replicas == ("a", "b", "c")
    assert group.document.adding == group.document.leaving == ()


def test_a_placement_waits_for_a_dead_node_but_not_for_a_removed_one() -> None:
    group = online("abcd", "ab")
    group.hold_disk("d")
    group.feed("a", CommandAsked(1, LINK, ("place", ("a", "d"))))
    group.run(0.3)
    assert group.document.adding == ("d",)
    group.crash("d")
    moved(group)
    assert group.document.replicas == ("a", "b")
    group.start("d")
    moved(group)
    assert group.document.replicas == ("a", "d")
    group.crash("d")
    group.feed("a", CommandAsked(2, LINK, ("place", ("d", "b"))))
    group.names.remove("d")
    moved(group)
    assert "d" not in group.document.replicas


def test_the_preferred_leader_leads_again_after_some_time_in_sync() -> None:
    group = Group("abc", fail_back_s=2)
    group.govern("c")
    group.create("abc")
    group.run(0.3)
    group.crash("a")
    group.run(0.5)
    assert group.document.leader == "b"
    group.start("a")
    group.run(2)
    assert group.document.leader == "b"
    group.run(2.5)
    assert group.document.leader == "a"
    assert group.produced(group.produce("1", at="c")).base == 0


def test_a_stopping_node_hands_its_lead_over_and_waiting_produces_succeed() -> None:
    group = online(controller="c")
    group.drain("a")
    group.run(0.1)
    request = group.produce("1", at="a")
    group.run(1)
    assert group.document.leader == "b"
    assert group.produced(request).base == 0
    assert not group.machines["a"].deferring.leads_what_others_could
