"""The files that a journal lies in, as the journal sees them: of a fixed size, only overwritten.

Real ones are those of `disk_files.py`; tests have a disk whose power they cut.
"""

from collections.abc import Sequence
from typing import Protocol


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
