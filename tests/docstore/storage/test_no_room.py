"""A start on a full disk: refused in one line, or made in the reserved room."""

import asyncio
import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from docstore.documents.events import DiskFilled
from docstore.errors import DiskFull
from docstore.model.operation import Answer, Operation
from docstore.storage import journalling
from docstore.storage.ballast import Ballast
from docstore.storage.fullness import KEPT, KEPT_FROM_ROWS
from docstore.storage.sqlite import SqliteStore
from docstore.storage.starting import Sizes
from docstore.storage.store import Append, SaveConfiguration, SaveSlot, SlotRecord
from tests.docstore.alone import LINK, SLOTS, alone
from tests.docstore.storage.logs import Author
from tests.docstore.storage.small import SIZES, small

LARGE = Sizes(file_bytes=1 << 20, files_max=3)
"""Sizes whose ballast alone is larger than the small disk."""


def fill(disk: Path) -> Path:
    """Fill the disk; return the file that does it."""
    filler = disk / "filler"
    take_the_rest(filler)
    return filler


def take_the_rest(filler: Path) -> None:
    """Let a file grow until there is no room."""
    with filler.open("ab", buffering=0) as file:
        for size in (64 << 10, 4096):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                pass


def ballast(path: Path) -> Path:
    return Path(f"{path}.ballast")


def remove(path: Path, end: str) -> None:
    Path(f"{path}{end}").unlink()


async def killed_behind(path: Path, monkeypatch: pytest.MonkeyPatch, to: Path) -> Path:
    """Leave in `to` a store killed before its tables had followed its journal."""
    path.parent.mkdir()
    with monkeypatch.context() as patch:
        patch.setattr(journalling, "FOLLOW_S", 3600)
        store = small(path)
        await store.open()
        for number in range(20):
            await store.commit([SaveConfiguration(bytes([number]) * 20_000)])
        shutil.copytree(path.parent, to, dirs_exist_ok=True)
        await store.close()
    return to / path.name


async def test_a_store_without_room_is_not_begun(small_disk: Path) -> None:
    """Refuse, as the store could take no write, which no client would learn."""
    path = small_disk / "store.db"
    with pytest.raises(DiskFull, match=r"store.db: no room for a start, which takes 10 MiB: 3 MiB"):
        await SqliteStore(path, sizes=LARGE).open()
    assert not ballast(path).exists()
    assert os.statvfs(small_disk).f_bavail * 4096 > 3 << 20
    store = small(path)
    assert (await store.open()).boot == 1
    await store.commit([SaveConfiguration(b"begun")])
    await store.close()


async def test_a_ballast_without_room_for_the_journal_is_not_enough(small_disk: Path) -> None:
    path = small_disk / "store.db"
    filler = fill(small_disk)
    with filler.open("ab") as file:
        file.truncate(filler.stat().st_size - SIZES.ballast_bytes - (100 << 10))
    with pytest.raises(DiskFull, match="no room for a start"):
        await small(path).open()
    assert not ballast(path).exists()


async def test_an_older_store_gets_no_journal_without_room(small_disk: Path) -> None:
    path = small_disk / "store.db"
    store = small(path)
    await store.open()
    await store.close()
    shutil.rmtree(Path(f"{path}.journal"))
    ballast(path).unlink()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TABLE journal")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    before = path.read_bytes()
    with pytest.raises(DiskFull, match="no room for a start"):
        await SqliteStore(path, sizes=LARGE).open()
    assert path.read_bytes() == before


