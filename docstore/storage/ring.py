"""A journal as a ring of files: the place of the next entry, and the reusable files.

A file is created full of zeros and in one size, and then overwritten lap after lap, so a commit
changes nothing but its own bytes. No entry crosses from one file into the next. A file is reusable
once the tables hold all of its entries durably (`flushed`). Entries that the tables have only
followed do not count, since a power cut may take them back.

Entries are ordered by number, not by place (`journal.py`), and `open` looks for them at every
boundary of every file. A start reads 64 MiB for that, and files may have been swapped, emptied or
restored from an older copy.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from docstore.storage import journal
from docstore.storage.journal import PAGE, START, Header, Position

FILE_BYTES = 8 << 20
FILES_MAX = 8
FILES_FREE = 2
"""Number of files kept ready, so that no commit waits for a new one."""


class Files(Protocol):
    """The files of one directory, by name: of a fixed size, only overwritten.

    Every call raises OSError when it fails. After a failed write or sync the content of the disk is
    unknown. `disk_files.py` has real files; tests have a disk whose power they cut.
    """

    def names(self) -> list[str]:
        """Return the names of the files, decimal numbers, in no order."""

    def create(self, name: str, size: int) -> None:
        """Create or overwrite a file with `size` zero bytes.

        When this returns, its blocks and its name survive a power cut. After a failure it takes no
        room.
        """

    def remove(self, name: str) -> None:
        """Remove a file durably."""

    def read(self, name: str, offset: int, length: int) -> bytes:
        """Return bytes of a file; fewer where the file ends."""

    def write(self, name: str, offset: int, parts: Sequence[bytes]) -> None:
        """Overwrite bytes with consecutive parts. Durable when this returns."""

    def sync(self) -> None:
        """Make earlier writes of any process durable, and the names of the files.

        The writes of a killed process are in the kernel's memory: readable, not durable.
        """

    def close(self) -> None:
        """Release everything. Safe to call twice."""


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry and its place."""

    header: Header
    file: str
    offset: int
    parts: tuple[bytes, ...] = ()
    """Parts of the entry, to be written there one after the other."""


