"""A chain of backups in a directory: 000001, 000002, ... and perhaps an unfinished one.

    000001/manifest.json                 its content, written last
    000001/slots-00000-00015             blocks, each after its length in four bytes
    000002.unfinished/plan.json          the manifest of an unfinished backup

A file or directory under its final name is complete and durable: it is written under another name,
synced, and renamed.
"""

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Self

from docstore.maintenance.backup.manifest import BackupFile, Manifest, unpack_manifest
from docstore.model.durable_files import replace, sync
from docstore.reads.blocks import BadBackup

MANIFEST, PLAN, LOCK = "manifest.json", "plan.json", ".lock"
UNFINISHED, NEW = ".unfinished", ".new"
LENGTH = 4
BLOCK_BYTES_MAX = 1 << 28


def numbered(directory: Path) -> list[tuple[int, Path]]:
    found = [
        each
        for each in directory.iterdir()
        if each.name.isascii() and each.name.isdecimal() and each.is_dir()
    ]
    return sorted((int(each.name), each) for each in found)


def manifests_in(directory: Path) -> list[Manifest]:
    """Return the manifests of the finished backups of a directory. Raises BadBackup, OSError."""
    manifests = []
    for number, path in numbered(directory):
        manifest = manifest_in(path / MANIFEST)
        if manifest.number != number:
            raise BadBackup(f"{path} already contains backup {manifest.number}")
        manifests.append(manifest)
    return manifests


def manifest_in(file: Path) -> Manifest:
    try:
        return unpack_manifest(file.read_bytes(), str(file))
    except FileNotFoundError:
        raise BadBackup(f"{file} is missing: this backup is incomplete") from None


def place_of(directory: Path, number: int) -> Path:
    return directory / f"{number:06}"


def unfinished(directory: Path, number: int) -> Path:
    return directory / f"{number:06}{UNFINISHED}"


def part_name(first: int, last: int) -> str:
    return f"slots-{first:05}-{last:05}"


def make(path: Path) -> None:
    """Create a directory and its parents durably. Raises OSError."""
    if not path.is_dir():
        make(path.parent)
        path.mkdir(mode=0o700, exist_ok=True)
        sync(path.parent)


def finish(directory: Path, manifest: Manifest) -> Path:
    """Finish a backup whose files are complete; return its directory."""
    path, place = unfinished(directory, manifest.number), place_of(directory, manifest.number)
    replace(path / MANIFEST, manifest.pack())
    (path / PLAN).unlink(missing_ok=True)
    path.replace(place)
    sync(directory)
    return place


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Lock a directory against other writers. Raises BadBackup."""
    with (directory / LOCK).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BadBackup(f"{directory} is in use by another backup: wait for its end") from None
        yield


class PartWriter:
    """A file of blocks. It gets its final name when `finish` returns, else it is deleted."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._new = file.with_name(file.name + NEW)
        self._opened: IO[bytes]
        self._sum = hashlib.sha256()
        self.length = 0

    def __enter__(self) -> Self:
        self._opened = self._new.open("wb")
        return self

    def add(self, block: bytes) -> None:
        framed = len(block).to_bytes(LENGTH, "big") + block
        self._opened.write(framed)
        self._sum.update(framed)
        self.length += len(framed)

    @property
    def sha256(self) -> str:
        return self._sum.hexdigest()

    def finish(self) -> None:
        """Make the file durable. Raises OSError."""
        self._opened.flush()
        os.fsync(self._opened.fileno())
        self._new.replace(self._file)
        sync(self._file.parent)

    def __exit__(self, *raised: object) -> None:
        with suppress(OSError):  # A failed flush was reported by `add` or `finish`.
            self._opened.close()
        self._new.unlink(missing_ok=True)


class PartReader:
    """Reads the blocks of a file; its checksum and length are known once all blocks were read."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._sum = hashlib.sha256()
        self.length = 0

    def __iter__(self) -> Iterator[bytes]:
        try:
            opened = self._file.open("rb")
        except FileNotFoundError:
            raise BadBackup(f"{self._file} is missing") from None
        with opened:
            while head := opened.read(LENGTH):
                length = int.from_bytes(head, "big")
                if len(head) < LENGTH or length > BLOCK_BYTES_MAX:
                    raise BadBackup(f"{self._file} is damaged or truncated")
                block = opened.read(length)
                if len(block) < length:
                    raise BadBackup(f"{self._file} is truncated")
                self._sum.update(head + block)
                self.length += LENGTH + length
                yield block

    @property
    def sha256(self) -> str:
        return self._sum.hexdigest()

    def insist_on(self, part: BackupFile) -> None:
        """Raise BadBackup unless length and checksum are those of the manifest."""
        if (self.length, self.sha256) != (part.length, part.sha256):
            raise BadBackup(f"{self._file} is damaged: its checksum is wrong")
