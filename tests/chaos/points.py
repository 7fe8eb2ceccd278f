"""Moments of a commit on its way to the disk at which a process may be made to end itself."""

from collections.abc import Callable, Sequence
from typing import Any

from docstore.storage.disk_files import DiskFiles
from docstore.storage.ring import Entry, Ring
from docstore.storage.writing import Writer

POINTS = ("journal:written", "follow:begun", "follow:committed", "flush", "lap")
"""An entry is in the journal, and not acknowledged; the tables begin to follow; they have followed;
they are flushed, and so release the journal; a file of the journal is used again."""


def install(reached: Callable[[str], None], put: Callable[[Any, str, Any], None] = setattr) -> None:
    """Call `reached` at each of them, in the thread that reaches it."""
    write, follow, following = DiskFiles.write, Writer.follow, Ring.next

    def write_and_tell(self: DiskFiles, name: str, offset: int, parts: Sequence[bytes]) -> None:
        write(self, name, offset, parts)
        reached("journal:written")

    def follow_and_tell(self: Writer, *about: Any, durably: bool, boot: int = 0) -> None:
        reached("follow:begun")
        follow(self, *about, durably=durably, boot=boot)
        reached("flush" if durably else "follow:committed")

    def next_and_tell(self: Ring, boot: int, body: bytes) -> Entry | None:
        before = self._newest.copy()
        entry = following(self, boot, body)
        if entry is not None and entry.offset == 0 and before[entry.file]:
            reached("lap")
        return entry

    put(DiskFiles, "write", write_and_tell)
    put(Writer, "follow", follow_and_tell)
    put(Ring, "next", next_and_tell)
