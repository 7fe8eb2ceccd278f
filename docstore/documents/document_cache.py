"""The owner's cache of documents: the most recently loaded, within a bound in bytes."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from docstore.documents.jobs import Jobs
from docstore.model.document import Row

HEAD_BYTES, ROW_BYTES = 250, 700
"""Measured bytes in memory of an absent document, and of a present one besides its state."""


@dataclass(slots=True)
class CachedDocument:
    """A document's newest row, and its newest decided row."""

    newest: Row | None
    decided: Row | None
    jobs: Jobs | None = None
    """Bulk jobs that wrote the document; None until the first operation of a job loads them."""


class DocumentCache(dict[str, CachedDocument]):
    """Link -> document, of one slot."""

    __slots__ = ("bytes", "evict_above", "pinned")

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0
        self.evict_above = 0
        """Size in bytes below which an eviction is not tried."""
        self.pinned: Counter[str] = Counter()
        """Link -> number of batches that wait for its companions; pinned documents are not evicted.
        """

    def load(self, link: str, row: Row | None) -> None:
        """Cache a document as read from the disk; None if it is absent."""
        self[link] = CachedDocument(row, row, None if row else {})
        self.bytes += _weight(row)

    def renew(self, cached: CachedDocument, row: Row) -> None:
        self.bytes += _weight(row) - _weight(cached.newest)
        cached.newest = row

    def pin(self, links: Sequence[str]) -> None:
        """Keep documents, cached or still to be loaded, until `unpin`."""
        self.pinned.update(links)

    def unpin(self, links: Sequence[str]) -> None:
        self.pinned -= Counter(links)

    def keep_within(self, bytes_max: int, safe: int) -> None:
        """Evict the documents that were loaded first, if the cache is too large.

        safe: last row that is decided and on the disk; documents with a later row are kept.
        """
        if self.bytes <= max(self.evict_above, bytes_max):
            return
        self._evict(bytes_max // 2, safe)
        # The remaining documents had to stay: try again when the cache has grown by half.
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
    return ROW_BYTES + row.weight if row else HEAD_BYTES
