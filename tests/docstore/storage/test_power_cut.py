"""A power cut loses no acknowledged write, and shows none that was never submitted."""

import pytest

from tests.disk.power import cut_at_random
from tests.tiers import tiers


@pytest.mark.parametrize("seed", tiers(range(2), (2, 3), (4, 5)))
def test_nothing_acknowledged_is_lost(seed: int) -> None:
    outcome = cut_at_random(seed, 150)
    assert outcome.images > 100
    assert (outcome.lost, outcome.odd) == ([], [])


@pytest.mark.thorough
def test_a_build_that_does_not_sync_its_log_is_noticed() -> None:
    lost = [
        each for seed in range(6) for each in cut_at_random(seed, 50, synchronous="NORMAL").lost
    ]
    assert lost


@pytest.mark.slow
def test_two_hundred_thousand_images() -> None:
    images, seed = 0, 1000
    while images < 200_000:
        outcome = cut_at_random(seed, 200)
        assert (outcome.images > 0, outcome.lost, outcome.odd) == (True, [], []), f"seed {seed}"
        images += outcome.images
        seed += 1
