"""A disk in memory under SQLite: what was written, what of it is durable, and what goes wrong.

`sync` makes durable what was written before it; nothing else does. A cut of power leaves any
part of what was not: each write whole, in part (in sectors of 512 bytes), or not at all, in any
combination. A fault can be put at the n-th call.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Any

import apsw

SECTOR = 512


@dataclass(slots=True)
class File:
    """One file: as programs see it, as it would be after a cut, and the difference."""

    now: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    unsynced: list[tuple[int, bytes | None]] = field(default_factory=list)
    """(offset, data) of a write, (size, None) of a truncation."""

    def write(self, offset: int, data: bytes) -> None:
        """Write; not durable before the next sync."""
        _write(self.now, offset, data)
        self.unsynced.append((offset, data))

    def truncate(self, size: int) -> None:
        """Shorten; not durable before the next sync."""
        del self.now[size:]
        self.unsynced.append((size, None))

    def sync(self) -> None:
        """Make all that was written durable."""
        self.durable = bytearray(self.now)
        self.unsynced.clear()

    def after_a_cut(self, rng: Random) -> bytearray:
        """Return what may be left of the file."""
        left = bytearray(self.durable)
        for offset, data in self.unsynced:
            fate = rng.random()
            if fate < 0.4:
                continue
            if data is None:
                del left[offset:]
            elif fate < 0.8:
                _write(left, offset, data)
            else:
                for at in range(0, len(data), SECTOR):
                    if rng.random() < 0.5:
                        _write(left, offset + at, data[at : at + SECTOR])
        return left


def _write(content: bytearray, offset: int, data: bytes) -> None:
    if len(content) < offset:
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(data)] = data


class Disk:
    """Files by name, and a hook that sees every call.

    before: called with the name of each call that writes, reads or syncs, before it is done; it
    may raise an error of apsw, which then is what SQLite gets.
    """

    def __init__(self, files: dict[str, bytearray] | None = None) -> None:
        self.files = {
            name: File(bytearray(content), bytearray(content))
            for name, content in (files or {}).items()
        }
        self.before: Callable[[str], None] = lambda call: None

    def cut(self, rng: Random) -> "Disk":
        """Return a disk as it may be found after a cut of power at this moment."""
        return Disk({name: file.after_a_cut(rng) for name, file in self.files.items()})

    def killed(self) -> "Disk":
        """Return the disk as another process finds it after this one was killed."""
        return Disk({name: file.now for name, file in self.files.items()})


_names = count()


class Vfs(apsw.VFS):
    """Lets SQLite open files of one disk; registered under `name` while it exists."""

    def __init__(self, disk: Disk) -> None:
        self.name = f"disk{next(_names)}"
        self.disk = disk
        super().__init__(self.name, base="")

    def xOpen(self, name: Any, flags: list[int]) -> Any:  # noqa: N802 - SQLite's names
        filename = name if isinstance(name, str) else (name.filename() if name else "temporary")
        flags[1] = flags[0]
        return _Open(self.disk, self.disk.files.setdefault(str(filename), File()))

    def xAccess(self, pathname: str, flags: int) -> bool:  # noqa: N802
        return pathname in self.disk.files

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        self.disk.before("delete")
        self.disk.files.pop(filename, None)

    def xFullPathname(self, name: str) -> str:  # noqa: N802
        return name


class _Open:
    """One open file, with the methods that SQLite calls."""

    def __init__(self, disk: Disk, file: File) -> None:
        self._disk, self._file = disk, file

    def xRead(self, amount: int, offset: int) -> bytes:  # noqa: N802
        self._disk.before("read")
        return bytes(self._file.now[offset : offset + amount])

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        self._disk.before("write")
        self._file.write(offset, bytes(data))

    def xTruncate(self, size: int) -> None:  # noqa: N802
        self._disk.before("truncate")
        self._file.truncate(size)

    def xSync(self, flags: int) -> None:  # noqa: N802
        self._disk.before("sync")
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
        """Nobody else has the file."""

    def xUnlock(self, level: int) -> None:  # noqa: N802
        """Nobody else wants it."""

    def xClose(self) -> None:  # noqa: N802
        """Closing is not syncing."""


def opened(vfs: Vfs) -> Iterator[str]:
    """Yield the names of the files of a disk."""
    yield from vfs.disk.files
