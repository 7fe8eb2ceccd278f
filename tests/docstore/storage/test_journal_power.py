"""A journal and its tables: whatever happens at whatever call, what was acknowledged is there."""

import contextlib
from collections.abc import Callable, Sequence

import pytest

from docstore.errors import DiskFull
from docstore.storage import journal_line, writing
from docstore.storage.backlog import Backlog, Batch
from docstore.storage.journal_line import JournalLine
from docstore.storage.store import Write
from docstore.storage.transactions import transaction
from docstore.storage.writing import Writer
from tests.disk.disk import Disk
from tests.disk.failures import error_of_disk, no_room
from tests.disk.journalled import Journalled, Makes, cut_at_random, fail_at, found_on

LONGEST = [pytest.param(seed, marks=pytest.mark.thorough) for seed in (4, 5)]


@pytest.mark.parametrize("seed", [*range(4), *LONGEST])
def test_nothing_acknowledged_is_lost(seed: int) -> None:
    outcome = cut_at_random(seed, 120)
    assert outcome.images > 80
    assert (outcome.lost, outcome.odd) == ([], [])


def test_what_is_flushed_is_synced_though_nothing_has_changed_since() -> None:
    """Pinned: SQLite took an empty transaction for none, and a file was used again too early."""
    outcome = cut_at_random(7003, 150)
    assert (outcome.lost, outcome.odd) == ([], [])
    disk = Disk()
    store = Journalled(disk)
    line = journal_line.read(store.connection)
    calls: list[str] = []
    disk.before = calls.append
    for _ in range(2):
        store.writer.follow((), line, durably=True)
        assert "sync" in calls
        calls.clear()
    store.give_back()


@pytest.mark.slow
def test_fifty_thousand_images() -> None:
    images, seed = 0, 1000
    while images < 50_000:
        outcome = cut_at_random(seed, 200)
        assert (outcome.lost, outcome.odd) == ([], []), f"seed {seed}"
        images += outcome.images
        seed += 1


@pytest.mark.parametrize("raises", [error_of_disk, no_room])
@pytest.mark.parametrize("seed", range(3))
def test_any_call_may_fail(seed: int, raises: Callable[[str], Exception | None]) -> None:
    calls = fail_at(seed, 1 << 60, raises).calls
    failed = 0
    for nth in range(1 + seed, calls + 1, 7):
        played = fail_at(seed, nth, raises)
        assert played.problems == [], nth
        failed += played.failed
    assert failed > 5


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_every_single_call_may_fail(seed: int) -> None:
    for raises in (error_of_disk, no_room):
        for nth in range(1, fail_at(seed, 1 << 60, raises).calls + 1):
            assert fail_at(seed, nth, raises).problems == [], nth


def test_closed_in_order_the_file_needs_no_journal() -> None:
    disk = Disk()
    store = Journalled(disk)
    store.finish()
    alone = Disk({name: file.now for name, file in disk.files.items() if "journal/" not in name})
    assert found_on(alone) == found_on(disk)


# --- without its rules ------------------------------------------------------------------------


def _found_out(makes: Makes = Journalled) -> bool:
    outcomes = (cut_at_random(seed, 100, makes) for seed in range(8))
    return any(outcome.lost or outcome.odd for outcome in outcomes)


def test_a_place_written_outside_of_the_transaction_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def follow(
        self: Writer, writes: Sequence[Write], to: JournalLine, *, durably: bool, boot: int = 0
    ) -> None:
        self.commit(writes)
        with transaction(self._connection):
            journal_line.write(self._connection, to)

    monkeypatch.setattr(Writer, "follow", follow)
    assert _found_out()


def test_files_let_go_of_by_transactions_that_were_not_synced_are_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    followed = Backlog.followed

    def let_go(self: Backlog, batch: Batch, now: float) -> None:
        followed(self, batch, now)
        self._flushed(now)

    monkeypatch.setattr(Backlog, "followed", let_go)
    assert _found_out()


def test_tables_that_are_never_synced_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "FOLLOWING", "OFF")
    assert _found_out()


def test_synced_transactions_that_are_not_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "FLUSHING", "NORMAL")
    assert _found_out()


def test_a_commit_that_is_forgotten_for_want_of_room_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As a commit into the tables may be, and one into the journal may not."""

    class Forgetful(Journalled):
        def _run(self, batch: Batch) -> None:
            with contextlib.suppress(DiskFull):
                super()._run(batch)

    def problems(seed: int) -> list[str]:
        calls = fail_at(seed, 1 << 60, no_room, Forgetful).calls
        played = (fail_at(seed, nth, no_room, Forgetful) for nth in range(1, calls + 1, 3))
        return [problem for each in played for problem in each.problems]

    assert any(problems(seed) for seed in range(3))
