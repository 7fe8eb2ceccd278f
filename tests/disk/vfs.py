"""A simulated disk under SQLite (`disk.py`): its writes, which are durable, its faults."""

from itertools import count
from typing import Any

import apsw

from tests.disk.disk import SECTOR, Disk, Failed, File

_names = count()
_ERRORS = {
    "read": apsw.SQLITE_IOERR_READ,
    "write": apsw.SQLITE_IOERR_WRITE,
    "sync": apsw.SQLITE_IOERR_FSYNC,
    "truncate": apsw.SQLITE_IOERR_TRUNCATE,
    "delete": apsw.SQLITE_IOERR_DELETE,
}


class Vfs(apsw.VFS):
    """Lets SQLite open files of one disk; registered under `name` while it exists."""

    def __init__(self, disk: Disk) -> None:
        self.name = f"disk{next(_names)}"
        self.disk = disk
        super().__init__(self.name, base="")

    def path_of(self, name: str) -> str:
        """Return the name of a file for SQLite."""
        return name

    def xOpen(self, name: Any, flags: list[int]) -> Any:  # noqa: N802 - SQLite's names
        filename = name if isinstance(name, str) else (name.filename() if name else "temporary")
        flags[1] = flags[0]
        return _Open(self.disk, self.disk.files.setdefault(str(filename), File()))

    def xAccess(self, pathname: str, flags: int) -> bool:  # noqa: N802
        return pathname in self.disk.files

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        _before(self.disk, "delete")
        self.disk.files.pop(filename, None)

    def xFullPathname(self, name: str) -> str:  # noqa: N802
        return name


class _Open:
    """One open file, with the methods that SQLite calls."""

    def __init__(self, disk: Disk, file: File) -> None:
        self._disk, self._file = disk, file

    def xRead(self, amount: int, offset: int) -> bytes:  # noqa: N802
        _before(self._disk, "read")
        return bytes(self._file.now[offset : offset + amount])

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        _before(self._disk, "write")
        self._file.write(offset, bytes(data))

    def xTruncate(self, size: int) -> None:  # noqa: N802
        _before(self._disk, "truncate")
        self._file.truncate(size)

    def xSync(self, flags: int) -> None:  # noqa: N802
        _before(self._disk, "sync")
        self._file.sync()

    def xFileSize(self) -> int:  # noqa: N802
        return len(self._file.now)

    def xFileControl(self, op: int, ptr: int) -> bool:  # noqa: N802
        return False

    def xSectorSize(self) -> int:  # noqa: N802
        return SECTOR

    def xDeviceCharacteristics(self) -> int:  # noqa: N802
        return 0

    def xCheckReservedLock(self) -> bool:  # noqa: N802
        return False

    def xLock(self, level: int) -> None:  # noqa: N802
        """Do nothing: no other connection has the file."""

    def xUnlock(self, level: int) -> None:  # noqa: N802
        """Do nothing: no other connection wants the file."""

    def xClose(self) -> None:  # noqa: N802
        """Do nothing: closing does not sync."""


def _before(disk: Disk, call: str) -> None:
    """Let the disk fail as SQLite would see it."""
    try:
        disk.before(call)
    except Failed as failed:
        error = (apsw.FullError if failed.full else apsw.IOError)(str(failed))
        error.extendedresult = apsw.SQLITE_FULL if failed.full else _ERRORS[call]
        raise error from failed
