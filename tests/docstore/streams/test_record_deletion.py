"""Records that are deleted up to an offset, as a client asks for it."""

from itertools import count

import pytest

from docstore.machines.events import Received
from docstore.streams.effects import Deleted, Problem, Records
from docstore.streams.events import DeletionAsked
from docstore.streams.record_deletion import ALL_COMMITTED
from docstore.wire.streams_messages import Acked, Append
from tests.docstore.streams.group import LINK, NAME, Group

_requests = count(900)


def filled(names: str = "abc", records: int = 10, **times: float) -> Group:
    """Return a group with a partition of this many records, three in each batch."""
    group = Group(names, **times)
    group.create(names, max_lag_ms=3_600_000, least=2)
    group.run(0.3)
    for number in range(0, records, 3):
        group.produce(*map(str, range(number, min(number + 3, records))))
    group.run(0.3)
    return group


def delete(group: Group, before: int, *, at: str = "", timeout_s: float = 5.0) -> int:
    request = next(_requests)
    event = DeletionAsked(request, LINK, before, group.now + timeout_s)
    group.feed(at or group.document.leader, event)
    return request


def start_of(group: Group, request: int) -> int:
    outcome = group.outcomes[request]
    assert isinstance(outcome, Deleted), outcome
    return outcome.start


def test_the_records_below_an_offset_inside_a_batch_are_gone() -> None:
    group = filled()
    request = delete(group, 4)
    group.run(0.5)
    assert start_of(group, request) == 4
    assert [group.log(name).start for name in "abc"] == [4, 4, 4]
    assert group.values(4) == list(map(str, range(4, 10)))
    below = group.fetch(3)
    assert isinstance(below, Problem)
    assert (below.code, below.more["next"]) == ("offset-evicted", 4)
    assert len(group.raw_log("b")) == 3  # All but the first of four.


def test_all_committed_records_can_be_deleted_and_the_offsets_go_on() -> None:
    group = filled()
    request = delete(group, ALL_COMMITTED)
    group.run(0.5)
    assert start_of(group, request) == 10
    assert len(group.raw_log("a")) == 1  # The last one, for its time.
    group.crash("b")
    group.start("b")
    group.run(1)
    assert group.produced(group.produce("next")).base == 10
    assert group.log("b").end == 11


def test_a_deletion_is_answered_with_its_own_start_as_a_later_one_may_not_be_durable() -> None:
    group = filled()
    one, other = delete(group, 4), delete(group, 7)
    group.run(0.5)
    assert (start_of(group, one), start_of(group, other)) == (4, 7)


def test_a_follower_that_missed_a_deletion_of_all_records_keeps_the_last_time() -> None:
    group = filled()
    group.crash("b")
    delete(group, ALL_COMMITTED)
    group.run(0.5)
    group.crash("a")
    group.start("b")
    group.run(2)
    assert (group.document.leader, group.log("b").start) == ("c", 10)
    assert group.raw_log("b") == group.raw_log("c")
    assert group.log("b").last_us == group.log("c").last_us > 0


def test_a_deletion_below_the_start_changes_nothing() -> None:
    group = filled()
    delete(group, 7)
    group.run(0.5)
    request = delete(group, 2)
    group.run(0.5)
    assert start_of(group, request) == 7


def test_a_deletion_above_the_high_watermark_is_refused_by_name() -> None:
    group = filled()
    problem = group.problem(delete(group, 11))
    assert (problem.status, problem.code, problem.unknown) == (416, "offset-out-of-range", False)
    assert problem.more["hw"] == 10
    assert group.log("a").start == 0


def test_only_the_leader_deletes() -> None:
    group = filled()
    assert group.problem(delete(group, 4, at="b")).code == "not-leader"


def test_a_deletion_is_answered_once_it_is_on_the_disks_that_a_commit_needs() -> None:
    for name in "ab":
        group = filled()
        group.hold_disk(name)
        request = delete(group, 4)
        group.run(0.5)
        assert request not in group.outcomes
        group.release_disk(name)
        group.run(0.5)
        assert start_of(group, request) == 4


def test_an_acknowledgement_of_an_earlier_message_does_not_prove_the_start() -> None:
    group = filled()
    group.drops = lambda source, to, message: to == "b" and type(message) is Append
    request = delete(group, 4)
    group.run(0.4)
    group.feed("a", Received("b", Acked([(NAME, 1, group.log("b").copy, 10, 0)])))
    group.run(0.1)
    assert request not in group.outcomes


def test_a_deletion_that_too_few_replicas_have_by_the_deadline_is_undecided() -> None:
    group = filled()
    group.hold_disk("b")
    group.hold_disk("c")
    request = delete(group, 4, timeout_s=0.5)
    group.run(1)
    problem = group.problem(request)
    assert (problem.code, problem.unknown) == ("undecided", True)


def test_a_deletion_with_too_few_in_sync_is_refused() -> None:
    group = Group("ab", unlinked_s=0.1)
    group.create("ab", least=2)
    group.run(0.3)
    group.produce("1")
    group.cut("a", "b")
    group.run(1)
    assert [node for node, _ in group.document.lrs] == ["a"]
    assert group.problem(delete(group, 1)).code == "not-enough-replicas"
    assert group.log("a").start == 0


def test_a_deletion_is_of_unknown_fate_when_the_leader_steps_down() -> None:
    group = filled()
    group.hold_disk("b")
    request = delete(group, 4)
    group.machines["a"].roles.step_down(group.log("a"))
    group.run(0.1)
    problem = group.problem(request)
    assert (problem.code, problem.unknown) == ("not-leader", True)


@pytest.mark.parametrize("before", [4, ALL_COMMITTED])
def test_an_empty_replica_begins_where_the_records_begin(before: int) -> None:
    group = filled(tail_bytes=0)
    group.crash("c")
    group.run(0.5)
    delete(group, before)
    group.produce("last", producer=("p", 0, 0))
    group.run(0.5)
    group.ledgers["c"] = type(group.ledgers["c"])()
    group.start("c")
    group.run(2)
    assert (group.log("c").start, group.log("c").end) == (group.log("a").start, 11)
    assert group.raw_log("c") == group.raw_log("a")
    assert "c" in dict(group.document.lrs)


def test_a_replica_that_does_not_have_the_start_does_not_join_the_live_replica_set() -> None:
    group = filled()
    group.crash("c")
    group.run(1)
    assert "c" not in dict(group.document.lrs)
    delete(group, 4)
    group.run(0.5)

    def tells_start(source: str, to: str, message: object) -> bool:
        return to == "c" and type(message) is Append

    group.drops = tells_start
    group.start("c")
    group.run(2)
    assert group.log("c").end == 10
    assert "c" not in dict(group.document.lrs)
    group.drops = lambda *_: False
    group.run(2)
    assert group.log("c").start == 4
    assert "c" in dict(group.document.lrs)


def test_the_next_leader_begins_where_the_deletion_ended() -> None:
    group = filled()
    delete(group, 5)
    group.run(0.5)
    group.crash("a")
    group.run(2)
    assert group.document.leader in ("b", "c")
    found = group.fetch(5)
    assert isinstance(found, Records)
    assert found.start == 5


def test_many_batches_are_deleted_in_slices_also_over_a_restart() -> None:
    group = filled("ab", records=2_000)
    delete(group, 1_998)
    group.settle()
    assert len(group.raw_log("a")) == 667 - 256
    group.run(0.05)
    assert len(group.raw_log("b")) > 1
    group.crash("b")
    group.start("b")
    group.run(1)
    assert [len(group.raw_log(name)) for name in "ab"] == [1, 1]
