"""What must happen sometimes does: a simulation that never meets a case says nothing about it."""

from collections import Counter

import pytest

from tests.sim import branching
from tests.sim.profiles import aimed_at, profile_of
from tests.sim.run import Profile, run

OF_THE_PROTOCOL = frozenset(
    "adopts attempts_failed canvasses configurations_used confirm_rounds copied copy_pages cut"
    " decided disk_filled duplicates elected faulty fetches forwarded gaps handed_over leases_kept"
    " messages_of_later_configuration opened own_cut prepares prevotes prevotes_refused proposed"
    " purged refused reigns_ended resent steps_of_change successions trimmed yields"
    " I3 I5 I8 I9 I11 SL7 D3".split()
)
OF_WEAKER_LEVELS = frozenset(
    "acked conflicts executed in_conflict versions_spread versions_supplied".split()
)

EVERY = OF_THE_PROTOCOL | OF_WEAKER_LEVELS
RARE = ("own_cut", "successions")
"""Less than once in a hundred seeds of the usual shapes."""


def test_there_are_enough_of_them() -> None:
    assert len(EVERY) >= 40


@pytest.mark.thorough
def test_most_of_them_happen_at_once() -> None:
    counters: Counter[str] = Counter()
    for seed in range(60, 104):
        counters.update(run(seed, profile_of(seed, "both")).counters)
    for seed in range(60, 70):
        counters.update(branching.run(seed, branching.shape_of(seed)).counters)
    met = {name for name in EVERY if counters[name]}
    assert len(met) >= 40, sorted(EVERY - met)


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
