"""Faults that simulations found: lost messages without a retry, and disks behind memory."""

from dataclasses import replace

import msgpack

from docstore.machines.effects import Give, Read
from docstore.machines.events import QueriesAnswered, Received, Tick, TurnEnded
from docstore.streams.effects import HIGH_NOT_KNOWN, Problem, Records
from docstore.streams.events import FetchAsked, ProduceAsked
from docstore.streams.figures import figures_of
from docstore.wire.streams_messages import (
    Acked,
    Adopt,
    Append,
    Attach,
    Notice,
    Produce,
    Produced,
    Resign,
)
from tests.docstore.streams.group import LINK, NAME, START_US, Group, online
from tests.memory.partition_ledger import PartitionLedger


def test_a_restarted_follower_knows_the_epochs_of_its_records() -> None:
    group = online(controller="c", least=2)
    group.produce("0", at="c")
    group.crash("a")
    group.run(1)
    assert group.document.leader == "b"
    # It has adopted the second epoch before there was any record of it.
    group.produce("1", at="c")
    group.crash("c")
    group.start("c")
    assert group.log("c").ballots == group.log("b").ballots
    assert [first for _, first in group.log("c").ballots] == [1, 2]


def test_a_lost_message_with_the_high_watermark_is_sent_again() -> None:
    group = Group("ab")
    group.create("ab", least=2)
    group.run(1)
    lost = []

    def drops(source: str, to: str, message: object) -> bool:
        if isinstance(message, Append) and not message.partitions[0][-1]:
            lost.append(message)
        return len(lost) == 1 and message is lost[0]

    group.drops = drops
    group.produce("0")
    group.run(1)
    assert lost
    assert group.log("b").high == 1


def test_a_lost_check_of_an_epoch_is_sent_again() -> None:
    group = Group("ab")
    group.create("ab", least=2)
    group.run(1)
    group.drops = lambda source, to, message: isinstance(message, Append)
    group.machines["a"].deferring.ask_all()
    request = group.produce("0")
    assert request not in group.outcomes
    group.drops = lambda source, to, message: False
    group.run(1)
    assert group.produced(request).base == 0


def test_a_leader_whose_log_is_damaged_resigns_until_it_is_replaced() -> None:
    group = Group("abc", tail_bytes=0)
    group.govern("c")
    group.create("abc", least=2)
    group.run(1)
    group.produce("0")
    group.produce("1")
    group.run(0.1)
    group.ledgers["a"].rot(NAME, 0)
    group.drops = lambda source, to, message: isinstance(message, Resign)
    group.fetch(0)
    group.drops = lambda source, to, message: False
    group.run(1)
    assert group.document.leader == "b"
    assert group.values() == ["0", "1"]


def test_a_follower_with_a_stalled_disk_delays_produces_no_longer_than_its_allowed_lag() -> None:
    group = Group("ab")
    group.create("ab", max_lag_ms=1_000)
    group.run(5)
    group.hold_disk("b")
    request = group.produce("0")
    group.run(0.5)
    assert len(group.document.lrs) == 2
    assert request not in group.outcomes
    group.run(1)
    assert [node for node, _ in group.document.lrs] == ["a"]
    assert group.produced(request).high == 1


def test_an_in_sync_follower_does_not_lag_after_a_quiet_time() -> None:
    group = Group("ab")
    group.create("ab", max_lag_ms=1_000)
    group.run(5)
    group.hold_disk("b")
    group.produce("0")
    group.run(0.1)
    group.release_disk("b")
    group.run(1)
    assert group.machines["a"].core.counters["shrunk"] == 0


def test_records_that_were_answered_before_the_turn_ended_are_not_appended() -> None:
    group = Group("a")
    group.create("a")
    group.run(0.5)
    leader, now = group.machines["a"], group.now
    body = msgpack.packb([None, b"0", None, None])
    leader.step(ProduceAsked(9, LINK, "committed", now + 0.3, (), 0, 1, body), now)
    late = leader.step(Tick(START_US), now + 0.4)
    assert [each.request for each in late if isinstance(each, Give)] == [9]
    leader.step(TurnEnded(), now + 0.4)
    assert group.log("a").end == 0


