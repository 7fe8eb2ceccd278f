"""The journal alone, lap after lap: the power is cut at any moment, or the n-th call fails."""

import pytest

from tests.disk.laps import cut_laps_at_random, fail_at


@pytest.mark.parametrize("seed", range(4))
def test_nothing_acknowledged_is_lost(seed: int) -> None:
    outcome = cut_laps_at_random(seed, 400)
    assert outcome.images >= 400
    assert (outcome.lost, outcome.odd) == ([], [])


@pytest.mark.slow
def test_fifty_thousand_images() -> None:
    images, seed = 0, 1000
    while images < 50_000:
        outcome = cut_laps_at_random(seed, 500)
        assert (outcome.lost, outcome.odd) == ([], []), f"seed {seed}"
        images += outcome.images
        seed += 1


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_a_restart_after_any_failed_call_finds_the_acknowledged_entries(
    seed: int, full: bool
) -> None:
    calls, _ = fail_at(seed, 1 << 60, full=full)
    assert calls > 30
    for nth in range(1, calls + 1):
        assert fail_at(seed, nth, full=full)[1] == [], nth
