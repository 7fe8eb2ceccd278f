"""The journal alone, round after round: power goes at any moment, or the n-th call fails."""

from collections.abc import Callable, Sequence

import pytest

from docstore.storage import journal
from docstore.storage.ring import Ring
from tests.disk.files import DiskOfFiles
from tests.disk.laps import FILE_BYTES, FILES_MAX, KEY, Makes, cut_laps_at_random, fail_at, ring_on


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
def test_after_any_call_that_fails_a_restart_finds_what_was_acknowledged(
    seed: int, full: bool
) -> None:
    calls, _ = fail_at(seed, 1 << 60, full=full)
    assert calls > 30
    for nth in range(1, calls + 1):
        assert fail_at(seed, nth, full=full)[1] == [], nth


# --- without its rules ------------------------------------------------------------------------


class _ToldBeforeSynced(DiskOfFiles):
    def write(self, name: str, offset: int, parts: Sequence[bytes]) -> None:
        self.disk.files["journal/" + name].write(offset, b"".join(parts))
        self._before("write")


class _NamesNotSynced(DiskOfFiles):
    def create(self, name: str, size: int) -> None:
        super().create(name, size)
        self.disk.files["journal/" + name].is_named = False


class _NotSyncedAtAStart(DiskOfFiles):
    def sync(self) -> None:
        """Believe what a killed process has left."""


class _ReusedWhenFollowed(Ring):
    def _is_over(self, name: str) -> bool:
        return self._newest[name] < max(1, self.end.number)


def _on(files: type[DiskOfFiles]) -> Makes:
    return lambda given: ring_on(files(given.disk))


def _found_out(makes: Makes) -> bool:
    outcomes = (cut_laps_at_random(seed, 300, makes) for seed in range(40))
    return any(outcome.lost or outcome.odd for outcome in outcomes)


@pytest.mark.parametrize("files", [_ToldBeforeSynced, _NamesNotSynced, _NotSyncedAtAStart])
def test_a_journal_on_files_that_promise_less_is_found_out(files: type[DiskOfFiles]) -> None:
    assert _found_out(_on(files))


def test_a_ring_that_uses_a_file_again_once_the_tables_were_told_is_found_out() -> None:
    assert _found_out(
        lambda files: _ReusedWhenFollowed(files, KEY, file_bytes=FILE_BYTES, files_max=FILES_MAX)
    )


def test_a_journal_that_does_not_check_bodies_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    takes: Callable[[journal.Header, bytes], bool] = lambda header, body: True  # noqa: E731
    monkeypatch.setattr(journal.Header, "is_whole", takes)
    assert _found_out(ring_on)