@pytest.mark.parametrize("is_index_there", [True, False], ids=["killed", "rebooted"])
async def test_the_journal_goes_into_the_tables_on_a_full_disk(
    tmp_path: Path, small_disk: Path, monkeypatch: pytest.MonkeyPatch, is_index_there: bool
) -> None:
    path = await killed_behind(tmp_path / "node" / "store.db", monkeypatch, small_disk)
    if not is_index_there:
        remove(path, "-shm")
    filler = fill(small_disk)
    store = small(path)
    with capture_logs() as lines:
        found = await store.open()
        assert found.configuration == bytes([19]) * 20_000
        assert [line["log_level"] for line in lines] == ["warning"]
        with pytest.raises(DiskFull):
            await store.commit([SaveConfiguration(bytes(SIZES.ballast_bytes // 2))])
        assert (await store.recover()).configuration == bytes([19]) * 20_000
        filler.unlink()
        async with asyncio.timeout(10):
            while store.measures()["docstore_journal_full"]:
                await asyncio.sleep(0.02)
        assert [line["log_level"] for line in lines] == ["warning"] * 2
    await store.commit([SaveConfiguration(b"later")])
    await store.close()
    assert ballast(path).exists()


async def rows_until_there_is_no_room(store: SqliteStore, author: Author) -> int:
    """Commit rows until they are refused; return how many were accepted."""
    for taken in range(1000):
        row = author.row(1, f"/full/{taken}", state=b"x" * 8000)
        try:
            await store.commit([Append([row])])
        except DiskFull:
            return taken
    pytest.fail("the disk has no end")


async def test_a_full_disk_takes_promises_for_longer_than_rows(
    small_disk: Path,
) -> None:
    """Pinned: it accepted nothing, so no node could own a slot, and no read was served."""
    store, author = small(small_disk / "store.db"), Author()
    await store.open()
    filler = fill(small_disk)
    taken = await rows_until_there_is_no_room(store, author)
    assert store.is_full
    await store.recover()  # Everything is in the tables.
    promised = SlotRecord(1, promised=(7, "n1"))
    await store.commit([SaveSlot(promised)])
    assert (await store.recover()).slots[1].record == promised
    free = Ballast(ballast(small_disk / "store.db"), SIZES.ballast_bytes).left(0)
    assert KEPT < free < KEPT_FROM_ROWS + 0.1
    backlog = store._journal.backlog
    async with asyncio.timeout(10):
        while not (backlog.is_empty and backlog.is_flushed and backlog._is_marked):
            await asyncio.sleep(0.02)
    take_the_rest(filler)  # Another program takes the released room.
    with pytest.raises(DiskFull):
        await store.commit([SaveSlot(SlotRecord(1, promised=(8, "n1")))])
    found = (await store.recover()).slots[1]
    assert (found.record, found.end) == (promised, taken)
    filler.unlink()
    async with asyncio.timeout(10):
        while store.is_full:
            await asyncio.sleep(0.02)
    await store.commit([SaveSlot(SlotRecord(1, promised=(8, "n1")))])
    await store.close()


async def test_a_lone_node_with_a_full_disk_serves_reads(small_disk: Path) -> None:
    """Pinned: no slot had an owner until there was room; updates were refused as "no-owner"."""
    store = small(small_disk / "store.db")
    driver, replica = await alone(store)
    read = Operation(verb="GET", link=LINK)

    async def put(number: int) -> Answer:
        body = b'{"name": "%s"}' % (b"x" * 8000)
        operation = Operation(verb="PUT", link=f"{LINK}{number}", body=body, creates=True)
        return await driver.submit(operation, 1.0)

    try:
        async with asyncio.timeout(30):
            first = Operation(verb="PUT", link=LINK, body=b'{"name": "a"}', creates=True)
            assert (await driver.submit(first, 5.0)).status == 201
            filler, number = fill(small_disk), 0
            while (answer := await put(number)).status == 201:
                number += 1
            # That one may have been on its way to the disk when it became full: unknown.
            assert (answer.status, answer.code) in [(503, "disk-full"), (504, "undecided")]
            refused = await put(number)
            assert (refused.status, refused.code, refused.unknown) == (503, "disk-full", False)
            assert (await driver.submit(read, 5.0)).status == 200
            ended = replica.core.counters["reigns_ended"]
            driver.feed(DiskFilled(await store.recover()))  # All slots are taken over anew.
            assert replica.core.counters["reigns_ended"] == ended + SLOTS
            assert (await driver.submit(read, 5.0)).status == 200
            assert (await put(number)).code == "disk-full"
            filler.unlink()
            while (await put(number)).status != 201:
                await asyncio.sleep(0.02)
    finally:
        await driver.stop()
        await store.close()


async def test_a_store_closes_in_order_in_its_reserved_room(
    small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journalling, "FOLLOW_S", 3600)
    path = small_disk / "store.db"
    store = small(path)
    await store.open()
    for number in range(10):
        await store.commit([SaveConfiguration(bytes([number]) * 20_000)])
    fill(small_disk)
    await store.close()
    with closing(sqlite3.connect(path)) as connection:
        [(alone,)] = connection.execute("SELECT alone FROM journal").fetchall()
        [(configuration,)] = connection.execute("SELECT configuration FROM node").fetchall()
    assert (alone, configuration) == (1, bytes([9]) * 20_000)


def docstore(*arguments: str) -> tuple[int, list[str]]:
    """Run a command; return its exit code and its output lines."""
    done = subprocess.run(
        [sys.executable, "-m", "docstore", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return done.returncode, (done.stdout + done.stderr).splitlines()


def test_a_first_start_without_room_is_one_line(
    small_disk: Path,
) -> None:
    data = small_disk / "node"
    code, said = docstore("serve", "--data", str(data))
    assert (code, len(said)) == (75, 1), said
    assert f"{data / 'docstore.db'}: no room for a start, which takes 160 MiB: 3 MiB" in said[0]


async def test_a_configuration_is_not_forced_on_a_disk_without_room(small_disk: Path) -> None:
    store = small(small_disk / "docstore.db")
    await store.open()
    await store.commit([SaveConfiguration(b"its group")])
    await store.close()
    (small_disk / "node-id").write_text("n1\n")
    fill(small_disk)
    code, said = await asyncio.to_thread(
        docstore, "force-config", "--data", str(small_disk), "--yes"
    )
    assert (code, len(said)) == (1, 1), said
    assert "no room" in said[0]