class Ring:
    """The places of a journal.

    Only one thread at a time may call it. But another thread may call `Files.write` for the entry
    that `next` returned.
    """

    def __init__(
        self, files: Files, key: bytes, *, file_bytes: int = FILE_BYTES, files_max: int = FILES_MAX
    ) -> None:
        """Do nothing yet. key: the secret key of the stamps.

        files_max: greatest number of files of `file_bytes`, two or more. Files beyond that number,
        from an earlier start, are read but not used again.
        """
        assert file_bytes % PAGE == 0
        assert files_max > 1
        self.files = files
        self.end = START
        """Position of the last entry found or returned by `next`."""
        self.flushed = 0
        """The number up to which the tables hold all entries durably."""
        self.boot = 0
        """The greatest boot number in any entry found."""
        self._key = key
        self._file_bytes = file_bytes
        self._files_max = files_max
        self._newest: dict[str, int] = {}
        """File -> the greatest number of an entry in it."""
        self._unfit: set[str] = set()
        """Files of a wrong size: their creation was interrupted, or they were truncated."""
        self._current: str | None = None
        self._offset = 0

    # --- at a start ---------------------------------------------------------------------------

    def open(  # Tests replace this.
        self, followed: Position, *, may_be_missing: bool = False
    ) -> list[Entry]:
        """Return the entries that the tables lack, in order, and begin after them.

        followed: the last position of the tables. may_be_missing: as for `journal.behind`. Raises
        StoreDamaged, OSError. The caller must write the entries into the tables durably, and then
        set `flushed`.
        """
        self.files.sync()
        found: dict[Header, Entry] = {}
        inside: dict[str, list[Header]] = {}
        for name in self.files.names():
            content = self.files.read(name, 0, self._file_bytes)
            if len(content) != self._file_bytes:
                self._unfit.add(name)
            headers = list(journal.headers_in(self._key, content))
            found |= {header: Entry(header, name, offset) for offset, header in headers}
            inside[name] = [header for _, header in headers]
        self.boot = max((header.boot for header in found), default=0)
        entries = journal.behind(
            followed,
            list(found),
            lambda header: header.is_whole(self.body(found[header])),
            may_be_missing=may_be_missing,
        )
        self.end = entries[-1].position if entries else followed
        self.flushed = followed.number
        for name, some in inside.items():
            counts = (each.number for each in some if self._counts(each))
            self._newest[name] = max(counts, default=0)
        return [found[header] for header in entries]

    def _counts(self, header: Header) -> bool:
        """Return whether an entry keeps its file: it is not torn, and not beyond the end.

        A torn entry has the same number as the one that a later start has written elsewhere instead
        of it. If both kept their files, none of them could be reused.
        """
        return header.number < self.end.number or header.position == self.end

    def body(self, entry: Entry) -> bytes:
        """Return the body of an entry, read from its file. Raises OSError."""
        return self.files.read(entry.file, entry.offset + journal.HEADER_BYTES, entry.header.length)

    def is_written(self) -> bool:
        """Return whether there seems to be an entry of any store. Raises OSError."""
        contents = (self.files.read(name, 0, self._file_bytes) for name in self.files.names())
        return any(map(journal.is_written, contents))

    # --- entry by entry -----------------------------------------------------------------------

    def fits(self, length: int) -> bool:
        """Return whether a body of `length` bytes may be an entry: half a file at most."""
        return journal.room_for(length) <= self._file_bytes // 2

    def next(self, boot: int, body: bytes) -> Entry | None:
        """Return the next entry and take its place, None while no file has room for it.

        The entry is in the journal once its parts are written. Call `next` again only after that,
        and never again if the write fails.
        """
        room = journal.room_for(len(body))
        if self._current is None or self._offset + room > self._file_bytes:
            free = self._free()
            if not free:
                return None
            self._current, self._offset = min(free, key=lambda name: (self._newest[name], name)), 0
        header, parts = journal.packed(self._key, boot, self.end, body)
        entry = Entry(header, self._current, self._offset, tuple(parts))
        self.end = header.position
        self._newest[self._current] = header.number
        self._offset += room
        return entry

    def skip(self, boot: int) -> Position:
        """Return the position after `end` for a commit that goes into the tables alone.

        It becomes the `end` once the tables hold the commit durably and record that its entry is
        missing.
        """
        header, _ = journal.packed(self._key, boot, self.end, b"")
        return header.position

    def _free(self) -> list[str]:
        """Return the reusable files."""
        fit = self._newest.keys() - self._unfit - {self._current}
        return [name for name in fit if self._is_over(name) and not self._is_surplus(name)]

    def _is_over(self, name: str) -> bool:  # Tests replace this.
        """Return whether no entry in a file counts any more.

        The very last entry always counts: a start compares the tables with it.
        """
        newest = self._newest[name]
        return newest == 0 or (newest <= self.flushed and newest < self.end.number)

    # --- files --------------------------------------------------------------------------------

    def wanted(self) -> str | None:
        """Return the name of the next file to create, None if there is none."""
        for name in sorted(self._unfit):
            if self._is_over(name) and not self._is_surplus(name):
                return name
        names = [str(number) for number in range(self._files_max)]
        missing = [name for name in names if name not in self._newest]
        return missing[0] if missing and len(self._free()) < FILES_FREE else None

    def make(self, name: str) -> None:
        """Create the file `name`, which takes a while. Any thread may call it. Raises OSError."""
        self.files.create(name, self._file_bytes)

    def made(self, name: str) -> None:
        """Note that a file was created."""
        self._newest[name] = 0
        self._unfit.discard(name)

    def remove_surplus(self) -> None:
        """Remove the files beyond `files_max` in which no entry counts any more.

        Call it at a start, before the first commit, since it changes the directory. Raises OSError.
        """
        for name in [each for each in self._newest if self._is_surplus(each)]:
            if self._is_over(name):
                self.files.remove(name)
                del self._newest[name]
                self._unfit.discard(name)

    def _is_surplus(self, name: str) -> bool:
        return int(name) >= self._files_max
