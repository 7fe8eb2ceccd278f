"""Starts of a store on a journal, tables, both, or copies of them."""

import asyncio
import errno
import shutil
import sqlite3
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest

from docstore.errors import StoreBroken, StoreDamaged
from docstore.storage.journal import headers_in
from docstore.storage.sqlite import SqliteStore
from docstore.storage.starting import Sizes
from docstore.storage.store import Append, Newest, SaveSlot, SlotRecord
from tests.docstore.storage.logs import FOR_EVER, Author
from tests.docstore.storage.small import SIZES, small

A, B = "/notes/a", "/notes/b"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "node").mkdir()
    return tmp_path / "node" / "store.db"


def journal(path: Path) -> Path:
    return Path(f"{path}.journal")


def ballast_of(path: Path) -> int:
    return Path(f"{path}.ballast").stat().st_size


def copied(path: Path, name: str) -> Path:
    """Copy a directory as a kill leaves it or a snapshot finds it; return its store."""
    to = path.parent.parent / name
    shutil.copytree(path.parent, to)
    return to / path.name


def remove(path: Path) -> None:
    path.unlink()


def put_back_tables(older: Path, path: Path) -> None:
    """Leave the journal of `path` alone, and take the tables from an older copy."""
    for end in ("", "-wal", "-shm"):
        remove(Path(f"{path}{end}"))
        shutil.copy(f"{older}{end}", f"{path}{end}")


async def begun(path: Path) -> tuple[SqliteStore, Author]:
    store, author = small(path), Author()
    await store.open()
    await author.append(store, 1, A)
    return store, author


async def end_of(path: Path) -> int:
    store = small(path)
    try:
        return (await store.open()).slots[1].end
    finally:
        await store.close()


async def test_rows_that_only_the_journal_has_are_in_the_tables_before_any_query(
    path: Path,
) -> None:
    store, author = await begun(path)
    await store.recover()
    [row] = await author.append(store, 1, B)
    await store.commit([SaveSlot(SlotRecord(1, promised=(9, "n9")))])
    killed = copied(path, "killed")
    await store.close()
    with closing(sqlite3.connect(killed)) as connection:
        assert connection.execute("SELECT count(*) FROM history").fetchone() == (1,)
    again = small(killed)
    found = await again.open()
    assert (found.slots[1].end, found.slots[1].record.promised) == (2, (9, "n9"))
    assert await again.read([Newest(1, B, FOR_EVER)]) == [[row]]
    await again.close()


async def test_a_store_closed_in_order_is_one_file(path: Path) -> None:
    store, author = await begun(path)
    await author.append(store, 1, B)
    await store.close()
    shutil.rmtree(journal(path))
    again = small(path)
    assert (await again.open()).slots[1].end == 2
    await author.append(again, 1, A)
    killed = copied(path, "killed")
    await again.close()
    assert await end_of(killed) == 3


async def test_a_store_not_closed_in_order_needs_its_journal(path: Path) -> None:
    store, _ = await begun(path)
    killed, emptied = copied(path, "killed"), copied(path, "emptied")
    await store.close()
    shutil.rmtree(journal(killed))
    for file in journal(emptied).iterdir():
        file.write_bytes(bytes(file.stat().st_size))
    for left in (killed, emptied):
        with pytest.raises(StoreDamaged, match="journal is missing"):
            await small(left).open()


async def test_a_journal_without_its_tables_is_not_taken_for_a_first_start(path: Path) -> None:
    store, _ = await begun(path)
    await store.close()
    remove(path)
    with pytest.raises(StoreDamaged, match="documents is missing"):
        await small(path).open()


async def test_a_first_start_that_was_interrupted_begins_anew(path: Path) -> None:
    journal(path).mkdir()
    (journal(path) / "0").write_bytes(bytes(5000))
    store = small(path)
    assert (await store.open()).boot == 1
    await Author().append(store, 1, A)
    await store.close()


async def test_a_journal_from_an_older_copy_is_damage(path: Path) -> None:
    store, author = await begun(path)
    older = copied(path, "older")
    await author.append(store, 1, B)
    await store.recover()
    killed = copied(path, "killed")
    await store.close()
    shutil.rmtree(journal(killed))
    shutil.copytree(journal(older), journal(killed))
    with pytest.raises(StoreDamaged, match="older than the tables"):
        await small(killed).open()


