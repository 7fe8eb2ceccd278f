"""The n-th call of the disk fails, for every n: never a wrong row, never half a batch.

Source: SQLite's own tests ("fail at the n-th call, for every n").
"""

import pytest

from tests.disk.failures import calls_of, error_of_disk, no_room, play, read_with_failure
from tests.tiers import tiers

SCRIPTS = 12
SEEDS = tiers(range(2), range(2, 4), range(4, SCRIPTS))


def _every(seed: int, step: int) -> range:
    return range(1 + seed % step, calls_of(seed) + 1, step)


@pytest.mark.parametrize("seed", SEEDS)
def test_an_error_at_any_call_loses_nothing(seed: int) -> None:
    failed = 0
    for nth in _every(seed, 5):
        played = play(seed, nth, error_of_disk)
        assert played.problems == [], nth
        failed += played.failed
    assert failed > 10


@pytest.mark.parametrize("seed", SEEDS)
def test_a_write_without_room_keeps_nothing_of_the_batch(seed: int) -> None:
    failed = 0
    for nth in _every(seed, 5):
        played = play(seed, nth, no_room)
        assert played.problems == [], nth
        failed += played.failed
    assert failed > 5


@pytest.mark.parametrize("seed", range(3))
def test_a_failed_read_gives_no_wrong_answer(seed: int) -> None:
    calls, _ = read_with_failure(seed, 0)
    assert calls > 50
    for nth in range(1 + seed, calls + 1, 7):
        assert read_with_failure(seed, nth)[1] == [], nth


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(SCRIPTS))
def test_every_single_call(seed: int) -> None:
    for nth in _every(seed, 1):
        for raises in (error_of_disk, no_room):
            assert play(seed, nth, raises).problems == [], nth
    for nth in range(1, read_with_failure(seed, 0)[0] + 1):
        assert read_with_failure(seed, nth)[1] == [], nth
