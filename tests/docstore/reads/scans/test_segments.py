"""Slots at rest, kept as columns: scans return the same rows as from the file."""

import asyncio
import os
import signal
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from docstore.errors import Unavailable
from docstore.reads.scans.pool import ScanPool, has_arrow
from docstore.reads.scans.worker import PageServer
from tests.docstore.reads.scans.copies import Copy

if not has_arrow():
    pytest.skip("segments need pyarrow", allow_module_level=True)

PLENTY = 1 << 20
WIDE = ["documentSelfLink", "documentVersion", "seq", "body"]
NARROW = ["documentVersion", "documentSelfLink"]


@pytest.fixture(autouse=True)
def room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let segments be written even if the disk of this machine is nearly full."""
    monkeypatch.setattr("docstore.reads.scans.segments.FREE_BYTES_MAX", 0)


@pytest.fixture(params=range(3))
def copy(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Copy]:
    copy = Copy(tmp_path / "docstore.db", request.param)
    copy.write(200)
    anew(copy)
    yield copy
    copy.close()


def anew(copy: Copy, segments_bytes: int = PLENTY) -> None:
    """Read with a new server of pages, as a new process would, that may keep segments."""
    copy.pages.close()
    copy.pages = PageServer(str(copy.path), str(directory(copy)), segments_bytes)


def directory(copy: Copy) -> Path:
    return copy.path.with_name("segments")


def files(copy: Copy) -> list[Path]:
    return sorted(directory(copy).iterdir()) if directory(copy).exists() else []


def scanned(
    copy: Copy, *, rows: int = 500, ends: dict[int, int] | None = None, damages: int = 0,
    columns: list[str] = WIDE, **asked: Any,
) -> list[dict[str, Any]]:  # fmt: skip
    cut = [[slot, until] for slot, until in (ends or copy.ends).items()]
    question = {"prefix": "/a/", "cut": cut, "columns": columns, **asked}
    return list(copy.scan(question, "arrow", rows, damages))


def expected(
    copy: Copy, ends: dict[int, int] | None = None, columns: list[str] = WIDE
) -> list[dict[str, Any]]:
    spans = [(slot, 0, until) for slot, until in (ends or copy.ends).items()]
    rows = copy.expected(spans, is_log=False, latest=True, deleted=False)
    return [{name: row[name] for name in columns} for row in rows]


def lose_all_documents(copy: Copy) -> None:
    """Empty the file unnoticed: rows that are still read come from segments."""
    connection = sqlite3.connect(copy.path)
    with connection:
        connection.execute("DELETE FROM current")
        connection.execute("DELETE FROM history")
    connection.close()


@pytest.mark.parametrize("rows", [1, 7, 8, 30, 500])
def test_a_page_of_any_size_at_any_cut(copy: Copy, rows: int) -> None:
    for _ in range(5):
        ends = {slot: copy.rng.randint(0, end) for slot, end in copy.ends.items()}
        for columns in (NARROW, WIDE, WIDE[::-1], NARROW):
            found = scanned(copy, rows=rows, ends=ends, columns=columns)
            assert found == expected(copy, ends, columns)
    assert bool(files(copy)) == (rows >= 7)


def test_cached_segments_are_not_read_from_the_file_again(copy: Copy) -> None:
    wanted = expected(copy)
    assert scanned(copy) == wanted
    lose_all_documents(copy)
    for rows in (3, 500):
        assert scanned(copy, rows=rows) == wanted
        anew(copy)
    assert scanned(copy, columns=NARROW) == expected(copy, columns=NARROW)


def test_an_audit_reads_the_file_itself(copy: Copy) -> None:
    assert scanned(copy)
    lose_all_documents(copy)
    assert scanned(copy, direct=True) == []


def test_nothing_is_kept_beyond_the_discovery_of_damage(copy: Copy) -> None:
    assert scanned(copy) == expected(copy)
    lose_all_documents(copy)
    assert scanned(copy, damages=1) == []


def test_other_questions_read_the_file(copy: Copy) -> None:
    assert scanned(copy)
    lose_all_documents(copy)
    for asked in ({"where": "n >= 0"}, {"versions": "all"}, {"deleted": True}):
        assert scanned(copy, **asked) == []
    assert scanned(copy, columns=[*WIDE, "digest"]) == []
    assert scanned(copy, prefix="/ab/") == []


def test_a_scan_sees_rows_written_since(copy: Copy) -> None:
    before = dict(copy.ends)
    for _ in range(4):
        assert scanned(copy) == expected(copy)
        copy.write(10)
        assert scanned(copy) == expected(copy)
    assert scanned(copy, ends=before) == expected(copy, before)


def test_a_slot_that_is_written_to_is_not_kept(copy: Copy) -> None:
    copy.now_us = lambda: time.time_ns() // 1000
    copy.write_links(["/a/1"])
    assert scanned(copy) == expected(copy)
    assert len(files(copy)) == len(copy.ends) - 1


def test_narrow_columns_do_not_make_segments(copy: Copy) -> None:
    assert scanned(copy, columns=NARROW) == expected(copy, columns=NARROW)
    assert files(copy) == []


@pytest.mark.parametrize("harm", ["flip", "shorten", "empty", "other"])
def test_a_file_that_is_not_as_it_was_written_is_not_used(copy: Copy, harm: str) -> None:
    wanted = scanned(copy)
    for number, file in enumerate(files(copy)):
        content = bytearray(file.read_bytes())
        place = copy.rng.randrange(len(content))
        match harm:
            case "flip":
                content[place] ^= 1 << copy.rng.randrange(8)
            case "shorten":
                del content[place:]
            case "empty":
                content.clear()
            case _:
                content = bytearray(files(copy)[number - 1].read_bytes())
        file.write_bytes(content)
        anew(copy)
        assert scanned(copy) == wanted


def test_cached_segments_stay_below_the_limit_and_those_in_use_stay(copy: Copy) -> None:
    assert scanned(copy)
    sizes = sorted(file.stat().st_size for file in files(copy))
    assert len(sizes) == 4
    room = sizes[-1] + sizes[-2]
    for file in files(copy):
        file.unlink()
    anew(copy, room)
    assert scanned(copy) == expected(copy)
    kept = files(copy)
    assert 0 < sum(file.stat().st_size for file in kept) <= room
    for rows in (30, 500):
        anew(copy, room)
        assert scanned(copy, rows=rows) == expected(copy)
        assert files(copy) == kept
    for file in kept:
        os.utime(file, (0, 0))
    anew(copy, room)
    assert scanned(copy, prefix="/ab/")
    assert set(files(copy)) - set(kept)
    assert sum(file.stat().st_size for file in files(copy)) <= room


def test_a_segment_above_the_limit_is_not_cached(copy: Copy) -> None:
    anew(copy, 1000)
    for rows in (30, 500):
        assert scanned(copy, rows=rows) == expected(copy)
    assert files(copy) == []


@pytest.mark.parametrize("free_max", [0, 1 << 60])
def test_a_share_of_the_disk_is_left_to_others_up_to_a_bound(
    copy: Copy, monkeypatch: pytest.MonkeyPatch, free_max: int
) -> None:
    monkeypatch.setattr("docstore.reads.scans.segments.FREE_SHARE", 1.0)
    monkeypatch.setattr("docstore.reads.scans.segments.FREE_BYTES_MAX", free_max)
    assert scanned(copy) == expected(copy)
    assert bool(files(copy)) == (free_max == 0)


def test_a_scan_returns_its_rows_if_no_segment_can_be_written(copy: Copy) -> None:
    directory(copy).write_bytes(b"not a directory")
    for _ in range(2):
        assert scanned(copy) == expected(copy)


def test_nothing_is_left_of_a_file_that_could_not_be_written(copy: Copy) -> None:
    assert scanned(copy)
    places = files(copy)
    for file in places:
        file.unlink()
        file.mkdir()
    anew(copy)
    assert scanned(copy) == expected(copy)
    assert files(copy) == places


def question(copy: Copy) -> dict[str, Any]:
    cut = [[slot, until] for slot, until in copy.ends.items()]
    return {"prefix": "/a/", "cut": cut, "columns": WIDE, "format": "arrow", "rows": 500,
            "compression": "", "after": [-1, "", -1], "schema": True, "skipped": False,
            "damages": 0}  # fmt: skip


@pytest.mark.parametrize("copy", [0], indirect=True)
async def test_unused_segments_are_deleted(copy: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("docstore.reads.scans.pool.IDLE_S", 0.01)
    monkeypatch.setattr("docstore.reads.scans.pool.UNUSED_S", 0.01)
    pool = ScanPool(copy.path, 1, PLENTY)
    try:
        fields, _ = await pool.ask(question(copy))
        assert fields["rows"] == len(expected(copy))
        async with asyncio.timeout(20):
            while directory(copy).exists():
                await asyncio.sleep(0.01)
    finally:
        await pool.stop()


@pytest.mark.parametrize("copy", [0], indirect=True)
async def test_a_process_that_hangs_is_ended_and_another_one_answers(
    copy: Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = ScanPool(copy.path, 1, PLENTY)
    try:
        await pool.ask(question(copy))
        [hung] = pool._all
        hung.send_signal(signal.SIGSTOP)
        with monkeypatch.context() as patience:
            patience.setattr("docstore.reads.scans.pool.ANSWER_S", 0.1)
            with pytest.raises(Unavailable):
                await pool.ask(question(copy))
        fields, _ = await pool.ask(question(copy))
        assert fields["rows"] == len(expected(copy))
        assert hung.returncode is not None
    finally:
        await pool.stop()
