"""The simulator, briefly: seeds, replays, removed rules, and the checkers against an oracle."""

import os
import subprocess
import sys
from collections.abc import Callable
from random import Random

import pytest

from tests.docstore.documents import (
    test_counted,
    test_instants,
    test_lease,
    test_replica,
    test_slow_disks,
    test_took,
)
from tests.sim.__main__ import main
from tests.sim.ablations import ABLATIONS, SEED_PROTOCOL, ablated
from tests.sim.checkers import Event, by_trying, by_version, by_zones
from tests.sim.nemesis import BESIDE
from tests.sim.profiles import FULL_DISKS, profile_of
from tests.sim.run import Profile, run

# Each of these once found a bug, which the commit that pinned it describes.
PINNED = (
    *(71, 135, 193, 281, 664, 689, 1113, 6856, 6890, 10229, 10435),
    *(830685, 832695, 832841, 850915, 20003345),
)

# Ablation -> a seed of its own profile that notices it, so that a short run need not search.
CAUGHT_BY = {
    "a-batch-of-several-times": 0,
    "a-batch-without-the-refused": 0,
    "an-instant-as-it-is-decided": 0,
    "an-instant-stays-open": 1,
    "pages-that-part-batches": 0,
    "leases-for-ever": 0,
    "leases-not-kept": 46,
    "past-by-the-clocks-of-the-living": 0,
    "purge-what-others-lack": 9,
    "purge-without-floor": 0,
    "trim-before-counts-are-known": 2,
    "keys-end-with-a-start": 45,
    "trim-what-a-key-asks-for": 11,
    "trim-what-is-counted": 0,
    "trim-what-others-lack": 2,
    "joint-left-before-all-is-open": 6,
    "newcomers-begin-full": 5,
    "no-joint-phase": 9,
    "reigns-outlive-a-change": 0,
    "two-votes-in-a-generation": 1,
    "accept-over-a-hole": 44,
    "adopt-cuts-twice": 252,
    "ballots-without-owner": 681,
    "forget-operations": 0,
    "local-read": 5,
    "longest-log-as-base": 114,
    "no-promise-check": 11,
    "old-ballot-after-restart": 12,
    "older-rows-not-looked-at": 13,
    "waiting-operations-not-looked-for-again": 36,
    "one-promise": 0,
    "own-log-as-base": 1,
    "past-before-disk": 1,
    "quorum-of-the-living": 0,
    "recreate-restarts-numbers": 0,
    "retry-without-identity": 0,
    "rows-that-most-disks-cannot-take": 2,
    "tell-before-disk": 0,
    "took-though-one-gapped": 10,
    "unknown-told-as-refused": 2,
}

# Ablation -> the test that fails with it: it needs a coincidence that seeds do not meet in time.
NOTICED_BY: dict[str, Callable[[], None]] = {
    "an-instant-dies-with-its-owner": (
        test_instants.test_a_replica_that_has_lost_its_notes_goes_by_its_clock
    ),
    # A second line: with every slot opened anew in each step (M3), the ballots fence as well.
    "any-configuration-counts": (
        test_replica.test_a_follower_of_an_older_configuration_gets_the_newer_and_is_not_counted
    ),
    "count-before-adoption": test_replica.test_a_gap_is_answered_with_the_end_of_the_log,
    "dirty-read": test_slow_disks.test_an_undecided_row_is_not_read,
    "leases-forgotten-at-start": (
        test_lease.test_a_replica_promises_nothing_after_a_start_for_one_lease
    ),
    "leases-from-the-answer": test_lease.test_a_lease_counts_from_the_question,
    "one-number-for-what-was-split": (
        test_took.test_each_part_of_a_message_that_was_split_is_acknowledged_by_itself
    ),
    "past-beyond-the-count": (test_counted.test_the_past_has_as_many_versions_as_the_factory_says),
    "took-without-its-start": test_took.test_an_answer_to_an_earlier_start_counts_for_nothing,
    "open-before-quorum-at-base": (
        test_replica.test_a_term_opens_when_a_quorum_has_reached_its_base
    ),
}


@pytest.mark.parametrize("seed", [*range(24), *PINNED])
def test_a_seed_breaks_nothing(seed: int) -> None:
    outcome = run(seed, profile_of(seed, "both", beside=() if seed in PINNED else BESIDE))
    assert outcome.problems == []
    assert outcome.stuck == []
    assert outcome.operations > 100


def test_the_command_plays_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["tests.sim", "--seed", "24", "--seeds", "20"])
    assert main() == 0


@pytest.mark.parametrize("seed", range(8))
def test_batches_break_nothing(seed: int) -> None:
    outcome = run(seed, profile_of(seed, "batches"))
    assert outcome.problems == []
    assert outcome.stuck == []


