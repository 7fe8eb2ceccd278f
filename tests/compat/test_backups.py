"""Backups of an earlier version are verified, and restored, by every later one."""

import tarfile
from pathlib import Path

import pytest

from docstore.config import database_in
from docstore.maintenance.backup.manifest import FORMAT
from docstore.maintenance.backup.restoring import restore
from docstore.maintenance.backup.verifying import verify
from docstore.storage.replication_log import Arrivals
from docstore.storage.store import Rows
from tests.compat.backups import contents, file_of, files
from tests.docstore.storage.small import small

SLOTS = range(8)


@pytest.mark.parametrize("file", files(), ids=lambda file: file.name.partition(".")[0])
async def test_a_chain_of_an_earlier_version_is_restored(file: Path, tmp_path: Path) -> None:
    with tarfile.open(file) as archive:
        archive.extractall(tmp_path, filter="data")
    first, then, branches = contents()
    chain = verify(tmp_path / "backups")
    assert [each.rows for each in chain] == [len(first), len(then) + len(branches)]
    restore(tmp_path / "backups", tmp_path / "data")
    store = small(database_in(tmp_path / "data"))
    recovered = await store.open()
    try:
        found = await store.read([Rows(slot, 1, 99) for slot in SLOTS])
        [arrived] = await store.read([Arrivals(0, 99)])
    finally:
        await store.close()
    assert {slot: rows for slot, rows in zip(SLOTS, found, strict=True) if rows} == {
        slot: [row for row in (*first, *then) if row.slot == slot] for slot in (1, 6)
    }
    assert arrived == [each.row for each in branches]
    assert (recovered.slots[3].end, recovered.slots[3].record.floor) == (9, 4)


def test_there_is_a_chain_of_this_version() -> None:
    assert file_of(FORMAT) in files()
