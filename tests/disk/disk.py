"""A disk in memory: its writes, which of them are durable, and its faults.

`sync` makes all earlier writes durable; nothing else does. A cut of power leaves any part of the
other writes: each whole, in part (in sectors of 512 bytes), or not at all, in any combination. A
fault can be put at the n-th call.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

SECTOR = 512


class Failed(Exception):
    """A call of the disk fails: the files translate it for SQLite and for the journal."""

    def __init__(self, call: str, *, full: bool = False) -> None:
        super().__init__(f"{call} failed" if not full else "no room")
        self.call = call
        self.full = full


@dataclass(slots=True)
class File:
    """One file: as programs see it, as it would be after a cut, and the difference."""

    now: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    unsynced: list[tuple[int, bytes | None]] = field(default_factory=list)
    """(offset, data) of a write, (size, None) of a truncation."""
    is_named: bool = True
    """Whether its name survives a cut; SQLite ensures that itself."""

    def write(self, offset: int, data: bytes) -> None:
        """Write; not durable before the next sync."""
        _write(self.now, offset, data)
        self.unsynced.append((offset, data))

    def truncate(self, size: int) -> None:
        """Shorten; not durable before the next sync."""
        del self.now[size:]
        self.unsynced.append((size, None))

    def sync(self) -> None:
        """Make all writes durable."""
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
    may raise Failed.
    """

    def __init__(self, files: dict[str, bytearray] | None = None) -> None:
        self.files = {
            name: File(bytearray(content), bytearray(content))
            for name, content in (files or {}).items()
        }
        self.removed: dict[str, File] = {}
        """Removed files that a cut may bring back."""
        self.before: Callable[[str], None] = lambda call: None

    def cut(self, rng: Random) -> "Disk":
        """Return a disk as it may be found after a cut of power at this moment."""
        left = {
            name: file.after_a_cut(rng)
            for name, file in self.files.items()
            if file.is_named or rng.random() < 0.5
        }
        for name, file in self.removed.items():
            if name not in left and rng.random() < 0.5:
                left[name] = file.after_a_cut(rng)
        return Disk(left)

    def killed(self) -> "Disk":
        """Return the disk as another process finds it after this one was killed."""
        return Disk({name: file.now for name, file in self.files.items()})