def test_an_adopt_message_for_an_earlier_copy_is_ignored() -> None:
    group = Group("ab")
    group.create("ab")
    group.run(1)
    epoch = group.document.epoch
    adopt = Adopt(NAME, epoch, "another", 0, 5, 0, 5, 0, ((((epoch, "a")), 1),), b"", ())
    group.feed("b", Received("a", adopt))
    assert (group.log("b").start, group.log("b").end) == (0, 0)


def test_a_replica_that_lost_its_disk_learns_its_partitions_after_a_lost_notice() -> None:
    group = Group("ab")
    group.create("ab")
    group.run(1)
    group.crash("b")
    group.ledgers["b"] = PartitionLedger()
    group.drops = lambda source, to, message: isinstance(message, Notice)
    group.start("b")
    group.run(2)
    group.drops = lambda source, to, message: False
    group.run(3)
    assert group.document.lrs == (("a", group.log("a").copy), ("b", group.log("b").copy))


def test_a_removed_replica_that_missed_it_is_filled_when_named_again() -> None:
    group = Group("ab")
    group.create("ab")
    group.run(1)
    leading = group.leading()
    del leading.followers["b"]
    group.machines["a"].leader.place(leading, group.document)
    group.machines["a"].leader.in_sync.watch(leading)
    group.produce("0")
    group.run(2)
    assert group.log("b").end == 1


def test_a_complete_follower_is_asked_again_when_its_first_answer_was_lost() -> None:
    group = Group("abc")
    group.create("abc")
    group.run(1)
    group.produce("0")
    group.run(0.5)
    group.drops = lambda source, to, message: source == "c" and isinstance(message, Acked)
    group.crash("a")
    group.run(0.2)
    assert group.document.leader == "b"
    group.drops = lambda source, to, message: False
    group.run(1)
    assert group.leading().followers["c"].has_joined


def test_an_answer_to_an_earlier_life_of_an_entry_node_is_ignored() -> None:
    group = Group("ab")
    group.create("ab")
    group.run(1)
    group.drops = lambda source, to, message: isinstance(message, Produced)
    group.produce("0", at="b")
    [late] = [message for _, _, message in group.said if isinstance(message, Produced)]
    group.crash("b")
    group.start("b")
    requests = [group.produce(str(number), at="b") for number in range(1, 100)]
    group.feed("b", Received("a", late))
    assert not group.outcomes.keys() & {*requests}


def test_a_new_leader_shows_no_lower_high_watermark_than_before() -> None:
    group = online(controller="c", least=2)
    # No replica gets the high watermark, or attaches to the next leader.
    group.drops = lambda source, to, message: (
        (isinstance(message, Append) and not message.partitions[0][-1])
        or isinstance(message, Attach)
    )
    request = group.produce("1", at="c")
    assert (group.produced(request).base, figures(group, "a")["hw"]) == (0, 1)
    group.crash("a")
    group.run(0.3)
    assert (group.document.leader, group.log("b").high) == ("b", 0)
    assert figures(group, "b")["hw"] is None
    read = group.fetch(at="b", isolation="uncommitted")
    assert isinstance(read, Records)
    assert (read.high, read.end) == (HIGH_NOT_KNOWN, 1)
    stored = group.produce("2", at="c", acks="leader")
    assert (group.produced(stored).high, group.produced(stored).end) == (HIGH_NOT_KNOWN, 2)
    group.drops = lambda source, to, message: False
    group.run(1)
    assert figures(group, "b")["hw"] == 2
    read = group.fetch(at="b")
    assert isinstance(read, Records)
    assert read.high == 2


def test_a_fetch_by_time_at_a_new_leader_returns_no_older_record() -> None:
    group = online(controller="c", least=2)
    group.drops = lambda source, to, message: (
        (isinstance(message, Append) and not message.partitions[0][-1])
        or isinstance(message, Attach)
    )
    group.produce("1", at="c")
    later_us = group.leading().log.last_us + 1
    group.crash("a")
    group.run(0.3)
    asked = FetchAsked(99, LINK, ("time", later_us), "committed", 1 << 20, group.now + 5)
    group.feed("b", asked)
    group.drops = lambda source, to, message: False
    group.run(1)
    group.produce("2", at="c")
    group.run(0.5)
    read = group.outcomes[99]
    assert isinstance(read, Records)
    assert (read.offset, read.high) == (1, 2)


def figures(group: Group, name: str) -> dict[str, object]:
    """Return the partition's figures at a leader."""
    return figures_of(group.machines[name].leader, [LINK]).partitions[LINK]


