"""Streams on SQLite: damage is found before it is served, and foreign files are refused."""

import random
import sqlite3
import stat
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from pathlib import Path

import pytest

from docstore.errors import StoreBroken
from docstore.storage.partitions import (
    AppendBatches,
    At,
    Batches,
    CorruptPartition,
    CutPartition,
    ErasePartition,
    Oldest,
    PartitionQuery,
    PartitionRecord,
    PartitionResult,
    SavePartition,
)
from docstore.storage.store import Status
from docstore.storage.streams_sqlite import SqliteStreamStore
from tests.docstore.storage.sealed import A, B, Leader, batch, begun, recovered
from tests.docstore.storage.small import small
from tests.docstore.storage.spoiled import blank, flip, read, shorten, size, write

ALL = 1 << 40


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "streams.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SqliteStreamStore]:
    store = SqliteStreamStore(path)
    await store.open()
    yield store
    await store.close()


def remove(path: Path) -> None:
    path.unlink(missing_ok=True)


def by_hand(path: Path, sql: str) -> None:
    """Change the file behind the store's back."""
    with closing(sqlite3.connect(path)) as connection, connection:
        assert connection.execute(sql).rowcount > 0


async def status_of(path: Path, name: str = A) -> Status:
    return (await recovered(path)).partitions[name].record.status


# --- damage -------------------------------------------------------------------------------

SECOND = "WHERE id = (SELECT id FROM batches ORDER BY id LIMIT 1 OFFSET 1)"


@pytest.mark.parametrize(
    "damage",
    [
        f"UPDATE batches SET rest = CAST(x'00' || substr(rest, 2) AS BLOB) {SECOND}",
        f"UPDATE batches SET rest = substr(rest, 2) {SECOND}",
        f"UPDATE batches SET rest = x'' {SECOND}",
        f"UPDATE batches SET head = CAST(x'00' || substr(head, 2) AS BLOB) {SECOND}",
        f"UPDATE batches SET head = substr(head, 2) {SECOND}",
        f"UPDATE batches SET id = id + 1 {SECOND}",
        f"UPDATE batches SET id = id + (1 << 43) {SECOND}",
        f"DELETE FROM batches {SECOND}",
        "UPDATE tails SET first = first + 2 WHERE number = 1",
        'UPDATE tails SET "end" = "end" - 2 WHERE number = 1',
        "DELETE FROM tails WHERE number = 1",
        "UPDATE partitions SET name = 'other' WHERE number = 1",
    ],
)
async def test_a_changed_or_moved_batch_is_corrupt(
    path: Path, store: SqliteStreamStore, damage: str
) -> None:
    leader = Leader()
    await store.commit([*begun(A, B), leader.append(A, 2, 2, 2), leader.append(B, 1)])
    whole = await store.read([Batches(A, 0, 2), Batches(B, 0, ALL)])
    by_hand(path, damage)
    assert await store.read([Batches(A, 0, ALL), Batches(A, 3, 4)]) == [CorruptPartition(A)] * 2
    spared = await store.read([Batches(A, 0, 2), Batches(B, 0, ALL)])
    assert spared[0] in (whole[0], CorruptPartition(A))
    assert spared[1] == whole[1]


@pytest.mark.parametrize(
    "damage", ["checksum = checksum + 1", "head = x'00'", "head = substr(head, 2)", "id = id + 1"]
)
async def test_a_changed_head_is_not_served(
    path: Path, store: SqliteStreamStore, damage: str
) -> None:
    await store.commit([*begun(A), Leader().append(A, 2, 2, 2)])
    by_hand(path, f"UPDATE batches SET {damage} {SECOND}")
    asked = [Oldest(A, 9), At(A, 1500), Oldest(A, 1)]
    assert (await store.read(asked))[:2] == [CorruptPartition(A)] * 2
    await store.close()
    assert await status_of(path) is Status.FAULTY


LAST = "WHERE id = (SELECT max(id) FROM batches)"


