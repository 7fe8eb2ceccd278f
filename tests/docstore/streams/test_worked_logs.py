"""The worked checks 5.20 (c) to (g): logs after elections, and an old leader."""

from docstore.streams.replica_set import Resolution
from docstore.wire.streams_messages import Append, Notice
from tests.docstore.streams.group import online


def test_c_a_tail_that_was_not_committed_is_cut_at_the_end_that_two_logs_share() -> None:
    group = online(controller="c", least=2, max_lag_ms=3_600_000)
    for value in range(10):
        group.produce(str(value), at="c")
    group.run(0.1)
    group.cut("a", "b")
    group.cut("a", "c")
    for value in ("x", "y", "z"):
        group.produce(value, at="a", acks="leader", timeout_s=0.2)
    assert group.log("a").end == 13
    group.run(1)
    assert group.document.leader == "b"
    group.produce("10", "11", at="c")
    group.heal()
    group.run(1)
    assert [first for _, first in group.log("a").ballots] == [1, 11]
    assert group.log("a").high == group.log("a").end == 12
    assert group.raw_log("a") == group.raw_log("b")
    assert group.machines["a"].core.counters["cut"] == 1
    assert not group.alarms


def test_d_a_follower_whose_high_watermark_is_one_behind_keeps_the_record_over_a_restart() -> None:
    group = online("ab", controller="b")
    group.produce("0", at="b")
    group.run(0.1)
    group.produce("1", at="b")
    assert (group.log("b").end, group.log("b").high) == (2, 1)
    group.crash("b")
    group.start("b")
    assert group.log("b").end == 2
    group.crash("a")
    group.run(1.5)
    assert group.document.leader == "b"
    assert group.values() == ["0", "1"]


def test_e_a_long_log_of_an_old_epoch_is_replaced_by_that_of_a_later_leader() -> None:
    group = online("abcd", "abc", controller="d", least=3, max_lag_ms=3_600_000)
    group.drops = lambda source, to, message: source == "a" and isinstance(message, Append)
    for value in ("x", "y", "z"):
        group.produce(value, at="a", acks="leader", timeout_s=0.2)
    group.crash("a")
    group.run(0.5)
    assert group.document.leader == "b"
    request = group.produce("1", at="d", acks="leader")
    assert group.produced(request).base == 0
    group.drops = lambda source, to, message: source in "bc" and to == "a"
    group.start("a")
    group.crash("b")
    group.run(1)
    assert [group.log(name).end for name in "ac"] == [3, 1]
    assert group.document.leader == "c"
    group.drops = lambda source, to, message: False
    group.start("b")
    group.run(2)
    assert group.values() == ["1"]
    assert group.raw_log("a") == group.raw_log("b") == group.raw_log("c")


def test_f_a_paused_leader_is_refused_by_replicas_with_a_later_promise() -> None:
    group = online(controller="c")
    group.cut("a", "b")
    group.cut("a", "c")
    group.run(1)
    sleeper = group.machines["a"].leader.leading["t/0@i1"]
    assert sleeper.epoch < group.document.epoch
    group.drops = lambda source, to, message: isinstance(message, Notice) and to == "a"
    group.heal()
    for name in "bc":
        sleeper.followers[name].is_attached = True
        group.machines["a"].leader.catchup.ask(sleeper, sleeper.followers[name])
    group.run(1)
    assert "t/0@i1" not in group.machines["a"].leader.leading
    assert group.log("b").end == group.log("a").end == 0
    assert sum(group.machines[name].core.counters["fenced"] for name in "bc")


def test_g_a_leader_and_its_live_set_go_on_without_a_majority_until_one_of_them_dies() -> None:
    group = online("abcde", "ab", controller="c", least=1)
    for one in "ab":
        for other in "cde":
            group.cut(one, other)
    request = group.produce("1", at="a")
    assert group.produced(request).base == 0
    group.crash("b")
    group.run(1)
    waiting = group.produce("2", at="a", timeout_s=1)
    group.run(2)
    assert group.problem(waiting).unknown
    assert group.log("a").high == 1
    group.heal()
    group.run(1)
    assert group.document.resolution is Resolution.ONLINE
    assert group.log(group.document.leader).high == 2


def test_appends_of_an_earlier_epoch_are_refused_after_the_next_has_begun() -> None:
    group = online("ab")
    group.produce("1")
    log = group.log("b")
    before = log.end
    item = (log.name, 0, 0, 1, 1, 0, 0, ())
    group.machines["b"].follower.append("a", Append([item]))
    assert log.end == before
    assert group.machines["b"].core.counters["fenced"] == 1
