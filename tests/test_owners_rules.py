"""Each rule of ownership is needed: without it a seed breaks a promise, or a test fails."""

import re
from collections.abc import Callable, Iterator

import pytest

from tests.docstore.sessions import test_kafka_groups, test_leasing, test_moves
from tests.docstore.sessions.group import Group
from tests.sim.owners_rules import IDEAS, OF_THE_VOTE, ON_KAFKA, SEEDS_MAX, first_noticed
from tests.sim.sessions_ablations import RULES, without
from tests.source import ROOT

# Ablation -> the test that fails with it.
NOTICED_BY: dict[str, Callable[[], None]] = {
    # No belief is wrong: leases end though they were renewed in time.
    "deadlines-not-moved-after-a-pause": lambda: (
        test_leasing.test_s4_a_paused_node_reads_waiting_keep_alives_before_it_ends_leases(Group())
    ),
    # A pulse from before a grant must reach a new coordinator before any later pulse, while
    # another member joins: too rare for seeds.
    "released-though-to-stay": (
        test_moves.test_g3_a_late_pulse_from_before_a_grant_is_no_release_in_a_later_join
    ),
    # A deposed node must be deluded for longer than it takes to form a generation: seed 278.
    "kafka-answered-from-memory": (
        test_kafka_groups.test_kg1_a_deposed_coordinator_accepts_nothing
    ),
}
NAMES = [name for _, names in IDEAS for name in names]
FIRST = {
    "read-then-waiting": 368, "fenced-and-believing": 217, "swept-once": 110, "not-claimed": 58,
    "groups-updated-without-a-tag": 35,
}  # fmt: skip
"""Ablation -> the first seed that noticed it last, where that is far from 0."""


def by_seeds() -> Iterator[object]:
    """Yield the ablations that seeds notice; the longest are marked so."""
    for name in NAMES:
        if name == "answers-counted-from-receipt":
            yield pytest.param(name, marks=pytest.mark.slow)
        elif name in RULES.keys() - NOTICED_BY.keys():
            yield pytest.param(name, marks=pytest.mark.thorough)
        elif name not in NOTICED_BY:
            yield name


@pytest.mark.parametrize("name", list(by_seeds()))
def test_a_missing_rule_is_noticed_by_a_seed(name: str) -> None:
    first = FIRST.get(name, 0)
    assert first_noticed(name, (*range(first, SEEDS_MAX), *range(first))) is not None


@pytest.mark.parametrize("name", sorted(NOTICED_BY))
def test_a_missing_rule_that_seeds_rarely_need_fails_a_test(name: str) -> None:
    NOTICED_BY[name]()
    with without(name), pytest.raises(AssertionError):
        NOTICED_BY[name]()


def test_the_list_has_every_removable_rule_once() -> None:
    assert sorted(NAMES) == sorted([*RULES, *OF_THE_VOTE, *ON_KAFKA])


def test_the_page_has_the_list() -> None:
    page = (ROOT / "docs/testing.md").read_text("utf-8")
    rows = re.findall(r"^\| (\d+) \| (.+) \| (.*) \|$", page, re.MULTILINE)
    shown = [(int(number), idea, re.findall(r"`([\w-]+)`", names)) for number, idea, names in rows]
    assert shown == [(number, idea, [*names]) for number, (idea, names) in enumerate(IDEAS, 1)]