@pytest.mark.parametrize(
    "damage",
    [
        f"DELETE FROM batches {LAST}",
        f"UPDATE batches SET id = id + 1 {LAST}",
        f"UPDATE batches SET head = x'00' {LAST}",
        "DELETE FROM batches",
        "DELETE FROM tails",
        'UPDATE tails SET "end" = "end" - 2',
        "UPDATE tails SET size = size - 1",
    ],
)
async def test_a_log_that_lost_its_end_is_faulty_and_can_be_begun_anew(
    path: Path, damage: str
) -> None:
    store = SqliteStreamStore(path)
    await store.open()
    saved = PartitionRecord(A, "copy", promised=(7, "n2"), producers_at=6)
    await store.commit([*begun(A), Leader().append(A, 2, 2, 2), SavePartition(saved)])
    await store.close()
    by_hand(path, damage)
    found = (await store.open()).partitions[A].record
    assert (found.status, found.promised) == (Status.FAULTY, (7, "n2"))
    anew = AppendBatches([(A, batch(A, 2, 3))])
    await store.commit([ErasePartition(A), SavePartition(PartitionRecord(A, "new")), anew])
    assert isinstance((await store.read([Batches(A, 2, 5)]))[0], list)
    await store.close()
    again = (await recovered(path)).partitions[A]
    assert (again.record.status, again.end) == (Status.FULL, 5)


async def test_a_log_that_lost_its_end_is_corrupt_for_reads_up_to_it(
    path: Path, store: SqliteStreamStore
) -> None:
    await store.commit([*begun(A), Leader().append(A, 2, 2, 2)])
    asked = [Batches(A, 0, ALL), Batches(A, 4, 5), Oldest(A, 9), At(A, 2500)]
    spared = [Batches(A, 0, 4), Oldest(A, 2)]
    whole = await store.read(spared)
    by_hand(path, f"DELETE FROM batches {LAST}")
    assert await store.read(asked) == [CorruptPartition(A)] * 4
    assert await store.read(spared) == whole


async def test_a_damaged_batch_can_be_cut_off(path: Path, store: SqliteStreamStore) -> None:
    leader = Leader()
    await store.commit([*begun(A), leader.append(A, 2, 2, 2)])
    by_hand(path, f"UPDATE batches SET head = x'00' {SECOND}")
    await store.commit([CutPartition(A, 4)])
    await store.commit([CutPartition(A, 2), AppendBatches([(A, batch(A, 2, 9, last_us=9999))])])
    await store.close()
    found = (await recovered(path)).partitions[A]
    assert (found.record.status, found.end, found.last_us) == (Status.FULL, 11, 9999)


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE partitions SET promised_epoch = promised_epoch - 1",
        "UPDATE partitions SET copy = 'another'",
        "DELETE FROM partitions",
        "UPDATE file SET boot = 0",
        "UPDATE file SET is_old = 1",
        "UPDATE file SET format = 99",
        "DELETE FROM file",
        "ALTER TABLE file RENAME TO elif",
        "CREATE TABLE another (x)",
    ],
)
async def test_a_disk_that_forgot_a_promise_is_refused(path: Path, damage: str) -> None:
    store = SqliteStreamStore(path)
    await store.open()
    await store.commit([SavePartition(PartitionRecord(A, "copy", promised=(7, "n2")))])
    await store.close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(damage)
    for _ in range(2):
        with pytest.raises(StoreBroken, match=r"damaged|missing|format|not a store of streams"):
            await recovered(path)


async def test_files_that_are_not_of_streams_are_refused(path: Path, tmp_path: Path) -> None:
    write(path, b"a letter to a friend, which is no database " * 99)
    with pytest.raises(StoreBroken, match="not a database"):
        await recovered(path)
    documents = small(tmp_path / "docstore.db")
    await documents.open()
    await documents.close()
    with pytest.raises(StoreBroken, match="not a store of streams"):
        await recovered(tmp_path / "docstore.db")
    with pytest.raises(StoreBroken):
        await recovered(tmp_path / "no" / "streams.db")


