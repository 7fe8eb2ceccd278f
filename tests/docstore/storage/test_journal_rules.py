"""A journal without one of its rules fails a test or a run."""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random

import pytest

from docstore.errors import StoreError
from docstore.storage.store import Append, Newest, SaveSlot, SlotRecord
from tests.disk.disk import Disk
from tests.disk.failures import error_of_disk
from tests.disk.journal_ablations import ABLATIONS, ablated, noticed_by
from tests.docstore.reads.scans import test_followed
from tests.docstore.storage import test_journal_power, test_ring
from tests.docstore.storage.logs import FOR_EVER, Author
from tests.whole.loop import VirtualLoop
from tests.whole.store import SimulatedStore

A = "/notes/a"
NEWEST = Newest(1, A, FOR_EVER)

# --- the shell, in virtual time ---------------------------------------------------------------


def _in_virtual_time(what: Callable[[SimulatedStore], Awaitable[None]]) -> None:
    async def main() -> None:
        store = SimulatedStore(Disk(), "disk", Random(1))
        await store.open()
        try:
            await what(store)
        finally:
            await store.close()
            store.lose_power()  # Nothing is lost; SQLite has closed its files.

    loop = VirtualLoop()
    try:
        loop.run_until_complete(main())
    finally:
        loop.close()


def test_a_commit_that_is_not_durable_yet_is_not_read() -> None:
    async def what(store: SimulatedStore) -> None:
        row, results = Author().row(1, A), []
        store.submit([Append([row])], results.append)
        assert await store.read([NEWEST]) == [[]]
        await store.time_passes(1.0, 0.0)
        assert results == [None]
        assert await store.read([NEWEST]) == [[row]]

    _in_virtual_time(what)


def test_an_entry_without_room_in_the_tables_is_followed_later() -> None:
    async def what(store: SimulatedStore) -> None:
        row = Author().row(1, A)
        store.full = True
        await store.commit([Append([row])])
        await store.time_passes(1.0, 0.0)
        store.full = False
        await store.recover()
        assert await store.read([NEWEST]) == [[row]]

    _in_virtual_time(what)


def test_failing_tables_are_reported_although_no_call_waits() -> None:
    async def what(store: SimulatedStore) -> None:
        results: list[BaseException] = []
        store.broken = results.append

        def fail(call: str) -> None:
            if call == "write":  # Not a call of the journal, which overwrites.
                raise error_of_disk(call)

        store.disk.before = fail
        await store.commit([SaveSlot(SlotRecord(1))])
        await store.time_passes(5.0, 0.0)
        assert len(results) == 1

    _in_virtual_time(what)


# --- without a rule ---------------------------------------------------------------------------


def _a_scan_waits() -> None:
    async def main() -> None:
        with tempfile.TemporaryDirectory() as directory:
            async with test_followed.node_in(Path(directory)) as node:
                await test_followed.test_a_scan_waits_until_the_file_has_its_cut(node)

    asyncio.run(main())


# Ablation -> the test that fails with it.
NOTICED_BY: dict[str, Callable[[], None]] = {
    "a-hole-is-a-tail": test_ring.test_a_flipped_bit_of_any_entry_is_noticed,
    "a-missing-journal-is-none": test_ring.test_a_journal_that_is_missing_or_empty_is_damage,
    "failures-only-logged": test_failing_tables_are_reported_although_no_call_waits,
    "forgotten-by-the-shell": test_an_entry_without_room_in_the_tables_is_followed_later,
    "in-the-overlay-when-begun": test_a_commit_that_is_not_durable_yet_is_not_read,
    "no-mark": test_journal_power.test_rot_of_the_last_commit_is_not_taken_for_a_torn_entry,
    "of-any-past": test_ring.test_a_whole_entry_after_a_different_past_is_no_tail,
    "scans-that-do-not-wait": _a_scan_waits,
    "stamps-without-a-key": (test_ring.test_a_document_that_looks_like_an_entry_is_not_one),
}
CAUGHT_BY_RUNS = sorted(ABLATIONS.keys() - NOTICED_BY.keys())


@pytest.mark.thorough
@pytest.mark.parametrize("name", CAUGHT_BY_RUNS)
def test_a_missing_rule_is_noticed_by_a_run(name: str) -> None:
    world = ABLATIONS[name].aim
    assert world is not None, "neither a run nor a test checks it"
    seed = noticed_by(name, 8)
    assert seed is not None
    assert not world(seed)


@pytest.mark.parametrize("name", sorted(NOTICED_BY))
def test_a_missing_rule_fails_a_test(name: str) -> None:
    NOTICED_BY[name]()
    with ablated(name), pytest.raises((AssertionError, StoreError, pytest.fail.Exception)):
        NOTICED_BY[name]()
