"""A disk without room: a commit is refused as a whole, and the store works on afterwards."""

import contextlib
from pathlib import Path

import pytest

from docstore.errors import DiskFull
from docstore.storage import partition_writing
from docstore.storage.partition_writing import PartitionWriter
from docstore.storage.partitions import (
    AppendBatches,
    Batches,
    CutPartition,
    DropPartition,
    Oldest,
    PartitionRecord,
    SavePartition,
    TrimPartition,
)
from docstore.storage.streams_sqlite import BALLAST_BYTES, SqliteStreamStore
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


async def test_a_full_disk_refuses_whole_commits_and_the_store_works_on(
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
    writer = store._file.threads["writer"]
    await store.commit(begun(A))
    await writer.run(lambda connection: connection.execute("PRAGMA max_page_count = 60").fetchall())
    end = await fill(store, leader)
    assert end > 5
    await store.commit([CutPartition(A, end - 2)])
    leader.ends[A] = end - 2
    assert await fill(store, leader) >= end - 1
    await store.close()


BALLAST = 1 << 20
"""More bytes than the log has before it is copied back, as in a release."""
PAGES = 50


def take_the_rest(disk: Path) -> None:
    """Fill the disk."""
    with contextlib.suppress(OSError), (disk / "filler").open("ab", buffering=0) as file:
        while True:
            file.write(bytes(4096))


async def full(disk: Path) -> tuple[SqliteStreamStore, Leader]:
    """Return a store on a disk that is full but for the ballast and a filler."""
    (disk / "filler").write_bytes(bytes(1_300_000))
    store, leader = SqliteStreamStore(disk / "streams.db", ballast_bytes=BALLAST), Leader()
    await store.open()
    await store.commit(begun(A, B))
    leader.ends[A] = await fill(store, leader)
    take_the_rest(disk)
    return store, leader


async def test_a_trim_finds_room_on_a_full_disk(
    small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Use the freed pages for later batches, too."""
    monkeypatch.setattr(partition_writing, "COPY_BACK_PAGES", PAGES)
    store, leader = await full(small_disk)
    ballast = small_disk / "streams.db.ballast"
    try:
        with pytest.raises(DiskFull):
            await store.commit([leader.append(A, 1, size=20_000)])
        assert ballast.exists()
        end = leader.ends[A] = leader.ends[A] - 1
        for _ in range(end // 16 + 1):
            await store.commit([TrimPartition(A, end - 2, 16)])
        assert not ballast.exists()
        [kept] = await store.read([Oldest(A, 99)])
        assert isinstance(kept, list)
        assert len(kept) == 2
        for _ in range(end // 2):
            await store.commit([leader.append(A, 1, size=20_000)])
        (small_disk / "filler").unlink()
        store._reserve_from = 0.0
        await store.commit([leader.append(A, 1)])
        assert ballast.exists()
    finally:
        await store.close()
    assert (await recovered(small_disk / "streams.db")).partitions[A].end == leader.ends[A]


async def test_a_start_without_room_counts_its_boot_in_the_room_of_the_ballast(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, ballast = tmp_path / "streams.db", tmp_path / "streams.db.ballast"
    prepare = PartitionWriter.prepare

    def prepare_if_there_is_room(self: PartitionWriter, boots: int | None) -> bool:
        if ballast.exists():
            raise DiskFull("no room")
        return prepare(self, boots)

    store = SqliteStreamStore(path)
    await store.open()
    await store.close()
    monkeypatch.setattr(PartitionWriter, "prepare", prepare_if_there_is_room)
    assert (await store.open()).boot == 2
    await store.close()
    for size in (BALLAST_BYTES, 0):  # The start removes any rest of a ballast.
        ballast.write_bytes(b"")
        store = SqliteStreamStore(path, ballast_bytes=size)
        if size:
            assert (await store.open()).boot == 3
            await store.close()
        else:
            with pytest.raises(DiskFull):
                await store.open()


async def test_streams_do_not_take_room_that_documents_need(tmp_path: Path) -> None:
    full = True
    store = SqliteStreamStore(tmp_path / "streams.db", stands_aside=lambda: full)
    leader = Leader()
    await store.open()
    with pytest.raises(DiskFull, match="reserved for documents"):
        await store.commit(begun(A))
    full = False
    await store.commit([*begun(A), leader.append(A, 3)])
    full = True
    with pytest.raises(DiskFull):
        await store.commit([leader.append(A, 1)])
    await store.commit([TrimPartition(A, 2, 9)])
    await store.close()


async def test_a_trim_writes_little(tmp_path: Path) -> None:
    """Pinned: SQLite built to overwrite deleted content wrote all of it once more."""
    store, leader = SqliteStreamStore(tmp_path / "streams.db"), Leader()
    await store.open()
    await store.commit(begun(A))
    for _ in range(20):
        await store.commit([leader.append(A, 1, size=200_000)])
    await store._file.run(
        "writer", lambda thread: thread.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    )
    await store.commit([TrimPartition(A, 19)])
    assert store._file.log.stat().st_size < 200_000
    await store.close()
