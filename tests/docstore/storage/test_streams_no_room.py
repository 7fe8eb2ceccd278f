"""A disk without room: nothing is kept of a commit, and the same store goes on afterwards."""

from pathlib import Path

import pytest

from docstore.errors import DiskFull
from docstore.storage.partitions import (
    AppendBatches,
    Batches,
    CutPartition,
    DropPartition,
    PartitionRecord,
    SavePartition,
)
from docstore.storage.streams_sqlite import SqliteStreamStore
from tests.docstore.storage.sealed import A, B, Leader, batch, begun, recovered

ALL = 1 << 40


async def fill(store: SqliteStreamStore, leader: Leader) -> int:
    """Commit until there is no room; return the end of what was acknowledged."""
    for _ in range(1000):
        end = leader.ends.get(A, 0)
        try:
            await store.commit([leader.append(A, 1, size=20_000)])
        except DiskFull:
            return end
    pytest.fail("the disk has no end")


async def test_a_full_disk_keeps_nothing_of_a_commit_and_the_same_store_goes_on(
    small_disk: Path,
) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(2_000_000))
    store, leader = SqliteStreamStore(small_disk / "streams.db"), Leader()
    await store.open()
    try:
        await store.commit(begun(A, B))
        end = await fill(store, leader)
        assert end > 5
        appended = AppendBatches([(A, batch(A, end, 2, last_us=1 << 40, size=20_000))])
        writes = [SavePartition(PartitionRecord(A, "copy", promised=(9, "n9"))), appended]
        for _ in range(3):
            with pytest.raises(DiskFull):
                await store.commit([*writes, DropPartition(B)])
        [raws] = await store.read([Batches(A, 0, ALL, 1 << 30)])
        assert isinstance(raws, list)
        assert len(raws) == end
        ballast.unlink()
        await store.commit(writes)
    finally:
        await store.close()
    partitions = (await recovered(small_disk / "streams.db")).partitions
    assert (partitions[A].end, partitions[A].record.promised) == (end + 2, (9, "n9"))
    assert B in partitions


async def test_a_file_that_may_not_grow_is_a_full_disk(tmp_path: Path) -> None:
    """As above where nothing can be mounted: SQLite's own limit ends in the same error."""
    store, leader = SqliteStreamStore(tmp_path / "streams.db"), Leader()
    await store.open()
    writer = store._file.lanes["writer"]
    await store.commit(begun(A))
    await writer.run(lambda connection: connection.execute("PRAGMA max_page_count = 60").fetchall())
    end = await fill(store, leader)
    assert end > 5
    await store.commit([CutPartition(A, end - 2)])
    leader.ends[A] = end - 2
    assert await fill(store, leader) >= end - 1
    await store.close()
