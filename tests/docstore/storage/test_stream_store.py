"""The contract of storage for streams, for every store."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from docstore.model.document import NO_BALLOT
from docstore.model.streams_batch import BatchHeader, header_of
from docstore.storage.partitions import (
    AppendBatches,
    At,
    Batches,
    CutPartition,
    DropPartition,
    ErasePartition,
    Oldest,
    PartitionRecord,
    PartitionRecovered,
    ReplaceBatches,
    SavePartition,
    StreamsRecovered,
    StreamStore,
    TrimPartition,
)
from docstore.storage.store import Status
from docstore.storage.streams_sqlite import SqliteStreamStore
from tests.docstore.storage.sealed import A, B, Leader, batch, begun
from tests.memory.streams_memory import MemoryStreamStore


class Disk:
    """A place for a store, and the store that is open on it."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.store: StreamStore = MemoryStreamStore() if path is None else SqliteStreamStore(path)

    async def restart(self) -> StreamsRecovered:
        """Close the store and open the next one on the same disk."""
        await self.store.close()
        if self._path is not None:
            self.store = SqliteStreamStore(self._path)
        return await self.store.open()


@pytest.fixture(params=["sqlite", "memory"])
async def disk(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Disk]:
    disk = Disk(tmp_path / "streams.db" if request.param == "sqlite" else None)
    await disk.store.open()
    yield disk
    await disk.store.close()


@pytest.fixture
def store(disk: Disk) -> StreamStore:
    return disk.store


async def found(disk: Disk, name: str = A) -> PartitionRecovered:
    """Return a partition as the next start finds it."""
    return (await disk.restart()).partitions[name]


async def batches(
    store: StreamStore, offset: int = 0, until: int = 99, *, name: str = A, bytes_max: int = 1 << 20
) -> list[tuple[int, int]]:
    """Return (base, end) of the batches that are found."""
    [raws] = await store.read([Batches(name, offset, until, bytes_max)])
    assert isinstance(raws, list)
    headers = [header_of(raw) for raw in raws if isinstance(raw, bytes)]
    return [(header.base, header.end) for header in headers]


async def bases(store: StreamStore, query: At | Oldest) -> list[int]:
    """Return the bases of the headers that are found."""
    [headers] = await store.read([query])
    assert isinstance(headers, list)
    return [header.base for header in headers if isinstance(header, BatchHeader)]


async def test_an_empty_store_has_nothing(disk: Disk) -> None:
    assert await disk.restart() == StreamsRecovered(boot=2)
    queries = [Batches(A, 0, 9), At(A, 0), Oldest(A, 9)]
    assert await disk.store.read(queries) == [[], [], []]
    await disk.store.commit([])


async def test_batches_are_found_by_an_offset_in_them(store: StreamStore) -> None:
    await store.commit([*begun(A, B), Leader().append(A, 2, 3, 4)])
    assert await batches(store) == [(0, 2), (2, 5), (5, 9)]
    assert await batches(store, 2) == await batches(store, 4) == [(2, 5), (5, 9)]
    assert await batches(store, 8) == [(5, 9)]
    assert await batches(store, 1, 3) == [(0, 2), (2, 5)]
    assert await batches(store, 1, 2) == [(0, 2)]
    assert await batches(store, 9) == await batches(store, 3, 3) == await batches(store, 5, 2) == []
    assert await batches(store, name=B) == []


async def test_a_page_ends_with_its_bytes_but_has_one_batch(store: StreamStore) -> None:
    await store.commit([*begun(A), Leader().append(A, 1, 1, 1, size=100)])
    size = len(batch(A, 0, size=100))
    for fit in (1, 2, 3):
        for bytes_max in (fit * size, fit * size + size - 1):
            assert len(await batches(store, bytes_max=bytes_max)) == fit
    assert len(await batches(store, bytes_max=1)) == 1


async def test_partitions_of_one_commit_do_not_mix(disk: Disk) -> None:
    leader = Leader()
    mixed = [(name, leader.batch(name)) for name in (A, B, A, A, B)]
    await disk.store.commit([*begun(A, B), AppendBatches(mixed)])
    for name, end in ((A, 3), (B, 2)):
        assert await batches(disk.store, name=name) == [(n, n + 1) for n in range(end)]
        assert (await found(disk, name)).end == end


