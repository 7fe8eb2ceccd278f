"""Listings and counts of a factory: each owner lists its slots, and the entry node merges.

A quorum confirms each owner after the request arrived (rule R1), so a listing is as consistent as a
GET. An owner returns its entries and a *horizon*: the link up to which they are complete. The
merged page ends at the smallest horizon, where the next page begins. A slot that changes its owner
meanwhile is left out of the answer and asked for again.

At levels 1 and 2 no quorum confirms anything: the node that would execute an operation on a
document lists it from its disk.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

from docstore.documents.events import SlotCorrupted
from docstore.documents.eventual.branches import Branches
from docstore.model.document import Row
from docstore.model.slots import from_bitmap
from docstore.reads.owners import Owners
from docstore.runtime.driver import Driver
from docstore.runtime.links.rpc import Rpc
from docstore.storage.replication_log import Heads
from docstore.storage.store import UNBOUNDED, Bounds, Corrupt, Newest, Store
from docstore.wire.requests import Answered, CountDocuments, ListDocuments

FIRST_ROWS, BYTES_MAX = 32, 4 << 20
"""Rows of the first read, whose size determines the next ones; bytes after which an owner ends its
answer."""
ALL_AT_ONCE = 1000

Entry = tuple[str, int, Row | None]
"""Link, newest version, and its row if the caller asked for it."""


class Listed(NamedTuple):
    """Live documents by link. horizon: link up to which they are complete; "": to the end."""

    entries: list[Entry]
    horizon: str


class Listings:
    """Lists and counts documents, as the entry node and as an owner."""

    def __init__(self, driver: Driver, store: Store, rpc: Rpc, owners: Owners) -> None:
        self._driver = driver
        self._view = driver.view
        self._store = store
        self._owners = owners
        rpc.serve(ListDocuments, self._list_here)
        rpc.serve(CountDocuments, self._count_here)

    async def all(
        self, factory: str, *, level: int, timeout_s: float, expand: bool = True
    ) -> list[Entry]:
        """Return the live documents under a factory, with rows if `expand`. Raises Unavailable."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        listed = Listed([], "")
        found: list[Entry] = []
        while True:
            listed = await self.page(
                factory, after=listed.horizon, limit=ALL_AT_ONCE, expand=expand, level=level,
                timeout_s=deadline - loop.time(),
            )  # fmt: skip
            found += listed.entries
            if not listed.horizon:
                return found

    async def page(
        self, factory: str, *, after: str, limit: int, expand: bool, level: int, timeout_s: float
    ) -> Listed:
        """Return up to `limit` live documents after a link. Raises Unavailable, NoQuorum."""
        request = partial(ListDocuments, factory, after, limit, expand)
        parts = await self._owners.ask(request, level, timeout_s)
        horizon = min((reached for reached, _ in parts if reached), default="")
        every = (entry for _, entries in parts for entry in entries)
        merged = sorted(each for each in every if not horizon or each[0] <= horizon)
        if len(merged) > limit:
            merged, horizon = merged[:limit], merged[limit - 1][0]
        entries = [(link, version, Row(*row) if row else None) for link, version, row in merged]
        return Listed(entries, horizon)

    async def count(self, factory: str, *, level: int, timeout_s: float) -> int:
        """Count the live documents under a factory. Raises Unavailable, NoQuorum."""
        return sum(await self._owners.ask(partial(CountDocuments, factory), level, timeout_s))

    async def _list_here(self, asked: ListDocuments) -> Answered:
        level = asked.level
        until = await self._bounds(asked.slots, level, asked.left_s)
        unchanged = self._watch(until)
        below = _below(asked.factory)
        found = await self._store.links(below, asked.after, asked.limit, until, level=level)
        horizon = found[-1][1] if len(found) == asked.limit else ""
        shown = [(slot, (link, version, None)) for slot, link, version in found]
        damaged: set[int] = set()
        if asked.expand:
            shown, damaged, reached = await self._expanded(found, until, level)
            horizon = reached or horizon
        answered = unchanged() - damaged
        entries = [each for slot, each in shown if slot in answered]
        return Answered(self._view.bitmap(answered), (horizon, entries))

    async def _count_here(self, asked: CountDocuments) -> Answered:
        until = await self._bounds(asked.slots, asked.level, asked.left_s)
        unchanged = self._watch(until)
        counted = await self._store.count(_below(asked.factory), until, level=asked.level)
        answered = unchanged()
        count = sum(counted.get(slot, 0) for slot in answered)
        return Answered(self._view.bitmap(answered), count)

    async def _bounds(self, bitmap: bytes, level: int, timeout_s: float) -> Bounds:
        """Return slot -> row up to which this node may answer, when its disk has these rows."""
        slots = list(from_bitmap(bitmap))
        if level < 3:
            behind = self._view.owners.is_behind(level)
            return {} if behind else {s: UNBOUNDED for s in slots if s in self._view.logs}
        index = await self._driver.read_index(slots, timeout_s)
        await self._driver.stored()
        return {slot: n for slot, (_, n) in index.items()}

    def _watch(self, until: Bounds) -> Callable[[], set[int]]:
        """Return a function that returns the slots from which a read of the disk missed nothing.

        A read misses rows where the slot left this node or was refilled meanwhile, or was
        compacted beyond the row up to which it was read.
        """
        logs = self._view.logs
        before = [(log, log.cuts) for slot in until if (log := logs.get(slot)) is not None]

        def unchanged() -> set[int]:
            return {
                log.slot
                for log, cuts in before
                if logs.get(log.slot) is log and log.cuts == cuts and log.kept <= until[log.slot]
            }

        return unchanged

    async def _expanded(
        self, found: Sequence[tuple[int, str, int]], until: Bounds, level: int
    ) -> tuple[list[tuple[int, Any]], set[int], str]:
        """Return (slot, entry with its row), damaged slots, and the horizon if it is incomplete."""
        shown: list[tuple[int, Any]] = []
        damaged: set[int] = set()
        done, at_once, size = 0, FIRST_ROWS, 0
        while done < len(found) and size <= BYTES_MAX:
            part = found[done : done + at_once]
            queries = [
                Heads(slot, link) if level < 3 else Newest(slot, link, until[slot])
                for slot, link, _ in part
            ]
            for (slot, link, _), rows in zip(part, await self._store.read(queries), strict=True):
                if isinstance(rows, Corrupt):
                    damaged.add(slot)
                elif (row := _shown(rows, level)) is not None:
                    shown.append((slot, (link, row.version, tuple(row))))
                    size += len(row.state)
            done += len(part)
            # The next documents are expected to have the average size of those read.
            at_once = max(1, (BYTES_MAX - size) * done // (size + 1))
        self._report(damaged, level)
        return shown, damaged, found[done - 1][1] if done < len(found) else ""

    def _report(self, damaged: Iterable[int], level: int) -> None:
        for slot in damaged if level == 3 else ():
            self._driver.feed(SlotCorrupted(slot))


def _below(factory: str) -> str:
    return factory.rstrip("/") + "/"


def _shown(rows: Sequence[Row], level: int) -> Row | None:
    """Return the version that a listing shows, None if the document was deleted meanwhile."""
    row = Branches.of(rows).winner if level < 3 else next(iter(rows), None)
    return row if row is not None and not row.deleted else None
