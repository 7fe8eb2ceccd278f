"""The shell around the journal in failures: every waiting call gets an error, every close ends."""

import asyncio
import errno
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from docstore.errors import DiskFull, StoreBroken
from docstore.storage import backlog, fullness, journal_line
from docstore.storage.journal_thread import JournalThread
from docstore.storage.ring import Entry
from docstore.storage.sqlite import SqliteStore
from docstore.storage.store import SaveConfiguration, SaveSlot, SlotRecord
from docstore.storage.writing import Writer
from tests.disk.disk import Disk
from tests.disk.files import DiskOfFiles
from tests.disk.script import NO_FILE
from tests.docstore.storage.small import SIZES, small

WAIT_S = 10.0
FIRST, SECOND = SaveSlot(SlotRecord(1)), SaveSlot(SlotRecord(2))


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = small(tmp_path / "store.db")
    await store.open()
    yield store
    await asyncio.wait_for(store.close(), WAIT_S)


async def becomes(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not condition():
            await asyncio.sleep(0.01)


def held(monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, threading.Event]:
    """Pause the tables while they follow; return an event of the pause, and one that ends it."""
    begun, may_end, follow = threading.Event(), threading.Event(), Writer.follow

    def slow(*args: Any, **named: Any) -> None:
        begun.set()
        assert may_end.wait(WAIT_S)
        follow(*args, **named)

    monkeypatch.setattr(Writer, "follow", slow)
    return begun, may_end


def fails_once(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> list[object]:
    """Have the next write to the journal fail; return the list of all attempted writes."""
    assert store._files is not None
    files, write = store._files, store._files.write
    tried: list[object] = []

    def once(name: str, offset: int, parts: Sequence[bytes]) -> None:
        tried.append((name, offset))
        if len(tried) == 1:
            raise error
        write(name, offset, parts)

    monkeypatch.setattr(files, "write", once)
    return tried


# --- the journal fails ------------------------------------------------------------------------


async def test_nothing_is_written_after_a_write_that_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pinned: the tables were following; then a mark was written behind the torn entry."""
    path = tmp_path / "store.db"
    store = small(path)
    await store.open()
    begun, may_end = held(monkeypatch)
    await store.commit([FIRST])
    store.hurry()
    await becomes(begun.is_set)
    tried = fails_once(store, monkeypatch, OSError(errno.EIO, "once"))
    with pytest.raises(StoreBroken, match="once"):
        await store.commit([SECOND])
    may_end.set()
    await becomes(lambda: store._journal._task is None)
    await store.close()
    assert len(tried) == 1
    assert await slots_in(path) == [1]


async def test_a_thread_that_has_failed_writes_nothing_more() -> None:
    class Once(DiskOfFiles):
        def __init__(self) -> None:
            super().__init__(Disk())
            self.tried: list[str] = []

        def write(self, name: str, offset: int, parts: Sequence[bytes]) -> None:
            self.tried.append(name)
            if len(self.tried) == 2:
                raise OSError(errno.EIO, "once")

    files, errors = Once(), []
    thread = JournalThread(files)
    for name in "abcd":
        thread.write(Entry(None, name, 0), errors.append)  # type: ignore[arg-type]
    thread.close()
    await becomes(lambda: len(errors) == 4)
    assert files.tried == ["a", "b"]
    assert errors[0] is None
    assert [type(each) for each in errors[1:]] == [OSError] * 3


async def test_any_error_in_the_thread_fails_the_commits(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    fails_once(store, monkeypatch, MemoryError("no error of the disk"))
    async with asyncio.timeout(WAIT_S):
        for _ in range(2):
            with pytest.raises(StoreBroken, match="no error of the disk"):
                await store.commit([FIRST])


# --- the tables fail --------------------------------------------------------------------------


def test_errors_of_a_following_transaction_are_store_errors(tmp_path: Path) -> None:
    def follow(log: Path, forbidden: int) -> None:
        with closing(sqlite3.connect(tmp_path / "store.db", isolation_level=None)) as connection:
            writer = Writer(connection, NO_FILE)
            writer.prepare("store")
            line = journal_line.read(connection)
            connection.set_authorizer(
                lambda action, *_: sqlite3.SQLITE_DENY if action == forbidden else sqlite3.SQLITE_OK
            )
            Writer(connection, log).follow((), line, durably=True)

    follow(NO_FILE, -1)
    with pytest.raises(StoreBroken, match="not authorized"):
        follow(NO_FILE, sqlite3.SQLITE_PRAGMA)
    with pytest.raises(StoreBroken, match="too long"):
        follow(tmp_path / ("x" * 300), -1)


# --- no room, and the end ---------------------------------------------------------------------


@contextmanager
def without_room(monkeypatch: pytest.MonkeyPatch, for_s: float) -> Iterator[None]:
    """Have the tables find no room, even without the ballast, and be due at once."""

    def follow(*_: object, **__: object) -> None:
        raise DiskFull("no room")

    with monkeypatch.context() as patched:
        patched.setattr(Writer, "follow", follow)
        patched.setattr(backlog, "BYTES_DUE", 1)
        patched.setattr(fullness, "WITHOUT_ROOM_S", for_s)
        yield


async def slots_in(path: Path) -> list[int]:
    """Return the slots that a start finds."""
    store = small(path)
    try:
        return sorted((await store.open()).slots)
    finally:
        await store.close()


async def test_a_store_without_room_for_long_breaks_and_its_journal_has_all_commits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, errors = small(tmp_path / "store.db"), []
    store.broken = errors.append
    await store.open()
    with without_room(monkeypatch, 0.3):
        await store.commit([FIRST])
        with pytest.raises(StoreBroken, match="no room for the journal"):
            await asyncio.wait_for(store.recover(), WAIT_S)
        with pytest.raises(StoreBroken, match="no room for the journal"):
            await store.commit([SECOND])
        await asyncio.wait_for(store.close(), WAIT_S)
    (error,) = map(str, errors)
    assert error == (
        "the disk is full: the tables have no room for the journal's entries; make room and"
        " start again"
    )
    assert await slots_in(tmp_path / "store.db") == [1]


async def test_a_store_that_gets_room_in_time_does_not_break(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for slot in range(1, 4):
        with without_room(monkeypatch, WAIT_S):
            await store.commit([SaveSlot(SlotRecord(slot))])
            await becomes(lambda: store._journal.is_full)
        await store.recover()
        assert not store._journal._fullness.is_stuck
        await becomes(lambda: not store._journal.is_full)


async def test_a_store_without_room_can_be_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pinned: it retried for ever. A read that waits for the tables fails."""
    store = small(tmp_path / "store.db")
    await store.open()
    with without_room(monkeypatch, 999):
        await store.commit([FIRST])
        await becomes(lambda: store._journal.is_full)
        reader = asyncio.create_task(store.recover())
        await becomes(lambda: store._journal._waits)
        await asyncio.wait_for(store.close(), WAIT_S)
        with pytest.raises(StoreBroken, match="no room"):
            await asyncio.wait_for(reader, WAIT_S)
    assert await slots_in(tmp_path / "store.db") == [1]


async def test_a_commit_not_begun_at_the_close_is_refused(
    tmp_path: Path,
) -> None:
    """Pinned: one that is too large for the journal was never answered."""
    store, errors = small(tmp_path / "store.db"), []
    await store.open()
    await store.commit([FIRST])
    store.submit([SaveConfiguration(b"x" * SIZES.file_bytes)], errors.append)
    await asyncio.wait_for(store.close(), WAIT_S)
    assert list(map(str, errors)) == ["the store is closed"]
    assert await slots_in(tmp_path / "store.db") == [1]
