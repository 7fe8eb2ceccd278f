"""The acceptance lines of streams that concern the machine alone, by their numbers."""

from docstore.machines.events import Room
from docstore.streams.effects import Records
from docstore.streams.replica_set import Resolution
from docstore.streams.topic import Topic
from docstore.wire.streams_messages import Acked, Append, Notice, Promoted, Rejected
from tests.docstore.streams.group import LINK, NAME, Group, online

NEVER_OUT = {"max_lag_ms": 3_600_000}
"""No replica leaves the live replica set for its lag."""


def ends(group: Group) -> dict[str, tuple[int, int]]:
    """Return (log end, high watermark) at each node."""
    return {name: (group.log(name).end, group.log(name).high) for name in group.machines}


def test_f02_a_lone_leader_is_online_and_the_follower_joins_when_it_starts() -> None:
    group = Group("ab")
    group.crash("b")
    group.create("ab")
    group.run(0.5)
    assert group.document.resolution is Resolution.ONLINE
    assert [node for node, _ in group.document.lrs] == ["a"]
    follower = group.leading().followers["b"]
    assert ends(group) == {"a": (0, 0)}
    assert not follower.has_joined
    group.start("b")
    group.run(1.5)
    assert ends(group) == {"a": (0, 0), "b": (0, 0)}
    assert [node for node, _ in group.document.lrs] == ["a", "b"]


def test_f03_one_replica_commits_at_once() -> None:
    group = online("a")
    group.produce("1", "2")
    assert ends(group) == {"a": (2, 2)}


def test_f05_three_in_sync_replicas_hold_the_same_bytes() -> None:
    group = online()
    group.produce("1", "2")
    group.run(0.1)
    assert set(ends(group).values()) == {(2, 2)}
    assert group.raw_log("a") == group.raw_log("b") == group.raw_log("c") != []


def test_f06_the_high_watermark_advances_once_the_slowest_replica_is_dropped() -> None:
    group = online()
    group.produce("1", "2")
    group.cut("a", "c")
    group.produce("3")
    group.drops = lambda source, to, message: isinstance(message, Append) and to == "b"
    group.produce("4")
    assert [group.log(name).end for name in "abc"] == [4, 3, 2]
    assert group.log("a").high == 2
    group.run(0.5)
    assert [node for node, _ in group.document.lrs] == ["a", "b"]
    assert group.log("a").high == 3


def test_f07_the_high_watermark_is_the_least_end_of_the_live_replica_set() -> None:
    group = online(**NEVER_OUT)
    seen = []
    for held in ("", "b", "bc", ""):
        group.drops = lambda source, to, message, held=held: (
            isinstance(message, Append) and to in held
        )
        group.produce("x")
        group.run(0.6)
        seen.append((group.log("a").end, group.log("a").high))
    assert seen == [(1, 1), (2, 1), (3, 1), (4, 4)]


def test_f09_a_report_from_outside_the_replica_set_changes_nothing() -> None:
    group = online("abcd", "abc", **NEVER_OUT)
    group.hold_disk("b")
    group.produce("1")
    leading = group.leading()
    for sender, copy in (("d", "0" * 16), ("d", group.log("b").copy), ("b", "0" * 16)):
        item = (NAME, leading.epoch, copy, 1, 0)
        group.machines["a"].acknowledgements.acked(sender, Acked([item]))
    assert group.log("a").high == 0
    assert set(leading.followers) == {"b", "c"}


def test_f10_a_follower_with_a_newer_document_than_the_leader_is_refused_and_retries() -> None:
    group = Group("ab")
    group.drops = lambda source, to, message: isinstance(message, Notice) and to == "a"
    group.govern("b")
    group.create("ab")
    group.run(0.1)
    refused = [
        message.partitions[0][2]
        for source, to, message in group.said
        if isinstance(message, Rejected) and (source, to) == ("a", "b")
    ]
    assert set(refused) == {"not-leader"}
    group.drops = lambda source, to, message: False
    group.run(2)
    assert group.document.resolution is Resolution.ONLINE
    assert [node for node, _ in group.document.lrs] == ["a", "b"]


