"""A store with a journal whose tables follow on demand, entry by entry."""

import sqlite3
from collections.abc import Collection, Sequence
from typing import cast

from docstore.model.document import Row
from docstore.storage import backlog, listing, reading
from docstore.storage.overlaid import Overlaid
from docstore.storage.store import Bounds, Query, Recovered, Result, Write
from docstore.storage.tail import Wait
from tests.disk.disk import Disk
from tests.disk.journalled import Journalled

STEPS = ("nothing", "follow one", "follow three", "flush", "start again")


class Stepped:
    """The journal, the overlay and the tables of a release; a waiting read makes them follow."""

    def __init__(self, disk: Disk) -> None:
        self._opened = Journalled(disk)
        self._begin()

    def _begin(self) -> None:
        self.reads = Overlaid(self._opened.backlog.overlay, self, self._wait)

    @property
    def _raw(self) -> sqlite3.Connection:
        return cast("sqlite3.Connection", self._opened.connection)

    def commit(self, writes: Sequence[Write]) -> None:
        """Make a batch durable in the journal."""
        self._opened.commit(writes)

    def do(self, step: str) -> None:
        """Do one of `STEPS`."""
        match step:
            case "follow one" | "follow three":
                self.follow(1 if step == "follow one" else 3)
            case "flush":
                self.flush()
            case "start again":
                self.start_again()

    def follow(self, entries: int) -> None:
        """Have the tables follow some entries."""
        at_once = backlog.ROWS_AT_ONCE, backlog.BYTES_AT_ONCE
        backlog.ROWS_AT_ONCE = backlog.BYTES_AT_ONCE = 0  # The first one is always taken.
        try:
            self._opened.follow(entries)
        finally:
            backlog.ROWS_AT_ONCE, backlog.BYTES_AT_ONCE = at_once

    def flush(self) -> None:
        """Sync the followed entries, so that a power cut loses none of them."""
        self._opened.now += backlog.FLUSH_S
        self.follow(1)

    def start_again(self) -> None:
        """Kill the process, and start on the files that are left."""
        disk = self._opened.disk.killed()
        self._opened.give_back()
        self._opened = Journalled(disk)
        self._begin()

    def close(self) -> None:
        """Release all resources."""
        self._opened.give_back()

    async def _wait(self, wait: Wait) -> None:
        while self._opened.backlog.overlay.followed < wait.number:
            self.follow(1)

    # Answers of the tables alone.

    async def read(self, queries: Sequence[Query]) -> list[Result]:
        """Answer from the tables."""
        return reading.answer(self._raw, queries)

    async def recover(self) -> Recovered:
        """Recover from the tables."""
        return reading.recovered(self._raw)

    async def links(
        self, prefix: str, after: str, limit: int, until: Bounds, *, level: int = 3
    ) -> list[tuple[int, str, int]]:
        """List from the tables."""
        return listing.links(self._raw, prefix, after, limit, until, level=level)

    async def count(self, prefix: str, until: Bounds, *, level: int = 3) -> dict[int, int]:
        """Count in the tables."""
        return listing.count(self._raw, prefix, until, level=level)

    async def below(self, prefix: str, slots: Collection[int]) -> list[Row]:
        """List from the tables."""
        return listing.below(self._raw, prefix, slots)

    async def with_agenda(self, prefix: str, slots: Collection[int]) -> list[Row]:
        """List from the tables."""
        return listing.with_agenda(self._raw, prefix, slots)

    async def digests(self, slots: Sequence[int]) -> dict[int, tuple[int, int, str]]:
        """Return digests from the tables."""
        return listing.digests(self._raw, slots)
