"""Documents in memory at their owner: those that came last, as many as a bound of bytes allows."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from docstore.documents.jobs import Jobs
from docstore.model.document import Row

HEAD_BYTES, ROW_BYTES = 250, 700
"""What a document costs here that is not there, and one that is, beside its state: measured."""


@dataclass(slots=True)
class CachedDocument:
    """A document at its owner: its newest row, and its newest decided one."""

    newest: Row | None
    decided: Row | None
    jobs: Jobs | None = None
    """The bulk jobs that wrote it; None until one asks."""


class DocumentCache(dict[str, CachedDocument]):
    """link -> the document, of one slot."""

    __slots__ = ("bytes", "evict_above", "pinned")

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0
        self.evict_above = 0
        """Bytes from which on it is worth looking for some to forget."""
        self.pinned: Counter[str] = Counter()
        """link -> how many batches wait for others beside it: it is not forgotten."""

    def load(self, link: str, row: Row | None) -> None:
        """Take a document as the disk has it, None for one that is not there."""
        self[link] = CachedDocument(row, row, None if row else {})
        self.bytes += _weight(row)

    def renew(self, cached: CachedDocument, row: Row) -> None:
        """Take the next row of a document."""
        self.bytes += _weight(row) - _weight(cached.newest)
        cached.newest = row

    def pin(self, links: Sequence[str]) -> None:
        """Keep documents, those that are here and those that come, until they are unpinned."""
        self.pinned.update(links)

    def unpin(self, links: Sequence[str]) -> None:
        """Take a `pin` back."""
        self.pinned -= Counter(links)

    def keep_within(self, bytes_max: int, safe: int) -> None:
        """Forget the documents that came first, if there are too many.

        safe: no row above is forgotten; it is not on the disk yet, or not decided.
        """
        if self.bytes <= max(self.evict_above, bytes_max):
            return
        self._evict(bytes_max // 2, safe)
        # What had to stay is not looked through again before it is half as much more.
        self.evict_above = self.bytes * 3 // 2

    def _evict(self, until_bytes: int, safe: int) -> None:
        self.bytes = sum(_weight(cached.newest) for cached in self.values())
        for link in list(self):
            if self.bytes <= until_bytes:
                return
            newest = self[link].newest
            if link not in self.pinned and (newest is None or newest.n <= safe):
                self.bytes -= _weight(newest)
                del self[link]


def _weight(row: Row | None) -> int:
    """Return about how many bytes a document takes in memory, what is around its state included."""
    return ROW_BYTES + len(row.state) if row else HEAD_BYTES