def test_f11_two_nodes_fail_in_turn_and_each_record_is_read_once() -> None:
    group = online("ab", controller="b", least=2)
    group.produce("msg1")
    group.run(0.1)
    group.crash("a")
    group.run(0.5)
    assert group.document.leader == "b"
    assert [node for node, _ in group.document.elr] == ["a"]
    group.produce("msg2", at="b", acks="leader")
    assert ends(group) == {"b": (2, 1)}
    group.start("a")
    group.run(1.5)
    assert ends(group)["b"] == (2, 2)
    group.crash("b")
    group.run(0.5)
    assert group.document.leader == "a"
    assert group.values() == ["msg1", "msg2"]


def test_f13_the_next_candidate_is_tried_and_offline_when_none_is_left() -> None:
    group = Group()
    group.drops = lambda source, to, message: isinstance(message, Promoted)
    group.govern("c")
    group.create("abc")
    group.controller = "c"
    group.machines["c"].core.draining = True  # It refuses to be a candidate.
    group.run(1.9)
    candidates = [each.candidate for each in group.history if each.candidate]
    assert candidates[:2] == ["a", "b"]
    assert Resolution.OFFLINE in [each.resolution for each in group.history[1:]]


def test_f14_only_a_member_of_the_live_replica_set_brings_a_partition_back() -> None:
    group = online("abcd", "abc", controller="d", least=2)
    group.crash("c")
    group.run(0.5)
    group.produce("1", at="d")
    group.crash("b")
    group.crash("a")
    group.run(1)
    assert group.document.resolution is Resolution.OFFLINE
    group.start("c")
    group.run(3)
    assert group.document.resolution is Resolution.OFFLINE
    before = len(group.history)
    group.start("b")
    group.run(1)
    steps = [each.resolution for each in group.history[before:]]
    assert steps[:3] == [Resolution.ELECTION, Resolution.CANDIDATE_FOUND, Resolution.ONLINE]
    assert group.document.leader == "b"
    assert group.log("b").end == 1


def test_f15_one_replica_comes_back_with_all_its_data() -> None:
    group = online("ab", "a", controller="b")
    group.produce("1", "2", at="b")
    group.crash("a")
    group.run(1)
    assert group.document.resolution is Resolution.OFFLINE
    group.start("a")
    group.run(1)
    assert group.document.resolution is Resolution.ONLINE
    assert group.values() == ["1", "2"]


def test_f19_a_follower_that_lags_far_behind_is_filled_in_slices() -> None:
    group = Group("ab", in_flight_bytes=1 << 20, tail_bytes=1 << 16)
    group.crash("b")
    group.create("ab")
    group.run(0.5)
    for _ in range(20):
        group.produce("x" * 200_000)
    group.said.clear()
    group.start("b")
    group.run(1)
    pages = [
        sum(map(len, item[7]))
        for _, to, message in group.said
        if isinstance(message, Append) and to == "b"
        for item in message.partitions
    ]
    assert len(pages) > 3
    assert max(pages) <= 1 << 20
    assert group.raw_log("a") == group.raw_log("b")


def test_f21_the_tail_of_a_leader_that_was_cut_off_is_truncated_and_never_seen() -> None:
    group = online(controller="c", least=2, **NEVER_OUT)
    group.produce("1", at="c")
    group.run(0.1)
    group.cut("a", "b")
    group.cut("a", "c")
    group.drops = lambda source, to, message: False
    lost = [group.produce(value, at="a", timeout_s=0.2) for value in ("x", "y", "z")]
    assert group.values(at="a") == ["1"]
    group.run(0.5)
    assert group.document.leader == "b"
    group.produce("2", at="c")
    group.produce("3", at="c")
    assert group.values(at="a") == ["1"]
    assert all(group.problem(each).unknown for each in lost)
    group.heal()
    group.run(2)
    assert group.raw_log("a") == group.raw_log("b") == group.raw_log("c")
    assert group.values() == ["1", "2", "3"]