def test_a_numbered_produce_at_a_silent_leader_is_retried_at_the_next_one() -> None:
    group = online(controller="c")
    group.drops = lambda source, to, message: isinstance(message, Produce)
    numbered = group.produce("1", at="c", producer=("p", 1, 0))
    bare = group.produce("2", at="c")
    group.drops = lambda source, to, message: False
    group.silent.add("a")
    group.run(3)
    assert group.document.leader == "b"
    assert group.produced(numbered).base == 0
    assert bare not in group.outcomes
    group.run(3)
    assert group.problem(bare).unknown


def test_a_leader_that_missed_an_added_replica_learns_of_it_from_the_replica() -> None:
    group = Group("abc")
    group.govern("c")
    group.create("a")
    group.run(1)
    group.drops = lambda source, to, message: to == "a" and isinstance(message, Notice)
    after = replace(group.document, replicas=("a", "b"), adding=("b",))
    group.write(LINK, after.pack(), group.documents[LINK].version + 1)
    group.run(2)
    assert [node for node, _ in group.document.lrs] == ["a", "b"]


def test_a_pending_acknowledgement_is_not_sent_for_a_new_copy() -> None:
    """Rule RC5: the leader must not take it for the earlier copy, which had the record."""
    group = Group("ab")
    group.create("ab", least=1)
    group.run(1)
    group.hold_disk("b")
    group.produce("x")
    log = group.log("b")
    assert log.end == 1
    group.drops = lambda source, to, message: source == "a"  # It is not filled meanwhile.
    group.machines["b"].follower._begin_anew(log)
    group.said.clear()
    group.release_disk("b")
    acked = [
        (copy, end)
        for source, _, message in group.said
        if source == "b" and isinstance(message, Acked)
        for _, _, copy, end, _ in message.partitions
    ]
    assert (log.copy, 1) not in acked


def test_a_leader_refuses_an_unknown_producer_only_while_the_document_names_it() -> None:
    """Rule RN4. The other replicas have elected another leader, and it has not heard of it."""
    group = Group("abc")
    group.create("abc", least=2)
    group.run(1)
    request = group.produce("x", producer=("p", 0, 7))
    group.run(0.2)
    assert group.problem(request).code == "unknown-producer"
    group.govern("c")
    group.cut("a", "b")
    group.cut("a", "c")
    group.run(3)
    assert group.document.leader != "a"
    request = group.produce("x", producer=("p", 0, 7))
    group.run(10)
    assert group.problem(request).code == "no-leader"


def test_a_read_of_a_log_begun_anew_meanwhile_does_not_mix_both() -> None:
    group = Group("ab", tail_bytes=0)
    group.create("ab")
    group.run(1)
    group.produce("0")
    group.produce("1")
    group.run(0.1)
    machine, log = group.machines["a"], group.log("a")
    event = FetchAsked(9, LINK, ("offset", 0), "committed", 1 << 20, group.now)
    [look] = [each for each in machine.step(event, group.now) if isinstance(each, Read)]
    log.clear(0, b"")
    found = group.ledgers["a"].answer(look.query)
    [answer] = machine.step(QueriesAnswered([(look.token, found)]), group.now)
    assert isinstance(answer, Give)
    assert isinstance(answer.outcome, Problem)


def test_a_follower_of_a_later_leader_ignores_a_truncation_by_an_earlier_one() -> None:
    group = online(least=2)
    for value in ("0", "1", "2"):
        group.produce(value)
    group.run(0.2)
    follower, log = group.machines["b"], group.log("b")
    assert (log.high, log.end) == (3, 3)

    def adopt(epoch: int, common: int) -> Adopt:
        ballots = (*log.ballots, ((epoch, "c"), common + 1))
        rest = (common, 0, common, epoch, ballots, b"", ())
        return Adopt(NAME, epoch, log.copy, common, *rest)

    # The second unclean election chose a replica that has all of this log.
    [look] = [
        each
        for each in follower.step(Received("c", adopt(2, 1)), group.now)
        if isinstance(each, Read)
    ]
    follower.step(Received("c", adopt(3, 3)), group.now)
    assert log.joined == (3, "c")
    found = group.ledgers["b"].answer(look.query)
    follower.step(QueriesAnswered([(look.token, found)]), group.now)
    assert log.end == 3