# Seed 10: a copy that was stored up to within a batch was read once the rest had arrived.
# In seed 2 clients read the past at one time, in seed 5 also while a clock is behind.
MORE_BATCHES = [pytest.param(n, BESIDE, marks=pytest.mark.thorough) for n in (1, 2, 5)]


@pytest.mark.parametrize(("seed", "beside"), [(0, BESIDE), (10, ()), *MORE_BATCHES])
def test_atomic_batches_are_carried_out_as_a_whole(seed: int, beside: tuple[str, ...]) -> None:
    outcome = run(seed, profile_of(seed, "atomic", beside))
    assert outcome.problems == []
    assert outcome.stuck == []
    assert outcome.counters["atomic_batches"] > 20


@pytest.mark.parametrize("seed", [0, 1])
def test_a_batch_that_is_repeated_under_its_key_is_carried_out_once(seed: int) -> None:
    outcome = run(seed, profile_of(seed, "keyed"))
    assert outcome.problems == []
    assert outcome.stuck == []
    assert outcome.counters["duplicates"] > 10


# Seed 5082: an echo was applied once more by an owner whose disk had filled meanwhile.
@pytest.mark.parametrize("seed", [*range(3), 5082])
def test_full_disks_break_nothing(seed: int) -> None:
    outcome = run(seed, FULL_DISKS)
    assert outcome.problems == []
    assert outcome.stuck == []


@pytest.mark.thorough
@pytest.mark.parametrize("name", sorted(CAUGHT_BY))
def test_a_missing_rule_is_noticed(name: str) -> None:
    seed, profile = CAUGHT_BY[name], ABLATIONS[name].aim
    with ablated(name):
        broken = run(seed, profile)
    assert broken.problems or broken.stuck
    whole = run(seed, profile)
    assert (whole.problems, whole.stuck) == ([], [])


@pytest.mark.parametrize("name", sorted(NOTICED_BY))
def test_a_missing_rule_that_seeds_rarely_need_fails_a_test(name: str) -> None:
    NOTICED_BY[name]()
    with ablated(name), pytest.raises((AssertionError, ValueError)):
        NOTICED_BY[name]()


def test_every_rule_that_can_be_removed_is_noticed_by_a_test() -> None:
    assert sorted([*CAUGHT_BY, *NOTICED_BY]) == sorted(ABLATIONS)
    assert len(CAUGHT_BY) >= 20


@pytest.mark.thorough
def test_the_first_protocol_fails_in_almost_every_seed() -> None:
    with ablated(*SEED_PROTOCOL):
        outcomes = [run(seed, Profile()) for seed in range(20)]
    bad = sum(bool(outcome.problems or outcome.stuck) for outcome in outcomes)
    assert bad >= 18


def test_a_seed_replays_exactly_in_another_process() -> None:
    code = "from tests.sim.run import *; print(run(7, Profile(faults_s=4.0)).trace)"
    traces = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(traces) == 1
    assert run(7, Profile(faults_s=4.0)).trace == traces.pop().strip()


def _history(rng: Random) -> list[Event]:
    """Return a linearizable history of one register, with a few operations that overlap."""
    now, version, events = 0.0, -1, []
    for _ in range(rng.randrange(2, 9)):
        now += rng.random()
        is_write = rng.random() < 0.5
        version += is_write
        events.append(Event(is_write, now - rng.random() * 1.5, now + rng.random() * 1.5, version))
    return events


def _mutated(rng: Random, events: list[Event]) -> list[Event]:
    """Return the history with one read that saw another value, or happened at another time."""
    reads = [index for index, event in enumerate(events) if not event.is_write]
    if not reads:
        return events
    index = rng.choice(reads)
    event = events[index]
    latest = max(each.version for each in events)
    shift = rng.choice((-2.0, 0.0, 2.0))
    wrong = Event(False, event.start + shift, event.end + shift, rng.randint(-1, latest))
    return [*events[:index], wrong, *events[index + 1 :]]


def _agree(count: int) -> int:
    """Compare both checkers with the oracle; return how many histories were wrong."""
    wrong = 0
    for seed in range(count):
        rng = Random(seed)
        events = _history(rng)
        if seed % 2:
            events = _mutated(rng, events)
        fits = by_trying(events)
        assert (by_zones(events) is None) == fits, f"zones, seed {seed}"
        # Versions are stricter than values: another order than theirs may fit.
        assert by_version(events) is not None or fits, f"versions, seed {seed}"
        wrong += not fits
    return wrong


def test_the_checkers_agree_with_trying_everything() -> None:
    assert _agree(1500) > 150


@pytest.mark.slow
def test_the_checkers_agree_on_ten_thousand_histories() -> None:
    assert _agree(10_000) > 1000
