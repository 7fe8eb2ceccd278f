"""A file of an earlier format becomes one of this version in one transaction, or stays as it is.

The steps are made up: each adds a column and fills it, in every row of the largest table.
"""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

import pytest

from docstore.errors import DiskFull, StoreBroken, StoreError
from docstore.storage import migrations
from docstore.storage.migrations import Kind, Step
from docstore.storage.sqlite import SqliteStore
from docstore.storage.streams_sqlite import SqliteStreamStore
from tests.disk import script, stream_script
from tests.disk.connection import Connection
from tests.disk.disk import Disk
from tests.disk.failures import Raises, error_of_disk, no_room
from tests.disk.vfs import Vfs
from tests.docstore.storage.small import small

COLUMN = "ALTER TABLE {} ADD COLUMN later{} INTEGER NOT NULL DEFAULT 0"
FILLED = "UPDATE {} SET later{} = rowid + 1"


@dataclass(frozen=True)
class Stored:
    """A kind of file, and its properties for the tests."""

    name: str
    kind: Kind
    what: ModuleType
    largest: str
    store: Callable[[Path], SqliteStore | SqliteStreamStore]
    batches: int
    """Number of batches in the file, so that a start makes some 150 calls of the disk."""

    def later(self, *steps: Step) -> Kind:
        """Return this kind in a later version with these steps."""
        present = self.kind.format
        return self.kind._replace(
            format=present + len(steps), steps=dict(enumerate(steps, present))
        )

    def installed(self, monkeypatch: pytest.MonkeyPatch, kind: Kind) -> None:
        """Run another version."""
        monkeypatch.setattr(migrations, self.name, kind)

    def step(self, number: int = 0, *, between: str = "SELECT 1") -> Step:
        """Return a step that adds a column and fills it."""

        def step(connection: sqlite3.Connection) -> None:
            connection.execute(COLUMN.format(self.largest, number))
            connection.execute(between)
            connection.execute(FILLED.format(self.largest, number))

        return step


STORED = [
    Stored("DOCUMENTS", migrations.DOCUMENTS, script, "history", small, 30),
    Stored("STREAMS", migrations.STREAMS, stream_script, "batches", SqliteStreamStore, 8),
]


@pytest.fixture(params=STORED, ids=["documents", "streams"])
def stored(request: pytest.FixtureRequest) -> Stored:
    found: Stored = request.param
    return found


Content = list[tuple[str, list[tuple[Any, ...]]]]


def content(connection: Any) -> Content:
    """Return all content of a file: definitions and lines, with the boot counter."""
    tables = connection.execute("SELECT name, sql FROM sqlite_master ORDER BY name").fetchall()
    return [
        (str(sql), sorted(connection.execute(f"SELECT * FROM {name}").fetchall(), key=repr))
        for name, sql in tables
        if str(sql).startswith("CREATE TABLE")
    ]


class Files:
    """A disk with a file of the present format, for any number of starts."""

    def __init__(self, stored: Stored) -> None:
        self.stored = stored
        disk = Disk()
        self.found = self._with(disk, self._written)
        self._files = {name: file.now for name, file in disk.files.items()}

    def _written(self, connection: Connection) -> Content:
        writer = self.stored.what.prepared(connection)
        for batch in self.stored.what.batches(Random(1), self.stored.batches):
            writer.commit(batch)
        return content(connection)

    def disk(self) -> Disk:
        return Disk({name: bytearray(file) for name, file in self._files.items()})

    def started(self, disk: Disk, before: Callable[[str], None] = lambda call: None) -> Content:
        """Start on a disk and copy back; return the content of the file. Raises StoreError."""

        def job(connection: Connection) -> Content:
            disk.before = before
            try:
                self.stored.what.prepared(connection).copy_back("PASSIVE")
            finally:
                disk.before = lambda call: None
            return content(connection)

        return self._with(disk, job)

    def held(self, disk: Disk) -> Content:
        """Return the content of the file on a disk, as another program finds it."""
        return self._with(disk, content)

    def _with(self, disk: Disk, job: Callable[[Connection], Content]) -> Content:
        vfs = Vfs(disk)
        connection = Connection(vfs)
        try:
            return job(connection)
        finally:
            connection.close()
            vfs.unregister()


def cuts(files: Files) -> tuple[int, int]:
    """Cut the power at each call of a start; return the numbers of whole and of other images."""
    after = files.started(files.disk())
    disk, rng = files.disk(), Random(2)
    whole = odd = 0

    def look(call: str) -> None:
        nonlocal whole, odd
        if call == "read" or odd:
            return
        for _ in range(3):
            if files.held(disk.cut(rng)) in (files.found, after):
                whole += 1
            else:
                odd += 1

    files.started(disk, look)
    return whole, odd


