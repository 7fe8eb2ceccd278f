"""Whole nodes in virtual time: the HTTP face, the links, the driver and the SQL, under faults."""

import os
import subprocess
import sys

import pytest

from tests.disk.journal_ablations import ablated
from tests.tiers import tiers
from tests.whole.alone import AloneAtLevel1, AloneAtLevel2
from tests.whole.declaring import Declaring
from tests.whole.holding import Holding, HoldingLong, HoldingLongOfFive, Nameless
from tests.whole.run import Run, run
from tests.whole.sessions import WITHOUT, Sessions, run_without
from tests.whole.spoiling import Spoiling
from tests.whole.walking import Walking, WalkingAtLevel1, WalkingAtLevel2

# Each of these once found a bug, which the commit that pinned it describes.
PINNED = (10_024,)
THOROUGH, SLOW = pytest.mark.thorough, pytest.mark.slow
# The first damages three disks: one start ends, and two find everything.
SPOILING = tiers([3], (2, 4), range(5, 9))


@pytest.mark.filterwarnings("ignore:coroutine")  # Coroutines of nodes that were killed.
@pytest.mark.parametrize("seed", tiers([1, *PINNED], range(2, 5), range(5, 9)))
def test_a_seed_breaks_nothing(seed: int) -> None:
    outcome = run(seed)
    assert outcome.problems == []
    assert outcome.stuck == []
    assert outcome.operations > 100
    assert outcome.faults.total() > 5


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("from tests.whole.run import run; print(run(3).trace)", marks=THOROUGH),
        pytest.param(
            "from tests.whole import sessions; sessions.SWEPT_S = 2.0;"  # It is quiet then.
            " print(sessions.run(5, sessions.Sessions).trace)",
            marks=THOROUGH,
        ),
    ],
)
def test_a_seed_replays_exactly_in_another_process(code: str) -> None:
    traces = {
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(traces) == 1
    assert traces != {""}


@pytest.mark.filterwarnings("ignore:coroutine")
@pytest.mark.parametrize("seed", tiers([], (1, 2), [3]))
def test_walks_miss_nothing_and_show_nothing_twice(seed: int) -> None:
    outcome = run(seed, Walking)
    assert outcome.problems == []
    assert outcome.operations > 100
    assert outcome.faults.total() > 5


@pytest.mark.parametrize("kind", tiers([], (WalkingAtLevel1, WalkingAtLevel2)))
def test_walks_at_the_weaker_levels_miss_nothing_that_is_everywhere(kind: type[Run]) -> None:
    outcome = run(1, kind)
    assert outcome.problems == []
    assert outcome.operations > 100


@pytest.mark.filterwarnings("ignore:coroutine")
@pytest.mark.parametrize("kind", tiers([AloneAtLevel2], [AloneAtLevel1]))
def test_the_weaker_levels_go_on_where_a_node_starts_alone(kind: type[Run]) -> None:
    outcome = run(1, kind)
    assert outcome.problems == []
    assert outcome.operations >= 3


# Seeds 1 and 4 notice each of two removed rules; the first is the quicker.
@pytest.mark.filterwarnings("ignore:coroutine")
@pytest.mark.parametrize("seed", tiers([], (1, 4)))
def test_all_nodes_enforce_an_acknowledged_declaration(
    seed: int,
) -> None:
    outcome = run(seed, Declaring)
    assert outcome.problems == []
    assert outcome.operations > 100
    assert outcome.faults.total() > 5


@pytest.mark.filterwarnings("ignore:coroutine")
@pytest.mark.parametrize("kind", tiers([Holding], (HoldingLong, HoldingLongOfFive)))
def test_while_any_directed_link_is_held_requests_end_within_seconds(kind: type[Run]) -> None:
    outcome = run(1, kind)
    assert (outcome.problems, outcome.stuck) == ([], [])
    assert outcome.operations > 100
    assert outcome.counters["detours"] >= outcome.faults["held"]


@THOROUGH
@pytest.mark.filterwarnings("ignore:coroutine")
def test_a_relay_that_speaks_in_its_own_name_is_noticed() -> None:
    assert run(1, Nameless).problems


# Wall clocks of nodes and of processes jump by an hour meanwhile, and all clocks have wrong rates.
@pytest.mark.filterwarnings("ignore:coroutine")
@pytest.mark.parametrize("seed", tiers([], range(4), range(4, 12)))
def test_leases_locks_and_roles_of_whole_nodes_are_believed_in_by_one_and_end_in_time(
    seed: int,
) -> None:
    outcome = run(seed, Sessions)
    assert (outcome.problems, outcome.stuck) == ([], [])
    assert min(outcome.counters[each] for each in ("SI1", "SI2", "F1", "SI5", "SI7", "SI8")) > 0
    assert outcome.operations > 100
    assert outcome.faults.total() > 5


@THOROUGH
@pytest.mark.filterwarnings("ignore:coroutine")
@pytest.mark.parametrize("rule", sorted(WITHOUT))
def test_a_rule_of_sessions_that_is_missing_in_whole_nodes_is_noticed(rule: str) -> None:
    first = 23 if rule == "ended-under-any-reign" else 0  # The first seed that notices it.
    assert any(run_without(rule, seed).problems for seed in range(first, first + 8))


@pytest.mark.filterwarnings("ignore:coroutine")
@pytest.mark.parametrize("seed", SPOILING)
def test_a_journal_that_rots_or_is_an_older_one_ends_its_node_or_is_whole(seed: int) -> None:
    outcome = run(seed, Spoiling)
    assert (outcome.problems, outcome.stuck) == ([], [])
    assert outcome.operations > 100
    assert outcome.counters["damaged"] + outcome.counters["whole"] > 0


@THOROUGH
@pytest.mark.filterwarnings("ignore:coroutine")
@pytest.mark.parametrize(
    ("rule", "first"), [("a-hole-is-a-tail", 15), ("a-missing-journal-is-none", 0)]
)
def test_damage_treated_as_whole_is_noticed(rule: str, first: int) -> None:
    with ablated(rule):
        assert any(run(seed, Spoiling).problems for seed in range(first, first + 12))


@SLOW
@pytest.mark.filterwarnings("ignore:coroutine")
@pytest.mark.parametrize(("kind", "enough"), [(Run, 5), (Spoiling, 3)])
def test_hours_of_virtual_time(kind: type[Run], enough: int) -> None:
    hours, seed = 0.0, 10_000
    while hours < enough:
        outcome = run(seed, kind)
        assert (outcome.problems, outcome.stuck) == ([], []), f"seed {seed}"
        hours += outcome.virtual_s / 3600
        seed += 1
