"""A replica that is filled while its disk is slower than the owner's patience."""

import pytest

from docstore.documents.catchup import copying
from docstore.documents.write_path.learn import GATHERED_PAGES
from docstore.storage.store import Rows
from docstore.wire.messages import Copy, Propose
from tests.docstore.documents.trio import CONFIG, NAMES, Trio

ROWS = 40
EVERYTHING = Rows(0, 1, ROWS + 1, 1 << 20)


@pytest.fixture
def trio() -> Trio:
    trio = Trio()
    assert trio.run_until(trio.owner, 10)
    trio.write(ROWS)
    assert trio.run_until(lambda: trio.replicas[trio.owner()].core.logs[0].decided >= ROWS, 10)
    return trio


def victim_of(trio: Trio) -> str:
    return next(name for name in NAMES if name != trio.owner())


def test_a_disk_slower_than_the_resend_interval_is_filled_page_by_page(trio: Trio) -> None:
    victim = victim_of(trio)
    trio.sync_s[victim] = 5 * CONFIG.sending.resend_interval_s
    trio.damage(victim)
    assert trio.run_until(lambda: trio.is_whole(victim), 120)
    pages = ROWS // CONFIG.sending.page_rows
    # The copy never restarts; a few pages are on their way twice.
    assert pages <= trio.sent[victim, Copy] <= 2 * pages


def test_pages_of_a_copy_are_stored_many_at_a_time(trio: Trio) -> None:
    victim = victim_of(trio)
    before = trio.stored[victim]
    trio.damage(victim)
    assert trio.run_until(lambda: trio.is_whole(victim), 10)
    at_once = GATHERED_PAGES * CONFIG.sending.page_rows
    # The last one may have a row that was written meanwhile.
    assert trio.stored[victim] - before <= ROWS // at_once + 2


def test_large_documents_do_not_gather_in_memory(trio: Trio) -> None:
    victim, owner = victim_of(trio), trio.replicas[trio.owner()].core.logs[0]
    page = CONFIG.sending.page_bytes // 2
    trio.write(8, b"x" * page)
    assert trio.run_until(lambda: owner.decided >= ROWS + 8, 10)
    trio.damage(victim)
    before = trio.stored[victim]
    assert trio.run_until(lambda: trio.is_whole(victim), 10)
    # By size two of these rows may wait; by number all eight could.
    at_once = GATHERED_PAGES * CONFIG.sending.page_rows
    assert trio.stored[victim] - before >= ROWS // at_once + 8 // 2


def test_gathered_pages_of_a_copy_are_lost_with_the_process(trio: Trio) -> None:
    """A new process has no earlier pages to continue from: the copy begins anew."""
    victim = victim_of(trio)
    trio.damage(victim)
    log = trio.replicas[victim].core.logs[0]
    assert trio.run_until(lambda: len(log.buffered) >= CONFIG.sending.page_rows, 5)
    trio.restart(victim)
    assert not trio.replicas[victim].core.logs[0].full
    assert trio.run_until(lambda: trio.is_whole(victim), 20)
    owned, held = (trio.disks[name].answer(EVERYTHING) for name in (trio.owner(), victim))
    assert held == owned
    assert isinstance(held, list)
    assert len(held) == ROWS + 1


def test_pages_that_are_lost_are_sent_again(trio: Trio) -> None:
    victim = victim_of(trio)
    trio.damage(victim)
    trio.lost = 0.2
    assert trio.run_until(lambda: trio.is_whole(victim), 60)


def test_damage_in_the_middle_of_a_copy_begins_it_anew(trio: Trio) -> None:
    victim = victim_of(trio)
    trio.damage(victim)
    assert trio.run_until(lambda: trio.replicas[victim].core.logs[0].copied >= ROWS // 2, 5)
    before = trio.sent[victim, Copy]
    trio.damage(victim)
    assert trio.run_until(lambda: trio.is_whole(victim), 20)
    assert trio.sent[victim, Copy] >= before + ROWS // CONFIG.sending.page_rows


def test_pages_from_before_and_after_a_trim_are_not_mixed(trio: Trio) -> None:
    """Mix no pages even if the owner trims while it copies, which it avoids."""
    victim = victim_of(trio)
    trio.damage(victim)
    log = trio.replicas[victim].core.logs[0]
    assert trio.run_until(lambda: log.copied >= ROWS // 2, 5)
    owners = trio.replicas[trio.owner()].core.logs[0]
    owners.floor += 3
    before = trio.sent[victim, Copy]
    assert trio.run_until(lambda: trio.is_whole(victim), 20)
    assert log.floor == owners.floor
    assert trio.sent[victim, Copy] >= before + ROWS // CONFIG.sending.page_rows


def test_a_copy_that_an_update_waits_for_skips_the_queue(
    trio: Trio, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copying, "ROWS_A_TICK", 0)
    victim = victim_of(trio)
    trio.damage(victim)
    assert not trio.run_until(lambda: trio.is_whole(victim), 3)
    # Now there is no majority without it.
    trio.cut_off = {name for name in NAMES if name not in (victim, trio.owner())}
    trio.write(1)
    assert trio.run_until(lambda: trio.is_whole(victim), 3)


def test_a_queued_replica_is_not_asked_again(trio: Trio, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copying, "ROWS_A_TICK", 0)
    victim = victim_of(trio)
    trio.damage(victim)
    assert not trio.run_until(lambda: trio.is_whole(victim), 1)
    before = trio.sent[victim, Propose]
    assert not trio.run_until(lambda: trio.is_whole(victim), 5)
    assert trio.sent[victim, Propose] == before


def test_a_copy_whose_last_answer_is_lost_still_ends(trio: Trio) -> None:
    victim = victim_of(trio)
    trio.sync_s[victim] = CONFIG.sending.resend_interval_s / 2
    trio.damage(victim)
    log = trio.replicas[victim].core.logs[0]
    assert trio.run_until(lambda: log.full, 20)
    trio.cut_off = {victim}  # Its answer that the copy is complete is lost.
    trio.write(1)
    assert not trio.run_until(lambda: trio.is_whole(victim), 1)
    trio.cut_off = set()
    assert trio.run_until(lambda: trio.is_whole(victim), 5)
