"""A simulated disk whose files of SQLite are real ones too, so that several connections share them.

Writes and syncs are noted on the disk, whose power is cut. The index of the log is memory shared
by connections, and no part of the disk.
"""

from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import apsw

from tests.disk.disk import Disk, File

_names = count()


class SharedVfs(apsw.VFS):
    """Lets SQLite open real files, which are also on a simulated disk."""

    def __init__(self, disk: Disk) -> None:
        self.name = f"shared{next(_names)}"
        self.disk = disk
        self._directory = TemporaryDirectory(prefix="docstore-disk-")
        self._path = Path(self._directory.name).resolve()
        for name, file in disk.files.items():
            if "/" not in name:
                (self._path / name).write_bytes(file.now)
        super().__init__(self.name, base="")

    def path_of(self, name: str) -> str:
        """Return the name of a file for SQLite."""
        return str(self._path / name)

    def xOpen(self, name: Any, flags: list[int]) -> Any:  # noqa: N802 - SQLite's names
        return _Open(self.disk, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        super().xDelete(filename, False)
        self.disk.files.pop(Path(filename).name, None)

    def unregister(self) -> None:
        """Leave nothing but the disk."""
        super().unregister()
        self._directory.cleanup()


class _Open(apsw.VFSFile):
    """One open file of both kinds."""

    def __init__(self, disk: Disk, name: Any, flags: list[int]) -> None:
        path = name if isinstance(name, str) else name.filename()
        self._disk, self._file = disk, disk.files.setdefault(Path(path).name, File())
        super().__init__("", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        self._disk.before("write")
        self._file.write(offset, bytes(data))
        super().xWrite(data, offset)

    def xTruncate(self, size: int) -> None:  # noqa: N802
        self._disk.before("truncate")
        self._file.truncate(size)
        super().xTruncate(size)

    def xSync(self, flags: int) -> None:  # noqa: N802
        self._disk.before("sync")
        self._file.sync()
