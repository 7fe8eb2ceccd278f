"""Storage of streams on a disk that loses power, or fails at its n-th call.

As in test_power_cut.py and test_nth_failure.py for documents: acknowledged writes are there,
unsubmitted ones are not, and no answer is wrong.
"""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from docstore.errors import StoreBroken
from docstore.storage import partition_writing
from docstore.storage.partition_writing import PartitionWriter
from tests.disk import stream_script
from tests.disk.failures import calls_of, error_of_disk, no_room, play, read_with_failure
from tests.disk.power import cut_at_random
from tests.tiers import tiers

SEEDS = tiers(range(2), range(2, 4), range(4, 12))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_power_cut_loses_no_acknowledged_batch(seed: int) -> None:
    outcome = cut_at_random(seed, 100, what=stream_script)
    assert outcome.images > 60
    assert (outcome.lost, outcome.odd) == ([], [])


def test_a_file_of_streams_that_is_not_synced_is_noticed() -> None:
    outcomes = [
        cut_at_random(seed, 40, synchronous="NORMAL", what=stream_script) for seed in range(3)
    ]
    assert [each for outcome in outcomes for each in outcome.lost]


def _every(seed: int, step: int) -> range:
    return range(1 + seed % step, calls_of(seed, what=stream_script) + 1, step)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("raises", [error_of_disk, no_room])
def test_a_failed_call_loses_nothing_and_keeps_no_half_commit(seed: int, raises: object) -> None:
    failed = 0
    for nth in _every(seed, 5):
        played = play(seed, nth, raises, what=stream_script)  # type: ignore[arg-type]
        assert played.problems == [], nth
        failed += played.failed
    assert failed > 5


@pytest.mark.parametrize("seed", SEEDS)
def test_a_failed_read_of_streams_gives_no_wrong_answer(seed: int) -> None:
    calls, _ = read_with_failure(seed, 0, what=stream_script)
    assert calls > 20
    for nth in range(1 + seed % 3, calls + 1, 3):
        assert read_with_failure(seed, nth, what=stream_script)[1] == [], nth


@pytest.mark.slow
def test_very_many_images_of_streams() -> None:
    images, seed = 0, 1000
    while images < 50_000:
        outcome = cut_at_random(seed, 200, what=stream_script)
        assert (outcome.images > 0, outcome.lost, outcome.odd) == (True, [], []), f"seed {seed}"
        images += outcome.images
        seed += 1


def test_an_error_of_the_log_is_a_store_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pinned: an error of `stat` came through unchanged, and no rule knew it."""
    monkeypatch.setattr(partition_writing, "COPY_BACK_PAGES", -1)
    with closing(sqlite3.connect(tmp_path / "streams.db", isolation_level=None)) as connection:
        writer = PartitionWriter(connection, tmp_path / ("x" * 300))
        writer.prepare(None)
        with pytest.raises(StoreBroken, match="too long"):
            writer.commit([])