def test_a_power_cut_at_any_call_leaves_one_format_or_the_other(
    stored: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = Files(stored)
    stored.installed(monkeypatch, stored.later(stored.step(0), stored.step(1)))
    whole, odd = cuts(files)
    assert whole > 100
    assert odd == 0


@pytest.mark.thorough
def test_a_step_committed_before_its_number_is_noticed(
    stored: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = Files(stored)

    def committed(connection: sqlite3.Connection) -> None:
        stored.step()(connection)
        connection.execute("COMMIT")
        connection.execute("BEGIN IMMEDIATE")

    stored.installed(monkeypatch, stored.later(committed))
    assert cuts(files)[1] > 0


@pytest.mark.parametrize(
    "raises", [error_of_disk, pytest.param(no_room, marks=pytest.mark.thorough)]
)
def test_a_failed_call_leaves_one_format_or_the_other(
    stored: Stored, raises: Raises, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = Files(stored)
    stored.installed(monkeypatch, stored.later(stored.step()))
    calls: list[str] = []
    after, failed, count = files.started(files.disk(), calls.append), 0, 0

    def fail(call: str) -> None:
        nonlocal count
        count += 1
        if count == nth and (error := raises(call)) is not None:
            raise error

    for nth in (number for number, call in enumerate(calls, 1) if raises(call) is not None):
        disk, count = files.disk(), 0
        try:
            files.started(disk, fail)
        except (StoreBroken, DiskFull):
            failed += 1
        for image in (disk.killed(), disk.cut(Random(nth))):
            assert files.held(image) in (files.found, after), nth
    assert failed > 10


def test_steps_run_in_order_and_the_boot_is_counted_once(
    stored: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = Files(stored)
    disk = files.disk()
    stored.installed(monkeypatch, stored.later(stored.step(0), stored.step(1)))
    files.started(disk)
    vfs = Vfs(disk)
    with closing(Connection(vfs)) as connection:
        select = f"SELECT format, boot FROM {stored.kind.table}"
        [line] = connection.execute(select).fetchall()
        filled = f"SELECT count(*) FROM {stored.largest} WHERE later0 = 0 OR later0 != later1"
        assert connection.execute(filled).fetchone() == (0,)
    boots = {"DOCUMENTS": 2, "STREAMS": 3}  # The count beside the file of streams began at one.
    assert line == (stored.kind.format + 2, boots[stored.name])


async def one_start(stored: Stored, path: Path) -> Any:
    store = stored.store(path)
    try:
        return await store.open()
    finally:
        await store.close()


async def test_a_failed_step_leaves_the_file_to_the_earlier_version(
    stored: Stored, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "store.db"
    first = await one_start(stored, path)

    def failing(connection: sqlite3.Connection) -> None:
        stored.step(1)(connection)
        raise KeyError("what this step did not expect")

    stored.installed(monkeypatch, stored.later(stored.step(0), failing))
    with pytest.raises(KeyError):
        await one_start(stored, path)
    no_such_table = stored.step(1, between="SELECT * FROM nowhere")
    stored.installed(monkeypatch, stored.later(stored.step(0), no_such_table))
    with pytest.raises(StoreBroken, match="no such table"):
        await one_start(stored, path)
    stored.installed(monkeypatch, stored.kind)
    assert (await one_start(stored, path)).boot == first.boot + 1


async def test_a_file_of_a_later_version_is_refused_with_advice_and_not_changed(
    stored: Stored, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, present = tmp_path / "store.db", stored.kind.format
    await one_start(stored, path)
    stored.installed(monkeypatch, stored.later(stored.step()))
    before = await one_start(stored, path)
    stored.installed(monkeypatch, stored.kind)
    what = rf"has format {present + 1}, and this version reads up to {present}: start the version"
    for _ in range(2):
        with pytest.raises(StoreBroken, match=what):
            await one_start(stored, path)
    stored.installed(monkeypatch, stored.later(stored.step()))
    assert (await one_start(stored, path)).boot == before.boot + 1


@pytest.mark.parametrize("damage", ["CREATE TABLE another (x)", "UPDATE {} SET boot = boot + 1"])
async def test_no_step_runs_on_a_damaged_file(
    stored: Stored, damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "store.db"
    played: list[sqlite3.Connection] = []
    await one_start(stored, path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(damage.format(stored.kind.table))
    stored.installed(monkeypatch, stored.later(played.append))
    with pytest.raises(StoreError, match="damaged"):
        await one_start(stored, path)
    assert not played


async def test_an_empty_file_is_created_in_the_present_format(
    stored: Stored, tmp_path: Path
) -> None:
    path = tmp_path / "store.db"
    await one_start(stored, path)
    with closing(sqlite3.connect(path)) as connection:
        [(found,)] = connection.execute(f"SELECT format FROM {stored.kind.table}").fetchall()
    assert found == stored.kind.format
