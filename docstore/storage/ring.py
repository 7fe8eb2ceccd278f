"""A journal as a ring of files: where the next entry goes, and which files may be used again.

Every file is made full of zeros and of one size, and from then on overwritten lap after lap; so a
commit changes nothing but its own bytes. No entry crosses from one file into the next. A file may
be used again once the tables hold all of its entries durably (`flushed`); that they have been told
of them (`followed`) is not enough, since a power cut may take that back.

A ring is one of numbers, not of places: entries know their order (`journal.py`), and `open` looks
for them at every boundary of every file. That is 64 MiB to read at each start, and makes it the
same whether files were swapped, emptied, or put back from an older copy.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from docstore.storage import journal
from docstore.storage.journal import PAGE, START, Header, Position

FILE_BYTES = 8 << 20
FILES_MAX = 8
FILES_FREE = 2
"""As many files are kept ready, so that no commit waits for one to be made."""


class Files(Protocol):
    """The files of one directory, by name. Every call raises OSError when it fails.

    After a write or a sync that failed nothing is known of what is on the disk.
    """

    def names(self) -> list[str]:
        """Return the names of the files that are there, decimal numbers, in no order."""

    def create(self, name: str, size: int) -> None:
        """Make a file of `size` bytes, all zero, of whatever was there under that name.

        When this returns, its blocks and its name survive a power cut. After a failure it takes
        no room.
        """

    def remove(self, name: str) -> None:
        """Remove a file; a power cut does not bring it back once this returns."""

    def read(self, name: str, offset: int, length: int) -> bytes:
        """Return a stretch of a file; less of it where the file ends."""

    def write(self, name: str, offset: int, parts: Sequence[bytes]) -> None:
        """Overwrite a stretch with parts that follow each other: durable when this returns."""

    def sync(self) -> None:
        """Make durable what anybody ever wrote here, names as well.

        A process that was killed leaves writes in the memory of the kernel: readable, not durable.
        """

    def close(self) -> None:
        """Give everything back. Safe to call twice."""


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry and its place."""

    header: Header
    file: str
    offset: int
    parts: tuple[bytes, ...] = ()
    """What is to be written there."""


class Ring:
    """The places of a journal. Nothing in here is safe to call from two threads at a time.

    But `Files.write` of the entry that `next` returned may be called in another one.
    """

    def __init__(
        self, files: Files, key: bytes, *, file_bytes: int = FILE_BYTES, files_max: int = FILES_MAX
    ) -> None:
        """Do nothing yet.

        key: of the stamps. files_max: how many files of `file_bytes` there may be, two or more.
        Those that an earlier start had made beyond that number are read, and not used again.
        """
        assert file_bytes % PAGE == 0
        assert files_max > 1
        self.files = files
        self.end = START
        """The last entry that was handed out by `next`, or found."""
        self.flushed = 0
        """The number up to which the tables hold everything durably."""
        self.boot = 0
        """The greatest number of a start in any entry that was found."""
        self._key = key
        self._file_bytes = file_bytes
        self._files_max = files_max
        self._newest: dict[str, int] = {}
        """File -> the greatest number of an entry in it."""
        self._unfit: set[str] = set()
        """Files whose size is not ours: their making was interrupted, or they lost some."""
        self._current: str | None = None
        self._offset = 0

    # --- at a start ---------------------------------------------------------------------------

    def open(  # Seam.
        self, followed: Position, *, may_be_missing: bool = False
    ) -> list[Entry]:
        """Return the entries that the tables lack, in order; from then on those are known.

        followed: the last one that the tables have. may_be_missing: as for `journal.behind`.
        Raises StoreDamaged, OSError. Whoever writes them into the tables has to do it durably:
        `flushed` is where to say so.
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
        """Return whether an entry may be one of ours: not torn, beyond the end or in its place.

        An entry that was torn, and the one that a later start has written elsewhere instead of it,
        have one number. Were both to count, neither's file could be used again.
        """
        return header.number < self.end.number or header.position == self.end

    def body(self, entry: Entry) -> bytes:
        """Return what was written as the body of an entry, as the file has it. Raises OSError."""
        return self.files.read(entry.file, entry.offset + journal.HEADER_BYTES, entry.header.length)

    def is_written(self) -> bool:
        """Return whether there seems to be an entry, of whatever store. Raises OSError."""
        contents = (self.files.read(name, 0, self._file_bytes) for name in self.files.names())
        return any(map(journal.is_written, contents))

    # --- entry by entry -----------------------------------------------------------------------

    def fits(self, length: int) -> bool:
        """Return whether a body of so many bytes may be an entry: half a file at most."""
        return journal.room_for(length) <= self._file_bytes // 2

    def next(self, boot: int, body: bytes) -> Entry | None:
        """Return the next entry and take its place, or None while there is none.

        It is in the journal once its parts are written. Only then may `next` be called again; and
        never again if that fails.
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

        Once they have it durably, and say that its entry is missing, it is the `end`.
        """
        header, _ = journal.packed(self._key, boot, self.end, b"")
        return header.position

    def _free(self) -> list[str]:
        """Return the files that may be used again."""
        fit = self._newest.keys() - self._unfit - {self._current}
        return [name for name in fit if self._is_over(name) and not self._is_surplus(name)]

    def _is_over(self, name: str) -> bool:  # Seam.
        """Return whether nothing in a file counts any more.

        The very last entry does, wherever the tables are: it is what they are held against.
        """
        newest = self._newest[name]
        return newest == 0 or (newest <= self.flushed and newest < self.end.number)

    # --- files --------------------------------------------------------------------------------

    def wanted(self) -> str | None:
        """Return the name of the next file that should be made, if one should."""
        for name in sorted(self._unfit):
            if self._is_over(name) and not self._is_surplus(name):
                return name
        names = [str(number) for number in range(self._files_max)]
        missing = [name for name in names if name not in self._newest]
        return missing[0] if missing and len(self._free()) < FILES_FREE else None

    def make(self, name: str) -> None:
        """Make the file `name`, which takes a while. May run in another thread. Raises OSError."""
        self.files.create(name, self._file_bytes)

    def made(self, name: str) -> None:
        """Note that a file is there now."""
        self._newest[name] = 0
        self._unfit.discard(name)

    def remove_surplus(self) -> None:
        """Remove the files beyond as many as there may be, if nothing in them counts any more.

        At a start, before the first commit: it changes the directory. Raises OSError.
        """
        for name in [each for each in self._newest if self._is_surplus(each)]:
            if self._is_over(name):
                self.files.remove(name)
                del self._newest[name]
                self._unfit.discard(name)

    def _is_surplus(self, name: str) -> bool:
        return int(name) >= self._files_max