async def test_a_saved_record_is_found(disk: Disk) -> None:
    record = PartitionRecord(
        A, "another", (7, "é"), (6, "n2"), (((6, "n2"), 1), ((7, "é"), 9)), 3, 8, b"\x00p", 4,
        Status.FAULTY,
    )  # fmt: skip
    await disk.store.commit([*begun(A), SavePartition(record)])
    assert (await found(disk)) == PartitionRecovered(record, 3, 0, 0)


async def test_a_start_finds_end_size_time_and_headers_after_the_snapshot(
    disk: Disk,
) -> None:
    leader = Leader()
    appended = leader.append(A, 2, 3, 4)
    await disk.store.commit([*begun(A), appended])
    headers = tuple(header_of(raw) for _, raw in appended.batches)
    record = PartitionRecord(A, "copy")
    size = sum(header.size for header in headers)
    whole = PartitionRecovered(record, 9, leader.now_us, size, headers)
    assert await found(disk) == whole
    for at, first in ((1, 0), (2, 1), (4, 1), (5, 2), (9, 3), (12, 3)):
        saved = replace(record, producers_at=at)
        await disk.store.commit([SavePartition(saved)])
        assert await found(disk) == replace(whole, record=saved, headers=headers[first:])


async def test_a_cut_lets_the_next_batch_begin_there(disk: Disk) -> None:
    leader = Leader()
    await disk.store.commit([*begun(A), leader.append(A, 2, 3, 4)])
    whole = batch(A, 2, 7, last_us=9999)
    await disk.store.commit([CutPartition(A, 2), AppendBatches([(A, whole)])])
    assert await batches(disk.store) == [(0, 2), (2, 9)]
    assert (await found(disk)).last_us == 9999
    await disk.store.commit([CutPartition(A, 9), CutPartition(A, 50)])
    assert await batches(disk.store) == [(0, 2), (2, 9)]
    await disk.store.commit([CutPartition(A, 2)])
    recovered = await found(disk)
    assert (recovered.end, recovered.last_us, recovered.size) == (2, 1000, len(batch(A, 0, 2)))
    await disk.store.commit([CutPartition(A, 0)])
    recovered = await found(disk)
    assert (recovered.end, recovered.last_us, recovered.size) == (0, 0, 0)


async def test_batches_are_replaced_by_one_of_the_same_offsets(disk: Disk) -> None:
    leader = Leader()
    await disk.store.commit([*begun(A), leader.append(A, 2, 3, 4, 1)])
    small = batch(A, 2, 7, last_us=2500)
    await disk.store.commit([ReplaceBatches(A, small), leader.append(A, 1)])
    assert await batches(disk.store) == [(0, 2), (2, 9), (9, 10), (10, 11)]
    assert await batches(disk.store, 5, 6) == [(2, 9)]
    recovered = await found(disk)
    assert recovered.size == 2 * len(batch(A, 0)) + len(batch(A, 0, 2)) + len(small)
    await disk.store.commit([TrimPartition(A, 8), CutPartition(A, 9)])
    assert await batches(disk.store) == [(2, 9)]
    assert (await found(disk)).last_us == 2500


async def test_a_trim_removes_whole_batches_below_the_start(disk: Disk) -> None:
    leader = Leader()
    await disk.store.commit([*begun(A), leader.append(A, *[2] * 9)])
    await disk.store.commit([TrimPartition(A, 7)])
    assert (await batches(disk.store))[0] == (6, 8)
    await disk.store.commit([TrimPartition(A, 16, limit=2)])
    assert (await batches(disk.store))[0] == (10, 12)
    assert await batches(disk.store, 3, 11) == [(10, 12)]
    recovered = await found(disk)
    assert (recovered.end, recovered.size) == (18, 4 * len(batch(A, 0, 2)))
    await disk.store.commit([leader.append(A, 1)])
    assert (await batches(disk.store))[-1] == (18, 19)


async def test_an_erased_partition_may_begin_at_any_offset(disk: Disk) -> None:
    leader = Leader()
    await disk.store.commit([*begun(A, B), leader.append(A, 1, 1), leader.append(B, 1)])
    later = PartitionRecord(A, "new", start=70)
    appended = AppendBatches([(A, batch(A, 70, 5, last_us=7))])
    await disk.store.commit([ErasePartition(A), SavePartition(later)])
    assert await found(disk) == PartitionRecovered(later, 70, 0, 0)
    await disk.store.commit([appended])
    assert await batches(disk.store) == [(70, 75)]
    assert await batches(disk.store, name=B) == [(0, 1)]


