"""Operations that wait on this disk for their job's commit: a file for each part.

Beside the database and not in it, since nobody reads them but the node itself: neither versioned
nor replicated (whoever sends a part gives it to two nodes). A part that nobody asked for in a day
is taken away. Everything here blocks, and runs in threads.
"""

import contextlib
import errno
import os
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote, unquote

from docstore.errors import BadRequest, DiskFull, NotFound

KEPT_S = 86_400.0
ROOM_BYTES = 256 << 20
"""Left free for documents: what waits here must never be why one cannot be stored."""
FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
JOB_CHARS_MAX = 200
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}\Z")


class Staging:
    """The parts that are on this disk."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def receive(self, job: str, part: str) -> "Arriving":
        """Return the file of a part that begins to arrive. Raises BadRequest, DiskFull."""
        self._sweep()
        return Arriving(self._path(job, part))

    def found(self, job: str, part: str) -> Path:
        """Return the file of a part that is here. Raises NotFound."""
        path = self._path(job, part)
        if not path.exists():
            raise NotFound("this part is not on this node")
        os.utime(path)  # It is asked for: its day begins anew.
        return path

    def remove(self, job: str, part: str) -> bool:
        """Take a part away; False when there was none."""
        path = self._path(job, part)
        is_here = path.exists()
        path.unlink(missing_ok=True)
        if is_here and not any(path.parent.iterdir()):
            path.parent.rmdir()
        return is_here

    def describe(self) -> list[dict[str, Any]]:
        """Return the parts that wait: their job, bytes and age in seconds."""
        return [
            {"job": unquote(path.parent.name.removeprefix("job-")), "part": path.stem,
             "bytes": path.stat().st_size, "ageSeconds": round(time.time() - path.stat().st_mtime)}
            for path in sorted(self._directory.glob("job-*/*.ndjson"))
        ]  # fmt: skip

    def _path(self, job: str, part: str) -> Path:
        if not _NAME.match(part):
            raise BadRequest("a part's name is made of letters, digits, - and _")
        name = f"job-{quote(job, safe='')}"
        if len(name) > JOB_CHARS_MAX:
            raise BadRequest(f"a job's name has at most {JOB_CHARS_MAX} characters, escaped")
        return self._directory / name / f"{part}.ndjson"

    def _sweep(self) -> None:
        """Take away what nobody asked for in a day."""
        for path in self._directory.glob("job-*/*"):
            with contextlib.suppress(FileNotFoundError):  # Its job may have taken it away by now.
                if path.stat().st_mtime < time.time() - KEPT_S:
                    path.unlink()


class Arriving:
    """A part on its way: nothing is there under its name before all of it is on the disk."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path, self._new = path, path.with_suffix(".new")
        self._file = self._new.open("wb")
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
        with contextlib.suppress(OSError):  # What was not written yet may find no room.
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
        self._new.rename(self._path)
        directory = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


@contextlib.contextmanager
def _room() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in FULL:
            raise DiskFull("there is no room for this part") from None
        raise
