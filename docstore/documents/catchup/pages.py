"""Pages of a log for a replica that lacks them: from memory if possible, else from the disk."""

from collections.abc import Callable, Sequence

from docstore.documents import parts
from docstore.documents.core import Core
from docstore.documents.log import SlotLog
from docstore.documents.term import Follower, Term
from docstore.model.document import Row
from docstore.storage.store import After, Corrupt, Result, Rows

Then = Callable[[Sequence[Row]], None]
"""Callback that receives a page; it has at least one row."""


class Pages:
    def __init__(self, core: Core) -> None:
        self.core = core
        self.outbox = core.outbox

    def from_memory(self, log: SlotLog, first: int, last: int) -> list[Row]:
        rows, size = [log.pending[first]], log.pending[first].weight
        for n in range(first + 1, last + 1):
            row = log.pending.get(n)
            if row is None or size + row.weight > self.core.config.sending.page_bytes:
                break
            rows.append(row)
            size += row.weight
        return rows

    def tail(
        self, log: SlotLog, term: Term, follower: Follower, first: int, last: int, then: Then
    ) -> None:
        """Call `then` with rows from `first` on: at least one, at most a page.

        The page does not end within a batch (rule A2).
        """
        last = min(last, first + self.core.config.sending.page_rows - 1)
        if first in log.pending:
            then(parts.whole(self.from_memory(log, first, last)))
            return

        def of_the_log(rows: Sequence[Row]) -> None:
            if rows[0].n == first:
                then(parts.whole(rows))

        # Above `durable` the disk may still hold rows that were truncated in memory.
        query = Rows(log.slot, first, min(last, log.durable), self.core.config.sending.page_bytes)
        self._ask_disk(log, term, follower, query, of_the_log)

    def left(
        self, log: SlotLog, term: Term, follower: Follower, after: int, count: int, then: Then
    ) -> None:
        """Call `then` with the next rows on the disk; their numbers have gaps after compaction."""
        query = After(log.slot, after, log.durable, count, self.core.config.sending.page_bytes)
        self._ask_disk(log, term, follower, query, then)

    def _ask_disk(
        self, log: SlotLog, term: Term, follower: Follower, query: Rows | After, then: Then
    ) -> None:
        follower.reading, follower.sent_at = True, self.core.now

        def found(result: Result) -> None:
            follower.reading = False
            if log.term is not term:
                return
            if isinstance(result, Corrupt):
                self.core.corrupt(log)
            elif result:
                then(result)

        self.outbox.read(query, found)
