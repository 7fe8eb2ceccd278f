"""The files of a journal on a simulated disk: `Files` whose power is cut, and whose calls fail."""

import errno
from collections.abc import Sequence

from tests.disk.disk import Disk, Failed, File


class DiskOfFiles:
    """`Files` over the files of `disk` below a name, each step of a call a call of the disk."""

    def __init__(self, disk: Disk, directory: str = "journal/") -> None:
        self.disk = disk
        self._directory = directory

    def names(self) -> list[str]:
        """Return the names of all files."""
        found = [name for name in self.disk.files if name.startswith(self._directory)]
        return [name.removeprefix(self._directory) for name in found]

    def create(self, name: str, size: int) -> None:
        """Create a file of zeros; its name is durable last."""
        self._before("write")
        file = self.disk.files.setdefault(self._directory + name, File(is_named=False))
        file.truncate(0)
        for offset in range(0, size, size // 2):
            self._before("write")
            file.write(offset, bytes(size // 2))
        self._before("sync")
        file.sync()
        self._before("sync")
        file.is_named = True

    def remove(self, name: str) -> None:
        """Remove a file; that is durable last."""
        self._before("delete")
        name = self._directory + name
        self.disk.removed[name] = self.disk.files.pop(name)
        self._before("sync")
        del self.disk.removed[name]

    def read(self, name: str, offset: int, length: int) -> bytes:
        """Return a stretch of a file."""
        self._before("read")
        return bytes(self.disk.files[self._directory + name].now[offset : offset + length])

    def write(self, name: str, offset: int, parts: Sequence[bytes]) -> None:
        """Overwrite a stretch; it is written, but not durable, while the second call is made."""
        self._before("overwrite")  # It needs no room.
        file = self.disk.files[self._directory + name]
        file.write(offset, b"".join(parts))
        self._before("sync")
        file.sync()

    def sync(self) -> None:
        """Make everything durable, names as well."""
        for name in self.names():
            self._before("sync")
            file = self.disk.files[self._directory + name]
            file.sync()
            file.is_named = True

    def close(self) -> None:
        """Keep everything."""

    def _before(self, call: str) -> None:
        try:
            self.disk.before(call)
        except Failed as failed:
            raise OSError(errno.ENOSPC if failed.full else errno.EIO, str(failed)) from failed
