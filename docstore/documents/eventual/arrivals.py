"""Arrivals: the versions of levels 1 and 2 on this disk, numbered in the order of arrival.

Every version gets a number here, also those of other writers. The newest stay in memory, so that a
peer that keeps up costs no disk reads.
"""

from collections import deque

from docstore.model.document import Row
from docstore.storage.answers import row_bytes
from docstore.storage.store import Recovered

RECENT_BYTES = 16 << 20
"""Bytes of the newest versions kept in memory."""


class Arrived:
    """The numbers of arrivals: the last one, the last durable one, and the newest versions."""

    def __init__(self, recovered: Recovered) -> None:
        self.reset(recovered)

    def reset(self, recovered: Recovered) -> None:
        self.disk = recovered.store_id[:12]
        """Id of the disk that gives the numbers."""
        self.last = self.durable = recovered.arrived
        self._recent: deque[Row] = deque()
        self._recent_bytes = 0

    @property
    def next_number(self) -> int:
        return self.last + 1

    def note(self, row: Row) -> None:
        self.last = row.n
        self._recent.append(row)
        self._recent_bytes += row_bytes(row)
        while self._recent_bytes > RECENT_BYTES:
            self._recent_bytes -= row_bytes(self._recent.popleft())

    def stored(self, n: int) -> None:
        self.durable = max(self.durable, n)

    def after(self, n: int, rows_max: int) -> list[Row] | None:
        """Return the next versions after number n; None if memory does not hold them any more."""
        recent = self._recent
        if not recent or recent[0].n > n + 1:
            return None
        skip = n + 1 - recent[0].n
        return [recent[i] for i in range(skip, min(len(recent), skip + rows_max))]