async def test_a_second_opener_is_refused_and_does_no_harm(
    path: Path, store: SqliteStreamStore
) -> None:
    with pytest.raises(StoreBroken, match="in use"):
        await recovered(path)
    await store.commit(begun(A))
    await store.close()
    await store.close()
    assert (await store.open()).boot == 2


async def test_only_its_owner_may_read_the_files(path: Path, store: SqliteStreamStore) -> None:
    await store.commit(begun(A))
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    ends = ("", "-wal", "-shm", ".lock", ".life", ".ballast")
    assert modes == dict.fromkeys((f"streams.db{end}" for end in ends), 0o600)


async def test_the_log_of_streams_is_copied_back_and_stays_short(path: Path) -> None:
    store, leader = SqliteStreamStore(path, synchronous="OFF"), Leader()
    await store.open()
    await store.commit(begun(A))
    for _ in range(60):
        await store.commit([leader.append(A, 1, size=1 << 20)])
        wal = size(Path(f"{path}-wal"))
        assert wal < 32 << 20
    assert wal + size(path) > 60 << 20
    await store.close()


# --- any damage -------------------------------------------------------------------------------

NAMES = [f"flights/{number}@1" for number in range(6)]
QUERIES: list[PartitionQuery] = [
    query
    for name in NAMES
    for query in (
        Batches(name, 0, ALL, 1 << 30),
        Batches(name, 7, 9),
        Batches(name, 3, ALL, 2000),
        At(name, 9000),
        Oldest(name, 3),
        Oldest(name, 99),
    )
]


@pytest.fixture
async def whole(path: Path) -> list[PartitionResult]:
    """Return the answers of a store whose file is then closed at `path`."""
    store, leader, rng = SqliteStreamStore(path, synchronous="OFF"), Leader(), random.Random(1)
    await store.open()
    await store.commit(begun(*NAMES))
    for _ in range(12):
        appended = [leader.append(name, 2, size=rng.choice((20, 300, 4000))) for name in NAMES]
        await store.commit(appended)
    answers = await store.read(QUERIES)
    await store.close()
    return answers


def flip_early(content: bytearray, rng: random.Random) -> None:
    """Flip a bit in the inner pages or the small tables."""
    content[rng.randrange(6 * 4096)] ^= 1 << rng.randrange(8)


DAMAGE = [
    (flip, 30),
    (flip_early, 60),
    (blank, 30),
    (shorten, 10),
    pytest.param(flip, 300, marks=pytest.mark.thorough),
    pytest.param(flip_early, 1500, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("damage", "times"), DAMAGE)
async def test_no_damage_to_the_file_of_streams_is_ever_served(
    path: Path,
    whole: list[PartitionResult],
    damage: Callable[[bytearray, random.Random], None],
    times: int,
) -> None:
    original, found = read(path), 0
    for seed in range(times):
        content = bytearray(original)
        damage(content, random.Random(seed))
        other = path.with_name("other")
        for end in ("", "-wal", "-shm", ".life"):
            remove(Path(f"{other}{end}"))
        write(other, bytes(content))
        store = SqliteStreamStore(other, synchronous="OFF")
        try:
            partitions = (await store.open()).partitions
        except StoreBroken:
            found += 1
            continue
        try:
            answers = await store.read(QUERIES)
        except StoreBroken:
            found += 1
            continue
        finally:
            await store.close()
        assert sorted(partitions) == NAMES
        faulty = {n for n, it in partitions.items() if it.record.status is Status.FAULTY}
        for query, answer, right in zip(QUERIES, answers, whole, strict=True):
            assert answer in (right, CorruptPartition(query.name)), f"seed {seed}: {query}"
        found += CorruptPartition in map(type, answers) or bool(faulty)
    assert found > times // 20
