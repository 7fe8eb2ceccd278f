"""Positions of all slots: the number of rows that their owners have decided, now or at a time."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence

from docstore.errors import NoQuorum, Unavailable
from docstore.model.document import Row, ballot_at
from docstore.model.slots import from_bitmap
from docstore.runtime.driver import Driver
from docstore.runtime.links.rpc import Rpc
from docstore.storage.store import After, Corrupt, LastBefore, Result, Store
from docstore.wire.requests import FindPositions, SlotPosition

AGAIN_S = 0.1


class SlotPositions:
    """Asks owners for the positions of slots, and answers for the slots of this node."""

    def __init__(self, driver: Driver, store: Store, rpc: Rpc) -> None:
        self._driver = driver
        self._view = driver.view
        self._members, self._owners = driver.view.members, driver.view.owners
        self._store = store
        self._rpc = rpc
        rpc.serve(FindPositions, self._answer)

    async def of_all(self, at_us: int | None, timeout_s: float) -> dict[int, SlotPosition]:
        """Return the positions of all slots, from their owners. at_us: as of that time.

        Raises Unavailable at the deadline; NoQuorum at once, as no owner could be confirmed.
        """
        slots = self._members.configuration.slots
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        found: dict[int, SlotPosition] = {}
        while len(found) < slots:
            if self._members.lacks_quorum:
                raise NoQuorum("this node does not hear a majority of the members: ask another")
            asked = self._owners.owners_of([n for n in range(slots) if n not in found])
            left_s = deadline - loop.time()
            if left_s <= 0:
                missing = slots - len(found)
                raise Unavailable(f"{missing} of {slots} slots have no owner that answers: retry")
            answers = await asyncio.gather(
                *(self._ask(owner, owned, at_us, left_s) for owner, owned in asked.items())
            )
            before = len(found)
            for answer in answers:
                found.update({each.slot: each for each in answer})
            if len(found) == before:
                await asyncio.sleep(min(AGAIN_S, max(0.0, left_s)))
        return found

    async def _ask(
        self, owner: str, slots: Sequence[int], at_us: int | None, timeout_s: float
    ) -> list[SlotPosition]:
        asked = FindPositions(self._view.bitmap(slots), at_us, timeout_s)
        try:
            return await self._rpc.call(owner, asked, timeout_s)
        except Unavailable:
            return []

    async def owned(
        self, slots: Sequence[int], timeout_s: float, at_us: int = 0
    ) -> dict[int, tuple[int, int]]:
        """Return slot -> (epoch, n) of its last decided row, of the slots that this node owns.

        A quorum confirms them after the call. at_us: see `Driver.read_index`.
        """
        index = await self._driver.read_index(slots, timeout_s, at_us)
        logs = self._view.logs
        return {
            slot: (ballot_at(log.ballots, n)[0], n)
            for slot, (_, n) in index.items()
            if (log := logs.get(slot)) is not None
        }

    async def _answer(self, asked: FindPositions) -> list[SlotPosition]:
        slots, at_us = list(from_bitmap(asked.slots)), asked.at_us
        logs, owned = self._view.logs, await self.owned(slots, asked.timeout_s, at_us or 0)
        ends = {slot: n for slot, (_, n) in owned.items()}
        if at_us is not None:
            ends = await self._back(ends, at_us)
        firsts = await self._first_times(list(ends))
        # A slot may have left this node meanwhile: the asking node finds its new owner.
        return [
            SlotPosition(slot, owned[slot][0], end, log.kept, firsts.get(slot, 0))
            for slot, end in ends.items()
            if (log := logs.get(slot)) is not None
        ]

    async def _back(self, ends: Mapping[int, int], at_us: int) -> dict[int, int]:
        """Return the last row of each slot that was written at or before a time."""
        await self._driver.stored()
        queries = [LastBefore(slot, at_us + 1, n) for slot, n in ends.items()]
        results = await self._store.read(queries)
        found = {
            slot: rows[0].n if rows else 0
            for slot, rows in zip(ends, _insisted(ends, results), strict=True)
            if slot in self._view.logs
        }
        return found | await self._kept_by([slot for slot, n in found.items() if not n], at_us)

    async def _kept_by(self, slots: Sequence[int], at_us: int) -> dict[int, int]:
        """Return the positions of slots that have no row above `kept` at or before a time.

        The position is `kept`, or one less if row `kept` is later than the time, or is gone. A slot
        that was compacted up to its newest row still has that row, and none above it.
        """
        bounds = {
            slot: log.kept
            for slot in slots
            if (log := self._view.logs.get(slot)) is not None and log.kept
        }
        asked = [After(slot, kept - 1, kept, 1) for slot, kept in bounds.items()]
        results = await self._store.read(asked) if asked else []
        return {
            slot: kept if rows and rows[0].updated_us <= at_us else max(0, kept - 1)
            for (slot, kept), rows in zip(bounds.items(), _insisted(bounds, results), strict=True)
        }

    async def _first_times(self, slots: Sequence[int]) -> dict[int, int]:
        """Return slot -> time of the first remaining row, for compacted slots."""
        logs = self._view.logs
        slots = [slot for slot in slots if logs[slot].kept]
        asked = [After(slot, logs[slot].kept, logs[slot].end, 1) for slot in slots]
        results = await self._store.read(asked) if asked else []
        return {
            slot: result[0].updated_us
            for slot, result in zip(slots, results, strict=True)
            if isinstance(result, list) and result
        }


def _insisted(slots: Iterable[int], results: Sequence[Result]) -> Iterator[Sequence[Row]]:
    """Yield the rows found in each slot. Raises Unavailable for a damaged one."""
    for slot, result in zip(slots, results, strict=True):
        if isinstance(result, Corrupt):
            raise Unavailable(
                f"slot {slot} is damaged on this node, and is being repaired: ask another"
            )
        yield result