async def test_a_drop_runs_in_slices_that_a_start_recognises(disk: Disk) -> None:
    leader = Leader()
    await disk.store.commit([*begun(A, B), leader.append(A, *[1] * 5), leader.append(B, 1)])
    drop = DropPartition(A, limit=2)
    await disk.store.commit([drop])
    recovered = await found(disk)
    assert recovered.record == PartitionRecord(A, "", NO_BALLOT, status=Status.FAULTY)
    assert (recovered.end, recovered.headers) == (5, ())
    assert await bases(disk.store, Oldest(A, 9)) == [2, 3, 4]
    await disk.store.commit([drop])
    await disk.store.commit([drop])
    assert list((await disk.restart()).partitions) == [B]
    await disk.store.commit([drop])
    await disk.store.commit([*begun(A), Leader().append(A, 3)])
    assert await batches(disk.store) == [(0, 3)]
    assert await batches(disk.store, name=B) == [(0, 1)]


async def test_a_partly_dropped_partition_may_be_erased_and_begun_anew(disk: Disk) -> None:
    await disk.store.commit([*begun(A), Leader().append(A, 1, 1)])
    await disk.store.commit([DropPartition(A, limit=1)])
    await disk.store.commit([ErasePartition(A), *begun(A, copy="new"), Leader().append(A, 4)])
    recovered = await found(disk)
    assert (recovered.record.copy, recovered.end) == ("new", 4)


async def test_batches_are_found_by_time(store: StreamStore) -> None:
    leader = Leader()
    await store.commit([*begun(A, B), leader.append(A, *[3] * 20), leader.append(B, 1)])
    times = [0, 1, 999, 1000, 1001, 10_000, 10_500, 20_000, 20_001, 1 << 62]
    wanted = [[0], [0], [0], [0], [3], [27], [30], [57], [], []]
    assert [await bases(store, At(A, us)) for us in times] == wanted
    await store.commit([TrimPartition(A, 30)])
    assert await bases(store, At(A, 0)) == [30]
    assert await bases(store, At(A, 19_001)) == [57]


async def test_the_oldest_are_found(store: StreamStore) -> None:
    await store.commit([*begun(A), Leader().append(A, *[3] * 5)])
    assert await bases(store, Oldest(A, 2)) == [0, 3]
    assert await bases(store, Oldest(A, 9)) == [0, 3, 6, 9, 12]
    await store.commit([TrimPartition(A, 7)])
    assert await bases(store, Oldest(A, 2)) == [6, 9]


async def test_batches_may_be_large_and_many(disk: Disk) -> None:
    leader = Leader()
    large, many = leader.batch(A, 1, size=1 << 20), [leader.batch(B) for _ in range(300)]
    await disk.store.commit(
        [*begun(A, B), AppendBatches([(A, large), *((B, each) for each in many)])]
    )
    asked = [Batches(A, 0, 1, 1), Batches(B, 0, 300)]
    assert await disk.store.read(asked) == [[large], many]
    assert (await found(disk, B)).end == 300


@pytest.mark.parametrize(
    "wrong",
    [
        AppendBatches([(A, batch(A, 3, last_us=1 << 40))]),
        AppendBatches([(A, batch(A, 5, last_us=1 << 40))]),
        AppendBatches([(A, batch(B, 4, last_us=1 << 40))]),
        AppendBatches([(A, batch(A, 4, 0, last_us=1 << 40))]),
        AppendBatches([(A, batch(A, 4))]),
        CutPartition(A, 1),
        ReplaceBatches(A, batch(A, 0, 1)),
        ReplaceBatches(A, batch(A, 1, 1)),
        ReplaceBatches(A, batch(A, 2, 2)),
        ReplaceBatches(A, batch(B, 0, 2)),
        SavePartition(PartitionRecord(A, "")),
    ],
)
async def test_a_write_against_the_rules_is_an_assertion_error(
    store: StreamStore, wrong: object
) -> None:
    await store.commit([*begun(A), Leader().append(A, 2, 2)])
    with pytest.raises(AssertionError):
        await store.commit([wrong])  # type: ignore[list-item]


async def test_a_partition_is_not_begun_anew_before_its_drop_ends(
    store: StreamStore,
) -> None:
    await store.commit([*begun(A), Leader().append(A, 1, 1), DropPartition(A, limit=1)])
    for wrong in (begun(A)[0], AppendBatches([(A, batch(A, 2, last_us=1 << 40))])):
        with pytest.raises(AssertionError):
            await store.commit([wrong])
