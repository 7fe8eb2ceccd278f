"""Operations that wait on this disk for their job's commit: a file for each part.

They lie outside the database, since only the node itself reads them: neither versioned nor
replicated (the client sends a part to two nodes). A part without a request for a day is deleted.
Everything here blocks, and runs in threads.
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

KEPT_S = 86_400.0
ROOM_BYTES = 256 << 20
"""Left free for documents: what waits here must never be why one cannot be stored."""
KEPT = ".ndjson"
"""Ends the name of a part that is here."""
FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
JOB_CHARS_MAX = 200
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}\Z")


class Staging:
    """The parts that are on this disk."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._directories = threading.Lock()
        """Held while a job's directory comes or goes: nothing can be put into one that went."""

    def receive(self, job: str, part: str) -> "Arriving":
        """Return the file of a part that begins to arrive. Raises BadRequest, DiskFull."""
        self._sweep()
        path = self._path(job, part)
        with self._directories:
            return Arriving(path)

    def open(self, job: str, part: str) -> BinaryIO:
        """Open the file of a part that is here. Raises NotFound."""
        path = self._path(job, part)
        try:
            os.utime(path)  # It is asked for: its day begins anew.
            return path.open("rb")
        except FileNotFoundError:
            raise NotFound("this part is not on this node") from None

    def remove(self, job: str, part: str) -> bool:
        """Take a part away; False when there was none."""
        path = self._path(job, part)
        with self._directories:
            try:
                path.unlink()
            except FileNotFoundError:
                return False
            with contextlib.suppress(OSError):  # It is not empty: the job has other parts.
                path.parent.rmdir()
        return True

    def describe(self) -> list[dict[str, Any]]:
        """Return the parts that wait: their job, bytes and age in seconds."""
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
        """Yield all files, also of parts that arrive; those that go meanwhile are left out."""
        for directory in _inside(self._directory):
            for path in _inside(directory):
                with contextlib.suppress(FileNotFoundError):
                    yield path, path.stat()

    def _path(self, job: str, part: str) -> Path:
        if not _NAME.match(part):
            raise BadRequest("a part's name is made of letters, digits, - and _")
        name = f"job-{quote(job, safe='')}"
        if len(name) > JOB_CHARS_MAX:
            raise BadRequest(f"a job's name has at most {JOB_CHARS_MAX} characters, escaped")
        return self._directory / name / f"{part}{KEPT}"

    def _sweep(self) -> None:
        """Delete parts without a request for a day."""
        for path, found in self._files():
            if found.st_mtime < time.time() - KEPT_S:
                path.unlink(missing_ok=True)  # Its job may have taken it away by now.


class Arriving:
    """A part on its way: nothing is there under its name before all of it is on the disk.

    Each has a file of its own until then. If several arrive under one name, the last one stays.
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
        """Begin."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave nothing of a part that did not arrive."""
        with contextlib.suppress(OSError):  # The rest of the buffer may find no room.
            self._file.close()
        self._new.unlink(missing_ok=True)

    def write(self, piece: bytes) -> None:
        """Add to it. Raises DiskFull."""
        if shutil.disk_usage(self._path.parent).free < ROOM_BYTES:
            raise DiskFull("there is no room for parts: what is left is for documents")
        with _room():
            self._file.write(piece)
        self.size += len(piece)

    def finish(self) -> None:
        """Have it survive a cut of power. Raises DiskFull."""
        with _room():
            self._file.flush()
            os.fsync(self._file.fileno())
            # Opened before the name is given, since another request may delete it from then on.
            directory = os.open(self._path.parent, os.O_RDONLY)
            try:
                self._new.rename(self._path)
                os.fsync(directory)
            finally:
                os.close(directory)


def _inside(directory: Path) -> list[Path]:
    """Return what is in a directory, nothing if it is none, or none any more."""
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
            raise DiskFull("there is no room for this part") from None
        raise