def test_f22_committed_readers_stop_at_the_high_watermark() -> None:
    group = online(**NEVER_OUT)
    group.produce("0", "1", "2")
    group.drops = lambda source, to, message: isinstance(message, Append) and to == "b"
    group.produce("3", "4", timeout_s=0.1)
    assert (group.log("a").end, group.log("a").high) == (5, 3)
    assert group.values() == ["0", "1", "2"]
    assert group.values(isolation="uncommitted") == ["0", "1", "2", "3", "4"]


def test_f23_a_produce_with_too_few_in_sync_is_refused_and_a_retry_adds_nothing() -> None:
    group = Group("ab", fail_back_s=0)
    group.create("ab", least=2)
    group.run(0.3)
    group.drops = lambda source, to, message: isinstance(message, Append) and to == "b"
    first = group.produce("1", producer=("p", 0, 0), timeout_s=0.2)
    group.run(0.5)
    assert (group.problem(first).status, group.problem(first).unknown) == (504, True)
    group.crash("b")
    group.run(0.6)
    refused = group.produce("2", timeout_s=0.5)
    assert group.problem(refused).code == "not-enough-replicas"
    assert not group.problem(refused).unknown
    group.drops = lambda source, to, message: False
    group.start("b")
    group.run(1.5)
    again = group.produce("1", producer=("p", 0, 0))
    assert (group.produced(again).code, group.produced(again).base) == ("repeated", 0)
    assert group.values() == ["1"]


def test_f26_a_replica_with_a_wiped_disk_is_filled_before_it_is_in_sync_again() -> None:
    group = online(least=2)
    group.produce("1", "2")
    old = group.log("c").copy
    group.crash("c")
    group.ledgers["c"] = type(group.ledgers["c"])()
    seen: list[tuple[int, bool]] = []
    group.start("c")
    for _ in range(40):
        group.run(0.05)
        if NAME in group.machines["c"].logs:
            copy = ("c", group.log("c").copy)
            seen.append((group.log("c").durable, copy in group.document.lrs))
    assert group.log("c").copy != old
    assert ("c", old) not in group.document.lrs
    assert all(durable == 2 for durable, is_in in seen if is_in)
    assert seen[-1] == (2, True)


def test_f27_a_trimmed_offset_names_the_start_and_a_follower_begins_there() -> None:
    group = Group("ab", retention_s=0.2)
    group.crash("b")
    group.create("ab")
    group.documents["/core/streams/t"] = group.documents[LINK]._replace(
        state=Topic(name="t", incarnation="i1", retention_bytes=3000).pack(), link="/core/streams/t"
    )
    group.run(0.5)
    for number in range(10):
        group.produce(str(number) * 1000)
    group.run(1)
    start = group.log("a").start
    assert 0 < start < 10
    outcome = group.fetch(0)
    assert not isinstance(outcome, Records)
    assert (outcome.status, outcome.code, outcome.more["next"]) == (410, "offset-evicted", start)
    group.start("b")
    group.run(2)
    assert (group.log("b").start, group.log("b").end) == (start, 10)


def test_f30_a_full_disk_refuses_records_reads_go_on_and_room_brings_it_back() -> None:
    group = online("ab")
    group.produce("1")
    group.feed("a", Room(has_room=False))
    group.run(0.2)
    assert group.document.resolution is Resolution.OUT_OF_STORAGE
    refused = group.produce("2")
    assert group.problem(refused).code == "partition-full"
    assert group.values() == ["1"]
    group.feed("a", Room(has_room=True))
    group.run(0.2)
    assert group.document.resolution is Resolution.ONLINE
    assert group.produced(group.produce("2")).base == 1


def test_f31_a_paused_leader_appends_nothing_before_it_checks_its_epoch() -> None:
    group = online(controller="c", **NEVER_OUT)
    group.produce("1", at="c")
    group.cut("a", "b")
    group.cut("a", "c")
    stopped = group.machines.pop("a")
    group.run(2)
    assert group.document.leader == "b"
    group.produce("2", at="c")
    group.machines["a"] = stopped
    group.cuts.clear()
    request = group.produce("late", at="a")
    group.run(1)
    assert group.produced(request).base == 2
    assert group.values() == ["1", "2", "late"]
