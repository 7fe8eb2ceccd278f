"""Records trimmed at the start of a log, and the state that must outlast them."""

from docstore.model.streams_batch import BatchHeader
from docstore.streams.log import PartitionLog, common_offset
from docstore.streams.producer_state import REMEMBERED, ProducerState
from docstore.streams.topic import Topic
from docstore.wire.streams_messages import (
    Append,
)
from tests.docstore.streams.group import LINK, NAME, Group


def keep_little(group: Group) -> None:
    """Let the topic keep 3,000 bytes of a partition."""
    topic = Topic(name="t", incarnation="i1", retention_bytes=3000)
    row = group.documents[LINK]._replace(state=topic.pack(), link=topic.link)
    group.documents[topic.link] = row


def test_a_truncation_leaves_enough_producer_state() -> None:
    state, wanted = ProducerState(), ProducerState()
    for sequence in range(7):
        header = BatchHeader(sequence, 1, 1, 5, 5, "p", 0, sequence, 0, 80)
        state.note(header, high=6)
        if sequence < 6:
            wanted.note(header, high=6)
    state.cut(6)
    assert state.newest() == wanted.newest()
    assert len(state.newest()["p"]) == REMEMBERED


def test_a_stamp_of_two_days_ahead_makes_no_producer_forgotten() -> None:
    group = Group("a", snapshot_batches=1, save_s=0.1)
    group.create("a")
    group.run(0.5)
    first = group.produce("once", producer=("p", 0, 0))
    group.run(0.5)
    group.ahead_us = 2 * 86_400_000_000
    group.produce("later")
    group.run(0.5)
    again = group.produce("once", producer=("p", 0, 0))
    group.run(0.5)
    assert group.produced(again).base == group.produced(first).base
    assert group.log("a").end == 2


def test_a_follower_that_retention_passes_while_it_is_filled_begins_at_the_start() -> None:
    group = Group("ab", retention_s=0.2, tail_bytes=0, page_bytes=1, in_flight_bytes=1)
    group.create("ab")
    keep_little(group)
    group.run(0.5)
    group.hold_disk("b")
    for number in range(10):
        group.produce(str(number) * 1000)
    group.run(3)
    assert 0 < group.log("a").start < 10
    group.release_disk("b")
    group.run(2)
    assert (group.log("b").start, group.log("b").end) == (group.log("a").start, 10)
    assert group.log("b").high == group.log("a").high == 10


def test_a_leader_knows_producers_of_trimmed_records_after_a_restart() -> None:
    group = Group("a", retention_s=0.2)
    group.create("a")
    keep_little(group)
    group.run(0.5)
    group.produce("once", producer=("p", 0, 0))
    for number in range(10):
        group.produce(str(number) * 1000)
    group.run(1)
    assert group.log("a").start > 1
    group.crash("a")
    group.start("a")
    group.govern("a")
    group.run(2)
    assert group.produced(group.produce("once", producer=("p", 0, 0))).code == "repeated"


def test_a_replica_filled_from_the_start_knows_producers_of_trimmed_records() -> None:
    group = Group("ab", retention_s=0.2)
    group.crash("b")
    group.create("ab")
    keep_little(group)
    group.run(0.5)
    group.produce("once", producer=("p", 0, 0))
    for number in range(10):
        group.produce(str(number) * 1000)
    group.run(1)
    group.start("b")
    group.run(2)
    assert group.log("b").start > 1
    group.crash("a")
    group.run(2)
    assert group.document.leader == "b"
    assert group.produced(group.produce("once", at="b", producer=("p", 0, 0))).code == "repeated"


def test_a_large_partition_is_dropped_to_the_end_over_a_restart() -> None:
    group = large_group()
    group.drops = lambda source, to, message: to == "b"
    group.machines["b"].roles.drop(group.log("b"))
    group.settle()
    assert len(group.raw_log("b")) == 600 - 256
    group.crash("b")
    group.start("b")
    group.run(0.2)
    assert group.ledgers["b"].recovered(1).partitions == {}


def test_a_partition_begun_anew_while_it_is_dropped_has_no_old_records() -> None:
    group = large_group()
    group.machines["b"].roles.drop(group.log("b"))
    group.settle()
    group.machines["b"].replicas.begin(NAME)
    group.settle()
    assert group.raw_log("b") == []


def large_group() -> Group:
    """Return two replicas with 600 batches."""
    group = Group("ab")
    group.create("ab")
    group.run(1)
    for number in range(600):
        group.produce(str(number))
    return group


def test_a_log_that_ends_where_another_one_starts_has_all_of_it_in_common() -> None:
    old, new = PartitionLog(NAME, "x"), PartitionLog(NAME, "y")
    old.ballots, old.end = (((1, "a"), 1),), 137
    new.ballots, new.end, new.high = (((1, "a"), 1), ((2, "b"), 138)), 140, 137
    new.trim(137)
    assert common_offset(new.standing(4), old) == 137
    assert common_offset(old.standing(4), new) == 137


def test_a_replica_filled_from_the_start_has_it_as_the_common_offset() -> None:
    group = Group("ab", retention_s=0.2)
    group.crash("b")
    group.create("ab")
    keep_little(group)
    group.run(0.5)
    for number in range(10):
        group.produce(str(number) * 1000)
    group.run(1)
    group.drops = lambda source, to, message: to == "b" and isinstance(message, Append)
    group.start("b")
    group.run(0.1)
    assert group.log("b").end == group.log("a").start > 0
    assert common_offset(group.log("b").standing(1), group.log("a")) == group.log("a").start
