"""Rare events do happen: a simulation that never meets a case proves nothing about it."""

from collections import Counter

import pytest

from tests.sim import branching, sessions, sessions_shapes, streaming
from tests.sim.groups_ablations import LATE
from tests.sim.profiles import aimed_at, profile_of
from tests.sim.run import Profile, run
from tests.sim.streaming_shapes import AIMED, CHANGES, Shape, shape_of

OF_THE_PROTOCOL = frozenset(
    "adopts attempts_failed canvasses configurations_used confirm_rounds copied copy_pages cut"
    " decided disk_filled duplicates elected faulty fetches forwarded gaps handed_over leases_kept"
    " messages_of_later_configuration opened own_cut prepares prevotes prevotes_refused proposed"
    " purged refused reigns_ended resent steps_of_change successions took trimmed yields"
    " refused_for_replicas_room atomic_batches I13 I3 I5 I8 I9 I11 O8 SL7 SL9 D3".split()
)
OF_WEAKER_LEVELS = frozenset(
    "acked conflicts executed in_conflict versions_spread versions_supplied".split()
)
OF_SESSIONS = frozenset(
    "F1 SI1 SI2 SI3 SI4 SI5 SI6 SI7 SI8 acquired expired fences_refused freezes ghosts"
    " granted_again lapsed late_grants leads_handed_on lists_asked_for long_freezes"
    " members_expired members_fenced other_reign pauses promotions regained returns revoked"
    " swept_late told_gone turns_given_up updates_unknown".split()
)

OF_STREAMS = frozenset(
    "adopted begun_anew candidacies cut dropped fail_backs fenced grown next_candidates"
    " orphans probes reassignments recreated repeated resent resignations restarted_at_start"
    " shrunk told_again trimmed_records updates_unknown vetoes witness_rounds"
    " RI1 RI2 RI3 RI4 RI5 RI6 RI7 RI8 RI9 RI10 RI11 RI12 RI13 RI15 RI16 RI17 RI18 RI19"
    " RI20 RI21 RI22 RI23 deleted_records deletions compactions compacted_records".split()
).union(
    (
        "batches rotten", "disks taken", "elected outside the set", "lost uncommitted",
        "lost by unclean elections", "nodes left out", "producers begun anew", "RI17 refused",
        "unclean elections", "RI23 views",
    ),
    (f"fetch {code}" for code in "not-committed-yet offset-evicted offset-out-of-range".split()),
    (
        f"produce {code}"
        for code in "no-leader not-enough-replicas partition-full undecided sequence-gap"
        " unknown-producer".split()
    ),
    (
        f"elections because {why}"
        for why in (
            "its candidate did not answer", "its leader damaged", "its leader is gone",
            "its leader makes way", "its leader restarted", "a replica is back",
        )
    ),
)  # fmt: skip

EVERY = OF_THE_PROTOCOL | OF_WEAKER_LEVELS
RARE = ("own_cut", "refused_for_replicas_room", "successions", "took", "atomic_batches", "I13")
"""Rare in the usual shapes: others are aimed at them."""


def test_there_are_enough_of_them() -> None:
    assert len(EVERY) >= 40
    assert len(OF_STREAMS) >= 50
    assert AIMED.keys() <= OF_STREAMS


@pytest.mark.thorough
def test_most_of_them_happen_at_once() -> None:
    counters: Counter[str] = Counter()
    for seed in range(60, 70):
        counters.update(branching.run(seed, branching.shape_of(seed)).counters)
    for seed in range(60, 104):
        counters.update(run(seed, profile_of(seed, "both")).counters)
        if sum(counters[name] > 0 for name in EVERY) >= 40:
            return
    raise AssertionError(sorted(name for name in EVERY if not counters[name]))


@pytest.mark.thorough
def test_every_event_of_sessions_happens() -> None:
    counters: Counter[str] = Counter()
    for seed in range(60, 120):
        counters.update(sessions.run(seed, sessions_shapes.shape_of(seed)).counters)
        if all(counters[name] for name in OF_SESSIONS - {"late_grants"}):
            return
    assert {name for name in OF_SESSIONS if not counters[name]} <= {"late_grants"}


@pytest.mark.slow
def test_every_event_of_sessions_happens_a_hundred_times() -> None:
    counters: Counter[str] = Counter()
    for seed in range(30_000, 34_000):
        if all(counters[name] >= 100 for name in OF_SESSIONS):
            break
        usual = sessions_shapes.shape_of(seed)
        # Late grants are too rare for the usual shapes.
        for shape in (usual, LATE) if counters["late_grants"] < 100 else (usual,):
            outcome = sessions.run(seed, shape)
            assert (outcome.problems, outcome.stuck) == ([], []), seed
            counters.update(outcome.counters)
    assert {name: counters[name] for name in OF_SESSIONS if counters[name] < 100} == {}


@pytest.mark.slow
def test_each_of_them_happens_a_hundred_times() -> None:
    counters: Counter[str] = Counter()

    def play(seed: int, profile: Profile) -> None:
        outcome = run(seed, profile)
        assert (outcome.problems, outcome.stuck) == ([], []), seed
        counters.update(outcome.counters)

    for event in RARE:
        for number in range(30_000, 31_000):
            if counters[event] >= 100:
                break
            play(*aimed_at(event, number))
    for seed in range(30_000, 40_000):
        if all(counters[name] >= 100 for name in OF_THE_PROTOCOL):
            break
        play(seed, profile_of(seed, "both"))
    for seed in range(30_000, 30_200):
        outcome = branching.run(seed, branching.shape_of(seed))
        assert (outcome.problems, outcome.stuck) == ([], []), seed
        counters.update(outcome.counters)
    missed = {name: counters[name] for name in EVERY if counters[name] < 100}
    assert not missed


@pytest.mark.thorough
def test_most_of_those_of_streams_happen_at_once() -> None:
    counters: Counter[str] = Counter()
    for seed in range(60, 80):
        counters.update(streaming.run(seed, shape_of(seed)).counters)
        if all(counters[name] for name in OF_STREAMS - AIMED.keys()):
            return
    assert not {name for name in OF_STREAMS - AIMED.keys() if not counters[name]}


@pytest.mark.slow
def test_each_of_those_of_streams_happens_a_hundred_times() -> None:
    counters: Counter[str] = Counter()

    def play(seed: int, shape: Shape) -> None:
        outcome = streaming.run(seed, shape, register=shape is not CHANGES)
        assert (outcome.problems, outcome.stuck) == ([], []), seed
        counters.update(outcome.counters)

    for event, shape in AIMED.items():
        for seed in range(30_000, 31_000):
            if counters[event] >= 100:
                break
            play(seed, shape)
    for seed in range(30_000, 32_000):
        if all(counters[name] >= 100 for name in OF_STREAMS):
            break
        play(seed, shape_of(seed))
    missed = {name: counters[name] for name in OF_STREAMS if counters[name] < 100}
    assert not missed