async def test_older_tables_are_completed_and_count_no_start_twice(path: Path) -> None:
    """Count on, or two starts had the same number, and peers could not distinguish them."""
    store, author = await begun(path)
    older = copied(path, "older")
    await store.close()
    assert (await store.open()).boot == 2
    await author.append(store, 1, A)
    killed = copied(path, "killed")
    await store.close()
    put_back_tables(older, killed)
    again = small(killed)
    found = await again.open()
    await again.close()
    assert (found.slots[1].end, found.boot) == (2, 3)


async def test_more_than_half_a_file_goes_into_the_tables_alone(path: Path) -> None:
    store, author = await begun(path)
    await author.append(store, 1, *[A] * 10, state=b"x" * 30_000)
    await author.append(store, 1, B)
    killed = copied(path, "killed")
    await store.close()
    assert await end_of(killed) == 12


async def test_commits_wait_for_the_tables_while_the_journal_is_full(
    path: Path,
) -> None:
    store, author = await begun(path)
    for _ in range(150):
        await author.append(store, 1, A, state=b"x" * 5000)
    killed = copied(path, "killed")
    await store.close()
    assert await end_of(killed) == 151
    assert len(list(journal(path).iterdir())) <= 4


async def test_a_journal_file_is_not_retried_at_once_without_room(
    path: Path,
) -> None:
    """Pause between attempts, as each takes room from the tables for a while."""
    store, author = await begun(path)
    loop, asked = asyncio.get_running_loop(), []

    def make(name: str) -> None:
        asked.append(loop.time())
        raise OSError(errno.ENOSPC, "No space left on device")

    store._journal.backlog.ring.make = make  # type: ignore[method-assign]
    for _ in range(60):
        await author.append(store, 1, A, state=b"x" * 5000)
        await store.recover()
    assert asked
    assert all(later - earlier >= 1 for earlier, later in pairwise(asked))
    await store.close()
    assert await end_of(path) == 61


async def test_the_last_entry_gets_a_successor_when_nothing_follows(path: Path) -> None:
    store, _ = await begun(path)
    with closing(sqlite3.connect(path)) as connection:
        [(key,)] = connection.execute("SELECT key FROM journal").fetchall()

    def bodies() -> list[int]:
        contents = [file.read_bytes() for file in journal(path).iterdir()]
        found = [header for content in contents for _, header in headers_in(key, content)]
        return [header.length for header in sorted(found)]

    await store.recover()
    async with asyncio.timeout(10):
        while bodies()[-1] > 1:
            await asyncio.sleep(0.02)
    await store.close()


async def test_failing_tables_are_reported_without_another_commit(path: Path) -> None:
    errors: list[BaseException] = []
    store = small(path)
    store.broken = errors.append
    await store.open()
    await store._file.run(
        "writer", lambda connection: connection.execute("DROP TABLE current").fetchall()
    )
    await store.commit([Append([Author().row(1, A)])])
    async with asyncio.timeout(10):
        while not errors:
            await asyncio.sleep(0.02)
    with pytest.raises(StoreBroken):
        await store.commit([Append([Author(ends={1: 1}).row(1, A)])])
    with pytest.raises(StoreBroken):
        await store.recover()
    await store.close()


@pytest.mark.parametrize("is_killed", [True, False])
async def test_a_journal_may_shrink_and_grow_at_a_start(path: Path, is_killed: bool) -> None:
    store, author = await begun(path)
    for _ in range(150):
        await author.append(store, 1, A, state=b"x" * 5000)
    left = copied(path, "killed")
    await store.close()
    left = left if is_killed else path
    assert len(list(journal(left).iterdir())) > 2
    for files_max in (2, 5):
        sizes = Sizes(SIZES.file_bytes, files_max)
        store = SqliteStore(left, sizes=sizes)
        assert (await store.open()).slots[1].end == author.ends[1]
        if files_max == 2:
            assert sorted(file.name for file in journal(left).iterdir()) == ["0", "1"]
        for _ in range(60):
            await author.append(store, 1, A, state=b"x" * 5000)
        assert len(list(journal(left).iterdir())) <= files_max
        assert ballast_of(left) == sizes.ballast_bytes
        await store.close()


def test_sizes_are_those_of_whole_files() -> None:
    assert Sizes.of(64) == Sizes()
    assert [Sizes.of(megabytes).files_max for megabytes in (16, 23, 24)] == [2, 2, 3]


def test_ballast_is_more_than_the_journal_may_need() -> None:
    sizes = Sizes()
    assert sizes.ballast_bytes > 2 * sizes.file_bytes * sizes.files_max
