"""A file of streams that is lost, or older than its node's promises, is recognised as old."""

import shutil
from pathlib import Path

import pytest

from docstore.errors import StoreBroken
from docstore.storage.partitions import (
    CutPartition,
    DropPartition,
    PartitionRecord,
    SavePartition,
    StreamsRecovered,
)
from docstore.storage.streams_sqlite import SqliteStreamStore
from tests.docstore.storage.sealed import A, B, Leader, begun, recovered


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "streams.db"


def read(path: Path) -> bytes:
    return path.read_bytes()


def write(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def remove(path: Path) -> None:
    path.unlink()


async def several_starts(path: Path) -> Path:
    """Start a few times, and return the file as it was after the first one."""
    store = SqliteStreamStore(path)
    await store.open()
    await store.commit([*begun(A, B), Leader().append(A, 1)])
    await store.close()
    kept = path.with_name("kept")
    shutil.copy(path, kept)
    await store.open()
    await store.commit([SavePartition(PartitionRecord(A, "copy", promised=(7, "n2")))])
    await store.close()
    assert (await recovered(path)).boot == 3
    return kept


async def test_a_restored_file_is_old_until_each_partition_has_a_new_copy(
    path: Path,
) -> None:
    shutil.copy(await several_starts(path), path)
    store = SqliteStreamStore(path)
    assert (await recovered(path)).is_old
    for boot in (5, 6):
        found = await store.open()
        assert (found.boot, found.is_old) == (boot, True)
        # Its data may serve as a head start.
        assert found.partitions[A].end == 1
        await store.commit([Leader({A: 1}, 9999).append(A, 1), CutPartition(A, 1)])
        await store.close()
    assert (await store.open()).is_old
    await store.commit([SavePartition(PartitionRecord(A, "new"))])
    await store.close()
    assert (await store.open()).is_old
    await store.commit([SavePartition(PartitionRecord(A, "newer")), *begun(B, copy="newer")])
    await store.close()
    assert not (await recovered(path)).is_old


async def test_a_restored_file_is_not_old_once_its_partitions_are_dropped(path: Path) -> None:
    shutil.copy(await several_starts(path), path)
    store = SqliteStreamStore(path)
    assert (await store.open()).is_old
    await store.commit([DropPartition(A), DropPartition(B)])
    await store.close()
    assert not (await recovered(path)).is_old


async def test_a_lost_file_is_replaced_by_an_empty_one(path: Path) -> None:
    await several_starts(path)
    remove(path)
    assert await recovered(path) == StreamsRecovered(boot=4, is_old=True)
    assert await recovered(path) == StreamsRecovered(boot=5)


async def test_a_start_that_ended_before_it_was_counted_does_no_harm(
    path: Path,
) -> None:
    await recovered(path)
    life = Path(f"{path}.life")
    first = read(life)
    assert len(first) == 16
    remove(life)
    assert not (await recovered(path)).is_old
    write(life, first)
    found = await recovered(path)
    assert (found.boot, found.is_old) == (3, False)


async def test_a_file_without_its_count_is_taken_for_an_old_one(path: Path) -> None:
    await several_starts(path)
    remove(Path(f"{path}.life"))
    assert (await recovered(path)).is_old


async def test_a_file_of_the_first_start_with_data_is_old_without_its_count(
    path: Path,
) -> None:
    shutil.copy(await several_starts(path), path)
    remove(Path(f"{path}.life"))
    assert (await recovered(path)).is_old


@pytest.mark.parametrize("content", [b"", b"LIFE", bytes(16), b"LIFE" + bytes(11) + b"\x01"])
async def test_a_damaged_count_is_refused_with_advice(path: Path, content: bytes) -> None:
    await recovered(path)
    write(Path(f"{path}.life"), content)
    with pytest.raises(StoreBroken, match=r"streams.db.life is damaged: .* for an older one"):
        await recovered(path)
