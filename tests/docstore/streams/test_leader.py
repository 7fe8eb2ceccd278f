"""The leader's rules, each alone: acknowledgements, answers and waits."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from docstore.machines.events import Received
from docstore.model.operation import Answer, Operation
from docstore.model.streams_batch import KAFKA, body_of
from docstore.streams.effects import Records
from docstore.streams.leading import PendingAppend
from docstore.streams.replica_set import Resolution
from docstore.wire.streams_messages import (
    Acked,
    Adopt,
    Append,
    Fenced,
    Notice,
    Produce,
    Produced,
    Witness,
    Witnessed,
)
from tests.docstore.streams.group import LINK, NAME, Group, online
from tests.memory.partition_ledger import PartitionLedger

IN = {"max_lag_ms": 3_600_000}


def test_a_record_that_is_not_on_the_leaders_disk_is_not_committed() -> None:
    group = online()
    group.hold_disk("a")
    request = group.produce("1")
    assert group.log("b").durable == 1
    assert request not in group.outcomes
    group.release_disk("a")
    assert group.produced(request).base == 0


def test_a_record_that_is_not_on_a_followers_disk_is_not_acknowledged() -> None:
    group = online(**IN)
    group.hold_disk("b")
    request = group.produce("1")
    assert group.log("b").end == 1
    assert request not in group.outcomes
    group.release_disk("b")
    assert request in group.outcomes


def test_acks_of_the_leader_alone_answer_before_the_followers_have_it() -> None:
    group = online(**IN)
    group.hold_disk("b")
    assert group.produced(group.produce("1", acks="leader")).base == 0
    assert group.log("a").high == 0


def test_records_of_a_turn_are_one_batch_and_an_idempotent_request_has_its_own() -> None:
    group = online()
    group.machines["a"].leader.appending.end_turn()
    for value in "12":
        group.produce(value)
    assert len(group.raw_log("a")) == 2
    group.produce("3", "4", producer=("p", 0, 0))
    assert [len(group.values(at)) for at in (0, 2)] == [4, 2]


def test_each_record_batch_of_a_kafka_client_is_a_batch_of_its_own() -> None:
    group = online()
    group.machines["a"].leader.appending.end_turn()
    leading = group.leading()
    for value in "12":
        pending = PendingAppend("a", 0, "committed", 9.0, None, KAFKA, 1, value.encode())
        group.machines["a"].leader.appending.take(leading, pending)
    group.machines["a"].leader.appending.end_turn()
    assert [body_of(raw) for _, raw in leading.log.tail][-2:] == [b"1", b"2"]


def test_a_second_answer_to_an_attempt_resends_no_unnumbered_records() -> None:
    group = online()
    group.drops = lambda source, to, message: isinstance(message, Produce)
    group.produce("1", at="b")
    for _ in range(2):
        first = next(message for _, _, message in group.said if isinstance(message, Produce))
        refused = Produced(first.id, "not-leader", "", -1, 1, 0, 0, 0, "", appended=False)
        group.feed("b", Received("a", refused))
        group.run(0.3)
    assert sum(isinstance(message, Produce) for _, _, message in group.said) == 2


def test_a_repetition_waits_until_the_original_is_committed() -> None:
    group = online(**IN)
    group.hold_disk("b")
    first = group.produce("1", producer=("p", 0, 0))
    again = group.produce("1", producer=("p", 0, 0))
    assert first not in group.outcomes
    assert again not in group.outcomes
    group.release_disk("b")
    assert group.produced(first).base == group.produced(again).base == 0
    assert group.produced(again).code == "repeated"
    assert group.log("a").end == 1


def test_a_follower_that_is_being_removed_counts_until_its_removal_is_recorded() -> None:
    group = online()
    waiting: list[object] = []
    group.answer_updates = _never(waiting)
    group.cut("a", "c")
    group.produce("1")
    group.run(1)
    assert waiting
    assert group.log("a").high == 0
    group.answer_updates = lambda operation: None
    group.run(4)
    assert group.log("a").high == 1


def test_an_update_of_unknown_fate_is_made_again_and_was_made_once() -> None:
    group = online()
    lost: list[object] = []

    def applied_and_lost(operation: Operation) -> Answer | None:
        if lost:
            return None
        lost.append(operation)
        group.apply(operation)
        return Answer(504, "undecided", unknown=True)

    group.answer_updates = applied_and_lost
    group.cut("a", "c")
    group.produce("1")
    group.run(1.5)
    assert [node for node, _ in group.document.lrs] == ["a", "b"]
    assert group.log("a").high == 1
    assert [len(each.lrs) for each in group.history].count(2) == 1


def test_a_follower_whose_joining_is_of_unknown_fate_counts_until_that_is_known() -> None:
    group = online(**IN)
    group.govern("b")
    group.cut("a", "c")
    group.run(1)
    assert len(group.document.lrs) == 2
    group.drops = lambda source, to, message: isinstance(message, Notice)

    def applied_and_lost(operation: Operation) -> Answer:
        group.apply(operation)
        return Answer(504, "undecided", unknown=True)

    group.answer_updates = applied_and_lost
    group.heal()
    group.run(2)
    assert len(group.document.lrs) == 3
    group.hold_disk("c")
    request = group.produce("1")
    group.run(0.3)
    # Its leader does not know that the document names it, and it could be elected.
    assert len(group.leading().recorded) == 2
    assert request not in group.outcomes
    group.release_disk("c")
    assert group.produced(request).base == 0


def test_a_follower_that_joins_counts_from_before_it_is_recorded() -> None:
    group = online("ab")
    group.crash("b")
    group.run(1)
    assert [node for node, _ in group.document.lrs] == ["a"]
    waiting: list[object] = []
    group.answer_updates = _never(waiting)
    group.start("b")
    group.run(1.5)
    assert waiting
    group.drops = lambda source, to, message: isinstance(message, Append) and to == "b"
    group.produce("1")
    assert group.log("a").high == 0


def test_a_leader_whose_link_to_the_controller_alone_broke_is_spared_by_a_veto() -> None:
    group = online("abc", "ab", controller="c")
    group.cut("a", "c")
    group.run(1)
    assert group.document.leader == "a"
    assert group.machines["c"].core.counters["vetoes"]


def test_a_crashed_leader_is_replaced() -> None:
    group = online("abc", "ab", controller="c")
    group.crash("a")
    group.run(0.2)
    assert group.document.leader == "b"


def test_a_silent_witness_only_delays_an_election() -> None:
    group = online("abc", "ab", controller="c")
    group.drops = lambda source, to, message: isinstance(message, Witness | Witnessed)
    group.crash("a")
    group.run(0.5)
    assert group.document.leader == "a"
    group.run(1.5)
    assert group.document.leader == "b"


def test_a_restarted_leader_does_not_go_on_under_its_old_epoch() -> None:
    group = online(controller="c")
    before = group.document.epoch
    group.crash("a")
    group.start("a")
    group.run(0.5)
    assert group.document.epoch > before
    assert group.document.resolution is Resolution.ONLINE


def test_a_leader_whose_disk_keeps_nothing_resigns_and_is_passed_over() -> None:
    group = Group("abc", owner_timeout_s=60)
    group.govern("c")
    group.create("abc")
    group.run(0.3)
    group.hold_disk("a")
    group.produce("1", at="c", timeout_s=30)
    group.run(4)
    assert group.document.leader == "b"


def test_a_replica_whose_data_are_damaged_is_taken_out_and_filled_anew() -> None:
    group = online(least=2)
    for value in "123":
        group.produce(value)
    old = group.log("b").copy
    group.machines["b"].logs[NAME].tail.clear()
    group.machines["b"]._damaged(group.log("b"))
    group.settle()
    group.run(3)
    assert group.log("b").copy != old
    assert group.log("b").full
    assert ("b", group.log("b").copy) in group.document.lrs
    assert group.raw_log("b") == group.raw_log("a")
    assert any("checksum" in alarm for alarm in group.alarms)


def test_damage_that_no_client_reads_is_found_by_the_scrub() -> None:
    group = Group("abc", scrub_s=1)
    group.create("abc", least=2)
    group.run(0.3)
    for value in "123":
        group.produce(value)
    old = group.log("b").copy
    group.ledgers["b"].rot(NAME, 1)
    group.run(6)
    assert group.log("b").copy != old
    assert group.raw_log("b") == group.raw_log("a")


def test_a_leader_with_a_lost_disk_is_replaced_and_filled_anew() -> None:
    group = online()
    group.govern("b")
    group.run(0.3)
    group.crash("a")
    group.ledgers["a"] = PartitionLedger()
    group.drops = lambda source, to, message: isinstance(message, Notice) and source == "b"
    group.start("a")
    group.drops = lambda source, to, message: False
    group.run(5)
    assert group.document.leader != "a"
    assert ("a", group.log("a").copy) in group.document.lrs


def test_a_candidate_sends_no_adopt_before_its_promise_is_durable() -> None:
    group = Group("abc")
    group.govern("b")

    def hold(source: str, to: str, message: object) -> bool:
        if source == "a" and isinstance(message, Fenced) and not group.held_disks:
            group.hold_disk("a")
        return False

    def adopted() -> bool:
        return any(isinstance(message, Adopt) for source, _, message in group.said if source == "a")

    group.drops = hold
    group.create("abc")
    group.run(0.4)
    assert "a" in group.held_disks
    assert (group.document.candidate, group.machines["a"].leader.leading[NAME].epoch) == ("a", 1)
    assert not adopted()
    group.drops = lambda source, to, message: False
    group.release_disk("a")
    assert adopted()
    group.run(0.3)
    assert group.document.leader == "a"


def test_an_old_file_is_another_copy_with_a_head_start() -> None:
    group = online(least=2)
    group.produce("1")
    old = group.log("c").copy
    group.crash("c")
    group.start("c", is_old=True)
    group.run(0.1)
    assert group.log("c").copy != old
    assert ("c", group.log("c").copy) not in group.document.lrs
    group.run(2)
    assert ("c", group.log("c").copy) in group.document.lrs


@pytest.mark.parametrize("ending", [0, 7])
def test_reports_about_another_copy_or_epoch_count_for_nothing(ending: int) -> None:
    group = online(**IN)
    group.hold_disk("b")
    group.produce("1")
    leading = group.leading()
    copy = group.log("b").copy
    group.machines["a"].acknowledgements.acked(
        "b", Acked([(NAME, leading.epoch + 1, copy, 1, ending)])
    )
    group.machines["a"].acknowledgements.acked(
        "b", Acked([(NAME, leading.epoch, "other", 1, ending)])
    )
    assert group.log("a").high == 0


def test_a_record_names_the_leader_that_appended_it_after_a_change_of_leader() -> None:
    group = online()
    group.govern("c")
    group.produce("1")
    group.run(0.1)
    group.crash("a")
    group.run(0.3)
    group.produce("2", at="b")
    group.run(0.1)
    found = [group.fetch(offset, at="b") for offset in range(2)]
    assert [each.owner for each in found if isinstance(each, Records)] == ["a", "b"]


def test_a_recreated_topic_has_new_logs() -> None:
    group = online()
    group.produce("old")
    row = group.documents[LINK]
    again = replace(
        group.document, incarnation="i2", epoch=0, leader="", lrs=(), resolution=Resolution.OFFLINE
    )
    group.write(LINK, again.pack(), row.version + 1)
    group.settle()
    group.run(2)
    assert all(set(each.logs) == {"t/0@i2"} for each in group.machines.values())
    assert group.machines[group.document.leader].logs["t/0@i2"].end == 0


def _never(waiting: list[object]) -> Callable[[Operation], Answer]:
    """Answer no update, and apply none."""

    def answer(operation: Operation) -> Answer:
        waiting.append(operation)
        return Answer(504, "undecided", unknown=True)

    return answer
