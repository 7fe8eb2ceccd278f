"""Real faults of a real disk: no room, a failed fsync, a failed write, a process that is killed."""

import asyncio
import resource
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from docstore.errors import DiskFull, StoreBroken
from docstore.storage.sqlite import SqliteStore
from docstore.storage.store import Append, Newest, Rows, SaveSlot, SlotRecord, Write
from tests.docstore.storage.logs import FOR_EVER, Author
from tests.docstore.storage.small import small

ROOT = Path(__file__).parents[3]
A, B = "/notes/a", "/notes/b"


def committer(path: Path, rows: int) -> list[str]:
    return [sys.executable, "-m", "tests.docstore.storage.committer", str(path), str(rows)]


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = small(tmp_path / "store.db")
    await store.open()
    yield store
    await store.close()


async def fill(store: SqliteStore) -> int:
    """Commit until there is no room; return how many rows were acknowledged."""
    author = Author()
    for _ in range(1000):
        try:
            await author.append(store, 1, A, state=b"x" * 20_000)
        except DiskFull:
            return author.ends[1] - 1
    pytest.fail("the disk has no end")


async def retry_while_full(store: SqliteStore, batch: list[Write]) -> None:
    """Retry a commit until there is room for it."""
    async with asyncio.timeout(10):
        while True:
            try:
                await store.commit(batch)
            except DiskFull:
                await asyncio.sleep(0.02)
            else:
                return


async def test_a_full_disk_refuses_commits_and_keeps_its_rows(small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(2_000_000))
    store = small(small_disk / "store.db")
    await store.open()
    try:
        acknowledged = await fill(store)
        assert acknowledged > 5
        # Refused again, whole: neither the row nor the record of the batch is there.
        author = Author(ends={1: acknowledged})
        batch: list[Write] = [
            Append([author.row(1, B, state=b"x" * 100_000)]),
            SaveSlot(SlotRecord(1, (9, "n9"))),
        ]
        for _ in range(3):
            with pytest.raises(DiskFull):
                await store.commit(batch)
        [rows] = await store.read([Rows(1, 1, 999, bytes_max=1 << 30)])
        assert isinstance(rows, list)
        assert len(rows) == acknowledged
        assert (await store.recover()).slots[1].record == SlotRecord(1)
        ballast.unlink()
        await retry_while_full(store, batch)
    finally:
        await store.close()
    store = small(small_disk / "store.db")
    slot = (await store.open()).slots[1]
    await store.close()
    assert (slot.end, slot.record.promised) == (acknowledged + 1, (9, "n9"))


async def test_a_file_that_may_not_grow_is_a_full_disk(store: SqliteStore) -> None:
    """As above where nothing can be mounted: SQLite's own limit ends in the same error."""
    writer = store._file.threads["writer"]
    await writer.run(lambda connection: connection.execute("PRAGMA max_page_count = 60").fetchall())
    acknowledged = await fill(store)
    assert acknowledged > 5
    [newest] = await store.read([Newest(1, A, FOR_EVER)])
    assert isinstance(newest, list)
    assert newest[0].n == acknowledged
    await writer.run(
        lambda connection: connection.execute("PRAGMA max_page_count = 9999").fetchall()
    )
    batch: list[Write] = [Append([Author(ends={1: acknowledged}).row(1, B)])]
    await retry_while_full(store, batch)
    assert (await store.recover()).slots[1].end == acknowledged + 1


async def test_a_failed_write_breaks_the_store_for_ever(tmp_path: Path) -> None:
    store, author = small(tmp_path / "store.db"), Author()
    await store.open()
    try:
        await author.append(store, 1, A)
        size = (tmp_path / "store.db").stat().st_size + (tmp_path / "store.db-wal").stat().st_size
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
        try:
            with pytest.raises(StoreBroken):
                await author.append(store, 1, A, state=b"x" * 1_000_000)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        for _ in range(2):
            with pytest.raises(StoreBroken):
                await Author(ends={1: 1}).append(store, 1, B)
    finally:
        await store.close()
    assert (await store.open()).slots[1].end == 1
    await store.close()


def said(lines: str) -> tuple[list[int], list[str]]:
    """Return the acknowledged rows and the errors in a committer's output."""
    words = lines.splitlines()[1:]
    return [int(word) for word in words if word.isdigit()], [
        word for word in words if not word.isdigit()
    ]


async def recovered_end(path: Path) -> int:
    store = small(path)
    try:
        slot = (await store.open()).slots[1]
        [rows] = await store.read([Rows(1, 1, slot.end, bytes_max=1 << 30)])
        assert isinstance(rows, list)
        assert len(rows) == slot.end
        return slot.end
    finally:
        await store.close()


@pytest.mark.parametrize(
    ("calls", "when", "least"),
    [("pwritev2", 12, 9), ("fdatasync", 10, 0)],
    ids=["the journal", "the tables"],
)
def test_a_failed_sync_breaks_the_store_for_ever(
    tmp_path: Path, calls: str, when: int, least: int
) -> None:
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("strace makes the call fail")
    path = tmp_path / "store.db"
    fails = f"inject={calls}:error=EIO:when={when}"
    traced = [strace, "-f", "-qq", "-o", str(tmp_path / "trace"), "-e", f"trace={calls}"]
    done = subprocess.run(
        [*traced, "-e", fails, *committer(path, 300)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if "PTRACE" in done.stderr or "Operation not permitted" in done.stderr:
        pytest.skip("strace may not trace here")
    assert done.returncode == 0, done.stderr
    assert "INJECTED" in (tmp_path / "trace").read_text()
    rows, errors = said(done.stdout)
    # One call failed, once; later ones would succeed, and are not made.
    assert least <= len(rows) < 300
    assert errors == ["StoreBroken"] * (300 - len(rows))
    assert asyncio.run(recovered_end(path)) >= max(rows, default=0)


@pytest.mark.parametrize("until", [1, 25, 60])
async def test_a_killed_process_loses_no_acknowledged_row(tmp_path: Path, until: int) -> None:
    path = tmp_path / "store.db"
    for boot in (1, 3):  # The second boot is that of `recovered_end`.
        process = await asyncio.create_subprocess_exec(
            *committer(path, 100_000), cwd=ROOT, stdout=subprocess.PIPE
        )
        assert process.stdout is not None
        assert await process.stdout.readline() == b"boot %d\n" % boot
        for _ in range(until):
            await process.stdout.readline()
        process.kill()
        # Its output before the kill counts, too.
        rest = (await process.stdout.read()).split(b"\n")
        await process.wait()
        whole = [int(line) for line in rest[:-1]]
        assert await recovered_end(path) >= max(whole, default=until)


async def test_another_process_is_refused(tmp_path: Path, store: SqliteStore) -> None:
    done = await asyncio.create_subprocess_exec(
        *committer(tmp_path / "store.db", 1), cwd=ROOT, stderr=subprocess.PIPE
    )
    _, stderr = await done.communicate()
    assert done.returncode == 1
    assert b"in use by another process" in stderr
    await Author().append(store, 1, A)
