"""The files of a journal on a real file system."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from docstore.storage.disk_files import DiskFiles
from docstore.storage.journal import START
from docstore.storage.ring import Ring
from tests.disk.laps import KEY

SIZE = 3 << 19
"""More bytes than one write has."""


@pytest.fixture
def files(tmp_path: Path) -> Any:
    files = DiskFiles(tmp_path / "journal")
    yield files
    files.close()


def test_a_new_file_is_full_of_zeros_whatever_it_held(files: DiskFiles, tmp_path: Path) -> None:
    path = tmp_path / "journal" / "0"
    path.write_bytes(b"something longer" * SIZE)
    files.create("0", SIZE)
    assert path.read_bytes() == bytes(SIZE)
    assert path.stat().st_blocks * 512 >= SIZE, "not only reserved"
    assert path.stat().st_mode & 0o777 == 0o600 or path.stat().st_mode & 0o777 == 0o644
    files.create("1", SIZE)
    assert (tmp_path / "journal" / "1").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "journal").stat().st_mode & 0o777 == 0o700
    assert sorted(files.names()) == ["0", "1"]


def test_written_bytes_are_read_by_the_next_process(files: DiskFiles, tmp_path: Path) -> None:
    files.create("0", SIZE)
    files.write("0", 4096, [b"head", b"", b"body"])
    files.close()
    files.close()
    again = DiskFiles(tmp_path / "journal")
    again.sync()
    assert again.read("0", 4094, 12) == b"\0\0headbody\0\0"
    assert again.read("0", SIZE - 4, 100) == bytes(4)
    again.close()


def test_a_system_without_durable_writes_gets_an_fdatasync(
    files: DiskFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, synced, refused = os.pwritev, [], 0

    def pwritev(file: int, parts: Any, offset: int, flags: int = 0) -> int:
        nonlocal refused
        if flags:
            refused += 1
            raise OSError(errno.EOPNOTSUPP, "not here")
        return plain(file, parts, offset)

    files.create("0", SIZE)
    monkeypatch.setattr(os, "pwritev", pwritev)
    monkeypatch.setattr(os, "fdatasync", synced.append)
    files.write("0", 0, [b"one"])
    files.write("0", 4096, [b"two"])
    assert (refused, len(synced)) == (1, 2)
    assert files.read("0", 4096, 3) == b"two"


@pytest.mark.parametrize("written", [0, 3])
def test_a_short_write_is_an_error(
    files: DiskFiles, monkeypatch: pytest.MonkeyPatch, written: int
) -> None:
    files.create("0", SIZE)
    monkeypatch.setattr(os, "pwritev", lambda *_: written)
    with pytest.raises(OSError, match=f"{written} of 4 bytes"):
        files.write("0", 0, [b"four"])


def test_a_disk_error_is_not_taken_for_a_system_without_durable_writes(
    files: DiskFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pwritev(*_: Any) -> int:
        raise OSError(errno.EIO, "gone")

    files.create("0", SIZE)
    monkeypatch.setattr(os, "pwritev", pwritev)
    with pytest.raises(OSError, match="gone"):
        files.write("0", 0, [b"four"])


def test_a_ring_lies_in_a_directory(files: DiskFiles, tmp_path: Path) -> None:
    bodies = [os.urandom(size) for size in (0, 1, 100_000)]
    ring = Ring(files, KEY, file_bytes=SIZE, files_max=3)
    ring.open(START, may_be_missing=True)
    while (name := ring.wanted()) is not None:
        ring.make(name)
        ring.made(name)
    for body in bodies:
        entry = ring.next(1, body)
        assert entry is not None
        files.write(entry.file, entry.offset, entry.parts)
    files.close()
    again = Ring(DiskFiles(tmp_path / "journal"), KEY, file_bytes=SIZE, files_max=3)
    assert [again.body(entry) for entry in again.open(START)] == bodies
    again.files.close()


def test_a_file_without_room_takes_no_room(small_disk: Path) -> None:
    files = DiskFiles(small_disk / "journal")
    files.create("0", SIZE)
    (small_disk / "journal" / "1").write_bytes(b"begun once, and never finished")
    free = os.statvfs(small_disk).f_bavail
    for name in ("1", "2"):
        with pytest.raises(OSError, match="No space left"):
            files.create(name, 4 << 20)
    assert files.names() == ["0"]
    assert os.statvfs(small_disk).f_bavail >= free
    files.create("1", SIZE)
    files.close()


def test_the_name_of_the_directory_is_synced_in_each_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sync it though a killed process made it, or a power cut would lose all that is in it."""
    (tmp_path / "journal").mkdir(mode=0o700)
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda file: synced.append(os.fstat(file).st_ino))
    DiskFiles(tmp_path / "journal").close()
    assert tmp_path.stat().st_ino in synced


def test_files_that_are_no_journal_are_left_alone(files: DiskFiles, tmp_path: Path) -> None:
    files.create("0", SIZE)
    (tmp_path / "journal" / "lost+found").mkdir()
    (tmp_path / "journal" / "notes").write_text("of an operator")
    files.sync()
    ring = Ring(files, KEY, file_bytes=SIZE, files_max=3)
    assert ring.open(START, may_be_missing=True) == []
    assert not ring.is_written()
