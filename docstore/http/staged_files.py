"""Operations that wait on this disk for their job's commit: one file for each part.

They are outside of the database, since only this node reads them: neither versioned nor replicated
(the client sends a part to two nodes). A part is deleted after a day without a request. All
functions here block, and run in threads.
"""

import contextlib
import errno
import os
import re
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self
from urllib.parse import quote, unquote

from docstore.errors import BadRequest, DiskFull, NotFound
from docstore.model.settings import quoted

KEPT_S = 86_400.0
ROOM_BYTES = 256 << 20
"""Bytes left free for documents: parts must never be the reason that a document cannot be
stored."""
KEPT = ".ndjson"
"""Suffix of a complete part's file."""
FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
JOB_CHARS_MAX = 200
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}\Z")


class Staging:
    """The parts that are on this disk."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._directories = threading.Lock()
        """Lock for creating and removing job directories: a new file needs a directory that
        stays."""

    def receive(self, job: str, part: str) -> "Arriving":
        """Return a file for a part that begins to arrive. Raises BadRequest, DiskFull."""
        self._sweep()
        path = self._path(job, part)
        with self._directories:
            return Arriving(path)

    def open(self, job: str, part: str) -> BinaryIO:
        """Open the file of a complete part. Raises NotFound."""
        path = self._path(job, part)
        try:
            os.utime(path)  # A request restarts the part's day.
            return path.open("rb")
        except FileNotFoundError:
            raise NotFound(f"this node has no part {part} of the job {quoted(job)}") from None

    def remove(self, job: str, part: str) -> bool:
        """Delete a part; return False if there was none."""
        path = self._path(job, part)
        with self._directories:
            try:
                path.unlink()
            except FileNotFoundError:
                return False
            # The directory is not empty: the job has other parts.
            with contextlib.suppress(OSError):
                path.parent.rmdir()
        return True

    def describe(self) -> list[dict[str, Any]]:
        """Return the job, bytes and age in seconds of each part."""
        parts = []
        for path, found in self._files():
            if path.suffix == KEPT:
                job = unquote(path.parent.name.removeprefix("job-"))
                age_s = round(time.time() - found.st_mtime)
                parts.append(
                    {"job": job, "part": path.stem, "bytes": found.st_size, "ageSeconds": age_s}
                )
        return parts

    def _files(self) -> Iterator[tuple[Path, os.stat_result]]:
        """Yield all files, also of arriving parts; skip files that are deleted meanwhile."""
        for directory in _inside(self._directory):
            for path in _inside(directory):
                with contextlib.suppress(FileNotFoundError):
                    yield path, path.stat()

    def _path(self, job: str, part: str) -> Path:
        if not _NAME.match(part):
            raise BadRequest(f"part must be of letters, digits, - and _; got {quoted(part)}")
        name = f"job-{quote(job, safe='')}"
        if len(name) > JOB_CHARS_MAX:
            raise BadRequest(
                f"job must have at most {JOB_CHARS_MAX} characters, escaped; got {len(name)}"
            )
        return self._directory / name / f"{part}{KEPT}"

    def _sweep(self) -> None:
        """Delete parts without a request for a day."""
        for path, found in self._files():
            if found.st_mtime < time.time() - KEPT_S:
                path.unlink(missing_ok=True)  # The job may have deleted the part meanwhile.


class Arriving:
    """A part that arrives: its name does not exist before all of it is on the disk.

    Each arriving part has a file of its own. If several parts have the same name, the last one
    stays.
    """

    def __init__(self, path: Path) -> None:
        """Raises DiskFull."""
        self._path = path
        with _room():
            path.parent.mkdir(parents=True, exist_ok=True)
            number, name = tempfile.mkstemp(".new", f"{path.stem}.", path.parent)
        self._new = Path(name)
        self._file = os.fdopen(number, "wb")
        self.size = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Delete the file if the part did not arrive completely."""
        with contextlib.suppress(OSError):  # The disk may have no room for the buffered bytes.
            self._file.close()
        self._new.unlink(missing_ok=True)

    def write(self, piece: bytes) -> None:
        """Append bytes. Raises DiskFull."""
        if shutil.disk_usage(self._path.parent).free < ROOM_BYTES:
            raise DiskFull(
                "the disk has no space for parts: free some, the rest is kept for documents"
            )
        with _room():
            self._file.write(piece)
        self.size += len(piece)

    def finish(self) -> None:
        """Make the part durable (fsync) under its name. Raises DiskFull."""
        with _room():
            self._file.flush()
            os.fsync(self._file.fileno())
            # Opened before the rename, since another request may delete the directory after it.
            directory = os.open(self._path.parent, os.O_RDONLY)
            try:
                self._new.rename(self._path)
                os.fsync(directory)
            finally:
                os.close(directory)


def _inside(directory: Path) -> list[Path]:
    """Return the entries of a directory; none if it does not exist."""
    try:
        return sorted(directory.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []


@contextlib.contextmanager
def _room() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in FULL:
            raise DiskFull("the disk has no space for this part: free some") from None
        raise
