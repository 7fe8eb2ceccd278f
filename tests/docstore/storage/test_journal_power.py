"""A journal and its tables keep all acknowledged writes, whichever call fails in whichever way."""

from collections.abc import Callable

import pytest

from docstore.errors import StoreDamaged
from docstore.storage import entries, journal_line
from docstore.storage.journal import HEADER_BYTES, headers_in
from docstore.storage.store import SaveSlot, SlotRecord
from tests.disk.disk import Disk
from tests.disk.failures import error_of_disk, no_room
from tests.disk.journalled import Journalled, Smallest, cut_at_random, fail_at, found_on, watched
from tests.disk.starts import boots_told, cut_in_a_start
from tests.tiers import tiers

FIRST = tiers([0], (1, 2))


@pytest.mark.parametrize("seed", tiers(range(2), (2, 3), (4, 5)))
def test_nothing_acknowledged_is_lost(seed: int) -> None:
    outcome = cut_at_random(seed, 120)
    assert outcome.images > 80
    assert (outcome.lost, outcome.odd) == ([], [])


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(2))
def test_nothing_is_lost_during_reads_from_an_old_snapshot(seed: int) -> None:
    """Keep the log from being copied back, and so from that sync."""
    outcome = cut_at_random(seed, 120, watched)
    assert outcome.images > 80
    assert (outcome.lost, outcome.odd) == ([], [])


def test_a_flush_syncs_although_nothing_has_changed() -> None:
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


@pytest.mark.parametrize("seed", FIRST)
def test_a_start_loses_nothing_of_a_journal_that_is_full(seed: int) -> None:
    """Pinned: its entry went over others that the tables had, and that were not synced there."""
    outcome = cut_in_a_start(seed)
    assert outcome.images > 30
    assert (outcome.lost, outcome.odd) == ([], [])


@pytest.mark.parametrize("seed", range(4))
def test_no_two_starts_have_the_same_number(seed: int) -> None:
    boots = boots_told(seed)
    assert len(boots) > 10
    assert boots == sorted(set(boots))


@pytest.mark.slow
def test_fifty_thousand_images() -> None:
    images, seed = 0, 1000
    while images < 50_000:
        outcome = cut_at_random(seed, 200)
        assert (outcome.lost, outcome.odd) == ([], []), f"seed {seed}"
        images += outcome.images
        seed += 1


@pytest.mark.parametrize("raises", [error_of_disk, no_room])
@pytest.mark.parametrize("seed", FIRST)
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


def test_a_file_closed_in_order_needs_no_journal() -> None:
    disk = Disk()
    store = Journalled(disk)
    store.finish()
    alone = Disk({name: file.now for name, file in disk.files.items() if "journal/" not in name})
    assert found_on(alone) == found_on(disk)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", FIRST)
def test_nothing_is_lost_in_a_journal_of_two_files(seed: int) -> None:
    outcome = cut_at_random(seed, 100, Smallest)
    assert outcome.images > 60
    assert (outcome.lost, outcome.odd) == ([], [])


@pytest.mark.parametrize("seed", FIRST)
def test_nothing_is_lost_in_a_start_that_removes_files_of_a_larger_journal(seed: int) -> None:
    outcome = cut_in_a_start(seed, Smallest)
    assert outcome.images > 30
    assert (outcome.lost, outcome.odd) == ([], [])


def test_rot_of_the_last_commit_is_not_taken_for_a_torn_entry() -> None:
    """Write an empty entry after the last one, so that rot of the last one is found."""
    disk = Disk()
    store = Journalled(disk)
    store.commit([SaveSlot(SlotRecord(1))])
    store.mark()
    key, files = journal_line.read(store.connection).key, disk.files
    found = [
        (header.number, files[name].now, offset)
        for name in files
        if "journal/" in name
        for offset, header in headers_in(key, bytes(files[name].now))
        if header.length > len(entries.EMPTY)
    ]
    _, content, offset = max(found)
    content[offset + HEADER_BYTES] ^= 1
    store.give_back()
    with pytest.raises(StoreDamaged, match="is missing, but"):
        found_on(disk.killed())
