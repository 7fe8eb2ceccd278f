"""Disk space reserved by an empty file, for the writes that must succeed on a full disk.

Journal entries are acknowledged, so the tables must take them in. Removing records from streams
frees space only after SQLite's log has recorded the removal. So the node reserves space while the
disk has enough, and releases it when the disk is full.
"""

import errno
import os
from pathlib import Path
from typing import Protocol


class Room(Protocol):
    """Space reserved for the tables."""

    def reserve(self) -> bool:
        """Reserve the space, unless that is done already. Return whether the disk has enough."""

    def release(self) -> bool:
        """Release the space. Return whether any was reserved."""

    def left(self, size: int) -> float:
        """Return the share of the ballast that stays free once the tables take in `size` bytes."""


class Ballast:
    """Holds the file `path` of `size` bytes while the disk has room for it."""

    def __init__(self, path: Path, size: int) -> None:
        """Do nothing yet. With size 0 no space is reserved."""
        self._path = path
        self._size = size
        self.is_held = False
        """Whether the space is reserved now."""

    def reserve(self) -> bool:
        try:
            file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                taken = os.fstat(file).st_blocks * 512
                if self.free_bytes() < self._size - taken:
                    # Reserve no part of it.
                    raise OSError(errno.ENOSPC, "the disk has no room for the whole ballast")
                if self._size:
                    os.posix_fallocate(file, 0, self._size)
                # An earlier start with a larger journal may have left a larger file.
                os.ftruncate(file, self._size)
            finally:
                os.close(file)
        except OSError:
            self.release()
            return False
        self.is_held = True
        return True

    def release(self) -> bool:
        self.is_held = False
        try:
            self._path.unlink()
        except FileNotFoundError:
            return False
        return self._size > 0

    def left(self, size: int) -> float:
        """Return the space that is left after writing `size` bytes, in units of the ballast.

        Each byte counts twice: the tables write it to their log, and then to their file.
        """
        return (self.free_bytes() - 2 * size) / max(1, self._size)

    def free_bytes(self) -> int:
        disk = os.statvfs(self._path.parent)
        return disk.f_bavail * disk.f_frsize
