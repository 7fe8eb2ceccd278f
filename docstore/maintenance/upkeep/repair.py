"""Repair in the background: what nobody reads is looked at as well.

Disks lose bits without a word. So every node goes through all slots that it holds, once in each
interval, in small steps: it reads every row, whose checksum is verified on the way, and it compares
the slots that it owns with their other replicas. Where something is wrong the slot is corrupted:
its replica abstains from then on and is filled anew by the owner.

Source: scrubbing as in ZFS; the comparison is the one that a resynchronisation makes.
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
"""Between two pages of rows, so that clients hardly notice."""

Compare = Callable[[Sequence[int]], Awaitable[int]]
"""Compares slots that we own with their other replicas; returns how many replicas differed."""


class Repair:
    """Goes through this node's slots, again and again."""

    def __init__(
        self,
        view: ReplicaView,
        store: Store,
        compare: Compare,
        report: Callable[[SlotCorrupted], None],
        interval_s: float,
    ) -> None:
        self.counters: Counter[str] = Counter()
        self._view = view
        self._store = store
        self._compare = compare
        self._report = report
        self._interval_s = interval_s
        self._background = Background("repair", self._pass)

    def start(self) -> None:
        """Begin, unless the interval says never."""
        if self._interval_s > 0:
            self._background.start()

    async def stop(self) -> None:
        """Stop where it is; the next start begins at the first slot."""
        await self._background.stop()

    async def _pass(self) -> None:
        # A node that holds nothing, an observer say, has one empty part to wait for.
        parts = list(batched(sorted(self._view.logs), SLOTS_AT_ONCE)) or [()]
        for part in parts:
            await asyncio.sleep(self._interval_s / len(parts))
            try:
                await self._look(part)
            except DocstoreError as error:
                self.counters["interrupted"] += 1
                log.info("a look at some slots was interrupted", error=str(error))
        self.counters["passes"] += 1

    async def _look(self, slots: Sequence[int]) -> None:
        for slot in slots:
            held = self._view.logs.get(slot)  # It may have gone to another node meanwhile.
            if held is not None:
                await self._scrub(held)
        owned = [slot for slot in slots if self._view.owners.owns(slot)]
        if owned:
            self.counters["compared"] += len(owned)
            self.counters["differed"] += await self._compare(owned)

    async def _scrub(self, held: LogView) -> None:
        """Read all rows of a slot; the store verifies the checksum of each."""
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
