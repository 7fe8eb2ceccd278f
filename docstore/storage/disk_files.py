"""The files of a journal in a directory of the file system (`ring.py` has the contract).

A new file is written full of zeros, and only overwritten from then on. So a write changes neither
the length nor the blocks of the file, and costs one trip to the disk. Blocks that are only reserved
(fallocate) would be converted at each write.
"""

import contextlib
import errno
import os
from collections.abc import Sequence
from pathlib import Path

from docstore.model import durable_files

_ZEROS = bytes(1 << 20)
_DURABLY = getattr(os, "RWF_DSYNC", 0)
"""Flag of a write that is its own sync; 0 where the system has none."""
_UNKNOWN = {errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS}
"""Error numbers of file systems that do not support the flag."""


class DiskFiles:
    """`Files` in the directory `path`, which only its owner can read."""

    def __init__(self, path: Path) -> None:
        """Create or open the directory. Raises OSError."""
        path.mkdir(mode=0o700, exist_ok=True)
        durable_files.sync(path.parent)  # An earlier process may have been killed before it synced.
        self._path = path
        self._directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._open: dict[str, int] = {}
        self._is_durably_known = bool(_DURABLY)

    def names(self) -> list[str]:
        """Return the names of the journal's files, in no order.

        Leaves out the `lost+found` of a directory that is a disk of its own.
        """
        names = [file.name for file in self._path.iterdir()]
        return [name for name in names if name.isascii() and name.isdecimal()]

    def create(self, name: str, size: int) -> None:
        try:
            self._create(name, size)
        except OSError:
            self.remove(name)  # An incomplete file would use up space and serve no purpose.
            raise

    def _create(self, name: str, size: int) -> None:
        self._forget(name)
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        file = os.open(name, flags, 0o600, dir_fd=self._directory)
        self._open[name] = file
        offset = 0
        while offset < size:  # On a full disk a write is short, and the next one raises.
            offset += os.pwrite(file, memoryview(_ZEROS)[: size - offset], offset)
        os.fsync(file)
        os.fsync(self._directory)

    def remove(self, name: str) -> None:
        self._forget(name)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self._directory)
        os.fsync(self._directory)

    def read(self, name: str, offset: int, length: int) -> bytes:
        parts: list[bytes] = []
        while length > 0:
            part = os.pread(self._file(name), length, offset)
            if not part:
                break
            parts.append(part)
            offset, length = offset + len(part), length - len(part)
        return b"".join(parts)

    def write(self, name: str, offset: int, parts: Sequence[bytes]) -> None:
        file, length = self._file(name), sum(map(len, parts))
        if self._is_durably_known:
            try:
                _insist_on(length, os.pwritev(file, parts, offset, _DURABLY))
            except OSError as error:
                if error.errno not in _UNKNOWN:
                    raise
                self._is_durably_known = False  # The file system rejected the flag before it wrote.
            else:
                return
        _insist_on(length, os.pwritev(file, parts, offset))
        os.fdatasync(file)

    def sync(self) -> None:
        for name in self.names():
            os.fsync(self._file(name))
        os.fsync(self._directory)

    def close(self) -> None:
        for name in list(self._open):
            self._forget(name)
        if self._directory >= 0:
            os.close(self._directory)
            self._directory = -1

    def _file(self, name: str) -> int:
        if name not in self._open:
            flags = os.O_RDWR | os.O_CLOEXEC
            self._open[name] = os.open(name, flags, dir_fd=self._directory)
        return self._open[name]

    def _forget(self, name: str) -> None:
        if name in self._open:
            os.close(self._open.pop(name))


def _insist_on(length: int, written: int) -> None:
    if written != length:
        raise OSError(errno.EIO, f"{written} of {length} bytes were written")
