"""Room that is kept, by a file that holds nothing, for what has to be written to a full disk.

What is in the journal is acknowledged and has to go into the tables, whatever room there is; and
what streams let go of makes room, once their log has taken that down. So some room is taken when
there is enough, and given back when there is none.
"""

import errno
import os
from pathlib import Path
from typing import Protocol


class Room(Protocol):
    """Room that is kept for the tables."""

    def reserve(self) -> bool:
        """Take the room, unless it is taken. Return whether there was enough."""

    def release(self) -> bool:
        """Give the room back. Return whether there was any."""

    def left(self, size: int) -> float:
        """Return what share of the room would be free, had the tables taken in so many bytes."""


class Ballast:
    """The file `path` of `size` bytes, while there is room for it."""

    def __init__(self, path: Path, size: int) -> None:
        """Do nothing yet. Without a size there is no such file."""
        self._path = path
        self._size = size
        self.is_held = False
        """Whether the room is kept now."""

    def reserve(self) -> bool:
        """Take the room, unless it is taken. Return whether there was enough."""
        try:
            file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                taken = os.fstat(file).st_blocks * 512
                if self.free_bytes() < self._size - taken:
                    raise OSError(errno.ENOSPC, "not enough for all of it")  # So take none of it.
                if self._size:
                    os.posix_fallocate(file, 0, self._size)
                os.ftruncate(file, self._size)  # It may have been larger, for a larger journal.
            finally:
                os.close(file)
        except OSError:
            self.release()
            return False
        self.is_held = True
        return True

    def release(self) -> bool:
        """Give the room back. Return whether there was any."""
        self.is_held = False
        try:
            self._path.unlink()
        except FileNotFoundError:
            return False
        return self._size > 0

    def left(self, size: int) -> float:
        """Return what share of the room would be free, had the tables taken in so many bytes.

        Twice: in their log, and then in their file.
        """
        return (self.free_bytes() - 2 * size) / max(1, self._size)

    def free_bytes(self) -> int:
        """Return how much room there is beside it."""
        disk = os.statvfs(self._path.parent)
        return disk.f_bavail * disk.f_frsize
