"""Background scrubbing: finds silent disk errors in rows that no client reads.

Once per interval, in small steps, a node reads every row of its slots, and so verifies the row's
checksum. It also compares the slots that it owns with their other replicas, as a resynchronisation
does. A damaged replica abstains from then on, and the owner refills it. Source: scrubbing as in
ZFS.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence

import structlog

from docstore.documents.events import SlotCorrupted
from docstore.documents.view import LogView, ReplicaView
from docstore.errors import DocstoreError
from docstore.maintenance.upkeep.background import Background
from docstore.maintenance.upkeep.resync import SLOTS_AT_ONCE, batched
from docstore.storage.store import Corrupt, Rows, Store

log = structlog.get_logger("docstore.maintenance.upkeep.repair")

ROWS_AT_ONCE = 256
PAUSE_S = 0.01
"""Seconds between two pages of rows, so that clients hardly notice."""

Compare = Callable[[Sequence[int]], Awaitable[int]]
"""Compares slots of this owner with their other replicas; returns how many replicas differed."""


class Repair(Background):
    """Scrubs this node's slots, again and again."""

    def __init__(
        self,
        view: ReplicaView,
        store: Store,
        compare: Compare,
        report: Callable[[SlotCorrupted], None],
        interval_s: float,
    ) -> None:
        super().__init__("repair", self._pass)
        self.counters: Counter[str] = Counter()
        self._view = view
        self._store = store
        self._compare = compare
        self._report = report
        self._interval_s = interval_s

    def start(self) -> None:
        """Begin, unless the interval is 0."""
        if self._interval_s > 0:
            super().start()

    async def _pass(self) -> None:
        # A node without slots, such as an observer, waits for one empty part.
        parts = list(batched(sorted(self._view.logs), SLOTS_AT_ONCE)) or [()]
        for part in parts:
            await asyncio.sleep(self._interval_s / len(parts))
            try:
                await self._look(part)
            except DocstoreError as error:
                self.counters["interrupted"] += 1
                log.info("scrubbing of some slots was interrupted", error=str(error))
        self.counters["passes"] += 1

    async def _look(self, slots: Sequence[int]) -> None:
        for slot in slots:
            held = self._view.logs.get(slot)  # The slot may have left this node meanwhile.
            if held is not None:
                await self._scrub(held)
        owned = [slot for slot in slots if self._view.owners.owns(slot)]
        if owned:
            self.counters["compared"] += len(owned)
            self.counters["differed"] += await self._compare(owned)

    async def _scrub(self, held: LogView) -> None:
        n = 1
        while held.full and n <= held.durable:
            last = min(n + ROWS_AT_ONCE - 1, held.durable)
            [result] = await self._store.read([Rows(held.slot, n, last)])
            if isinstance(result, Corrupt):
                log.error("a row failed its checksum", slot=held.slot)
                self.counters["corrupt"] += 1
                self._report(SlotCorrupted(held.slot))
                return
            self.counters["rows"] += len(result)
            n = result[-1].n + 1 if result else last + 1
            await asyncio.sleep(PAUSE_S)
