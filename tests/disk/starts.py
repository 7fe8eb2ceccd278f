"""Starts on damaged journals and tables, and cuts of power within a start."""

import contextlib
import sqlite3
from collections.abc import Sequence
from random import Random

from docstore.errors import StoreError
from docstore.storage import entries
from docstore.storage.store import SaveSlot, SlotRecord, Write
from tests.disk.disk import Disk
from tests.disk.failures import error_of_disk
from tests.disk.journalled import Journalled, Makes, judge
from tests.disk.power import Outcome
from tests.disk.script import batches, expected


def cut_in_a_start(seed: int, makes: Makes = Journalled) -> Outcome:
    """Fill the journal, kill, and cut the power at every call of the next start.

    makes: makes the store of that start, and of later ones.
    """
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
            judge(outcome, where, disk.cut(rng), stages, acknowledged, makes)

    disk.before = look
    makes(disk).give_back()
    return outcome


def _filled(store: Journalled, script: Sequence[Sequence[Write]]) -> int:
    """Commit until the journal is full, with tables that lag; return how many commits."""
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
    raise AssertionError("the journal is not full")


def boots_told(seed: int) -> list[int]:
    """Start again and again after cuts of power; return the numbers of the completed starts.

    Now and then the tables are those of an earlier start, and the journal makes them whole.
    """
    rng = Random(seed)
    disk, told, is_whole = Disk(), [], False
    for _ in range(40):
        before, known = disk.killed(), len(told)
        disk = _a_life(disk, rng, told)
        if is_whole and rng.random() < 0.3:
            journal = {name: disk.files[name] for name in disk.files if "journal/" in name}
            disk = Disk({name: file.now for name, file in (before.files | journal).items()})
            is_whole = False  # Entries that even older tables lack may have been overwritten.
        else:
            is_whole = len(told) > known
    return told


def _a_life(disk: Disk, rng: Random, told: list[int]) -> Disk:
    """Start and commit a little; return the disk after a cut of power on the way, or at the end."""
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
