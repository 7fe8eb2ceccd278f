"""A journal and its tables: whatever happens at whatever call, what was acknowledged is there."""

import contextlib
import sqlite3
from collections.abc import Callable, Sequence
from random import Random

import pytest

from docstore.errors import DiskFull, StoreError
from docstore.storage import entries, journal_line, tables, writing
from docstore.storage.backlog import Backlog, Batch
from docstore.storage.journal import Position
from docstore.storage.journal_line import JournalLine
from docstore.storage.ring import Entry, Ring
from docstore.storage.store import SaveSlot, SlotRecord, Write
from docstore.storage.transactions import transaction
from docstore.storage.writing import Writer
from tests.disk.disk import Disk
from tests.disk.failures import error_of_disk, no_room
from tests.disk.journalled import Journalled, Makes, cut_at_random, fail_at, found_on, judge
from tests.disk.power import Outcome
from tests.disk.script import batches, expected

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


@pytest.mark.parametrize("seed", range(3))
def test_a_start_loses_nothing_of_a_journal_that_is_full(seed: int) -> None:
    """Pinned: its entry went over others that the tables had, and that were not synced there."""
    outcome = cut_in_a_start(seed)
    assert outcome.images > 30
    assert (outcome.lost, outcome.odd) == ([], [])


def cut_in_a_start(seed: int) -> Outcome:
    """Fill the journal, kill, and cut the power at every call of the start on what is left."""
    rng = Random(seed)
    script = batches(rng, 60)
    stages = expected(script)
    outcome, disk = Outcome(), Disk()
    store = Journalled(disk)
    acknowledged = _filled(store, script)
    store.give_back()

    def look(call: str) -> None:
        if call != "read":
            outcome.images += 1
            where = f"seed {seed}, {call}"
            judge(outcome, where, disk.cut(rng), stages, acknowledged, Journalled)

    disk.before = look
    Journalled(disk).give_back()
    return outcome


def _filled(store: Journalled, script: Sequence[Sequence[Write]]) -> int:
    """Commit until there is no place for more, with tables that lag; return how many commits."""
    for number, writes in enumerate(script):
        body = entries.packed(writes)
        if number < 15 or not store.backlog.fits(body):
            store.now += 2.0
            store.commit(writes)
            store.follow(1)
        else:
            entry = store.backlog.next(body)
            if entry is None:
                return number
            store.backlog.ring.files.write(entry.file, entry.offset, entry.parts)
            store.backlog.durable(entry, writes)
    pytest.fail("the journal is not full")


@pytest.mark.parametrize("seed", range(4))
def test_no_two_starts_have_the_same_number(seed: int) -> None:
    boots = boots_told(seed)
    assert len(boots) > 10
    assert boots == sorted(set(boots))


def boots_told(seed: int) -> list[int]:
    """Start again and again after cuts of power; return the numbers of those that came about.

    Now and then the tables are those from a life before, and the journal makes them whole.
    """
    rng = Random(seed)
    disk, told, is_whole = Disk(), [], False
    for _ in range(40):
        before, known = disk.killed(), len(told)
        disk = _a_life(disk, rng, told)
        if is_whole and rng.random() < 0.3:
            journal = {name: disk.files[name] for name in disk.files if "journal/" in name}
            disk = Disk({name: file.now for name, file in (before.files | journal).items()})
            is_whole = False  # What even older ones lack may have been overwritten.
        else:
            is_whole = len(told) > known
    return told


def _a_life(disk: Disk, rng: Random, told: list[int]) -> Disk:
    """Start and commit a little; return what is left by a cut of power on the way, or after it."""
    left, image = rng.randrange(1, 60), None

    def cut(call: str) -> None:
        nonlocal left, image
        left -= call != "read"
        if left == 0 and image is None:
            image = disk.cut(rng)
            raise error_of_disk(call)

    disk.before = cut
    store = None
    with contextlib.suppress(StoreError, OSError, sqlite3.Error):
        store = Journalled(disk)
        told.append(store.boot)
        for slot in range(rng.randrange(4)):
            store.commit([SaveSlot(SlotRecord(slot))])
    image = image or disk.cut(rng)
    if store is not None:
        store.give_back()
    return image


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


def test_a_flush_that_changes_nothing_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    anyway = ", written=(journal.written + 1)"
    assert tables.UPDATE_JOURNAL.endswith(anyway)
    monkeypatch.setattr(tables, "UPDATE_JOURNAL", tables.UPDATE_JOURNAL.removesuffix(anyway))
    assert _found_out()
    assert any(outcome.lost or outcome.odd for outcome in map(cut_in_a_start, range(3)))


def test_starts_that_the_journal_does_not_count_are_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened = Ring.open

    def forget(self: Ring, followed: Position, *, may_be_missing: bool = False) -> list[Entry]:
        lacking = opened(self, followed, may_be_missing=may_be_missing)
        self.boot = 0
        return lacking

    monkeypatch.setattr(Ring, "open", forget)
    told = [boots_told(seed) for seed in range(4)]
    assert any(boots != sorted(set(boots)) for boots in told)


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
