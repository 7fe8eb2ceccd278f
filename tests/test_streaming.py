"""Streams in the simulator: no committed record is lost, duplicated or shown too early."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.docstore.streams import test_compaction, test_leader, test_worked_logs
from tests.sim.nemesis import BESIDE
from tests.sim.streaming import run
from tests.sim.streaming_ablations import AWAY, COMPACTED, MORE, RULES, UNCLEANLY, without
from tests.sim.streaming_shapes import CHANGES, UNCLEAN, Shape, shape_of

SEEDS_MAX = 40
"""Each change of messages changes which seeds notice; the first one that does is searched."""

# Rule -> the test of a few machines that fails without it: runs rarely meet its case.
NOTICED_BY: dict[str, Callable[[], None]] = {
    "elected-by-length-alone": (
        test_worked_logs.test_e_a_long_log_of_an_old_epoch_is_replaced_by_that_of_a_later_leader
    ),
    "outdated-replicas-go-on": (
        test_compaction.test_a_replica_with_records_whose_tombstones_are_gone_begins_anew
    ),
    "compacted-logs-are-cut": (
        test_compaction.test_a_compacted_log_begins_anew_after_an_unclean_election_that_would_cut_it
    ),
    "unknown-taken-for-refused": (
        test_leader.test_a_follower_whose_joining_is_of_unknown_fate_counts_until_that_is_known
    ),
}


def _as_pinned(seed: int, beside: tuple[str, ...] = BESIDE) -> Shape:
    """Return the shape that a seed had when it was pinned."""
    return replace(shape_of(seed, beside), deletes=False, cleanup="delete")


@pytest.mark.parametrize("seed", range(6))
def test_a_seed_on_a_register_breaks_nothing(seed: int) -> None:
    outcome = run(seed, shape_of(seed))
    assert (outcome.problems, outcome.stuck) == ([], [])
    assert outcome.counters["RI15"] > 50


@pytest.mark.parametrize("seed", range(6, 9))
def test_a_seed_beside_replicas_breaks_nothing(seed: int) -> None:
    outcome = run(seed, shape_of(seed), register=False)
    assert (outcome.problems, outcome.stuck) == ([], [])
    assert outcome.counters["RI15"] > 50


# The commit that pinned each of them describes its bug: rule RN4; a log that begins after the end
# of an uncleanly elected leader's log; an acknowledgement of a former copy of a log, sent under the
# name of its new copy; the state of producers after an unclean election cut below it; a replica
# whose node left before it was filled (rule RM2).
@pytest.mark.parametrize("seed", [101_084, 100_422, 100_228, 101_722, 101_385, 101_675])
def test_a_pinned_seed_breaks_nothing(seed: int) -> None:
    outcome = run(seed, _as_pinned(seed, beside=()), register=False)
    assert (outcome.problems, outcome.stuck) == ([], [])


# With two faults at a time: after rejected pre-votes an attempt waited 9.6 s for a lost promise
# (rule T4).
@pytest.mark.parametrize(("seed", "register"), [(610_045, False), (700_596, True)])
def test_a_pinned_seed_of_two_faults_at_a_time_breaks_nothing(seed: int, register: bool) -> None:
    outcome = run(seed, _as_pinned(seed), register=register)
    assert (outcome.problems, outcome.stuck) == ([], [])


# A follower that ended within the first batch of its leader, which compaction had joined; a node
# that left the group and came back, while too few other replicas were left (rule RM2); a follower
# that missed the deletion of all records, and led with an earlier time than theirs; a deletion that
# was answered with the start of a later one; a follower that read a truncated record from its disk.
@pytest.mark.thorough
@pytest.mark.parametrize(
    ("seed", "cleanup"),
    [
        (30_352, "compact"),
        (60_728, "compact"),
        (80_415, "compact"),
        (84_035, "compact,delete"),
        (91_880, "compact,delete"),
    ],
)
def test_a_pinned_seed_of_a_compacted_topic_breaks_nothing(seed: int, cleanup: str) -> None:
    outcome = run(seed, replace(shape_of(seed), cleanup=cleanup), register=bool(seed % 8))
    assert (outcome.problems, outcome.stuck) == ([], [])


@pytest.mark.thorough
def test_an_unclean_election_loses_only_records_its_leader_lacks() -> None:
    for seed in range(SEEDS_MAX):
        outcome = run(seed, UNCLEAN)
        assert (outcome.problems, outcome.stuck) == ([], [])
        if outcome.counters["lost by unclean elections"]:
            return
    raise AssertionError("none has lost anything")


@pytest.mark.thorough
@pytest.mark.parametrize("shape", [COMPACTED, AWAY, UNCLEANLY])
def test_compacted_topics_show_the_newest_record_of_each_key(shape: Shape) -> None:
    for seed in range(2):
        outcome = run(seed, shape)
        assert (outcome.problems, outcome.stuck) == ([], [])
        assert outcome.counters["compacted_records"] > 100


def test_nodes_join_and_leave_the_group_and_their_data_go_to_others_first() -> None:
    outcome = run(1, CHANGES, register=False)
    assert (outcome.problems, outcome.stuck) == ([], [])
    assert outcome.counters["nodes left out"] > 0
    assert outcome.counters["reassignments"] > 0


def test_without_faults_every_produce_is_answered_at_its_first_attempt() -> None:
    outcome = run(0, Shape(kinds=(), trouble=0.0, loss=0.0))
    assert (outcome.problems, outcome.stuck) == ([], [])
    assert outcome.counters["elections"] == 1


@pytest.mark.thorough
@pytest.mark.parametrize("rule", sorted(RULES.keys() - NOTICED_BY.keys() - MORE.keys()))
def test_a_missing_rule_is_noticed(rule: str) -> None:
    shape = RULES[rule].aim
    register = not shape.changes
    with without(rule):
        seed = next(
            seed for seed in range(SEEDS_MAX) if run(seed, shape, register=register).problems
        )
    whole = run(seed, shape, register=register)
    assert (whole.problems, whole.stuck) == ([], [])


@pytest.mark.parametrize("rule", sorted(NOTICED_BY))
def test_a_missing_rule_that_runs_seldom_need_fails_a_test(rule: str) -> None:
    NOTICED_BY[rule]()
    with without(rule), pytest.raises(AssertionError):
        NOTICED_BY[rule]()


@pytest.mark.thorough
@pytest.mark.parametrize("rule", sorted(MORE))
def test_a_missing_rule_that_breaks_no_promise_costs_more_elections(rule: str) -> None:
    shape, event = RULES[rule].aim, MORE[rule]

    def counted() -> int:
        outcomes = [run(seed, shape) for seed in range(5)]
        assert [(each.problems, each.stuck) for each in outcomes] == [([], [])] * 5
        return sum(each.counters[event] for each in outcomes)

    whole = counted()
    with without(rule):
        assert counted() > 2 * whole


def test_a_seed_is_played_the_same_way_again() -> None:
    assert run(3, shape_of(3)).counters == run(3, shape_of(3)).counters
