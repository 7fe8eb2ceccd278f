"""A causally consistent cut through all slots (`asOf=barrier`).

An ordinary cut takes the position of each slot at a moment of its own, so it may hold an update and
lack the earlier update that caused it. For a barrier all owners pause their writes. Each reports
the ends of its slots once no write is in flight. If the last report arrives while the first owner
still pauses, there was an instant at which all paused: the cut is of that instant. Then a quorum
confirms each owner. If one was deposed, its successor may have answered updates meanwhile, and the
node starts over.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from docstore.documents.events import BarrierAsked
from docstore.errors import NoQuorum, Unavailable
from docstore.model.slots import from_bitmap
from docstore.runtime.driver import Driver
from docstore.runtime.links.rpc import Rpc
from docstore.wire.requests import ConfirmTerms, QuiesceSlots, Request, SlotEnd

STILL_S = 0.05
POLL_S = 0.002
AGAIN_S = 0.25
"""Seconds between two attempts: owners must serve for longer than they pause."""

T = TypeVar("T")


class Barrier:
    """Takes cuts, as the entry node and as an owner.

    confirmed: returns the slots whose owner a quorum confirms after the call.
    """

    def __init__(
        self,
        driver: Driver,
        rpc: Rpc,
        confirmed: Callable[[Sequence[int], float], Awaitable[list[int]]],
    ) -> None:
        self._driver = driver
        self._rpc = rpc
        self._view = driver.view
        self._owners = driver.view.owners
        self._confirmed = confirmed
        rpc.serve(QuiesceSlots, self._pause_writes)
        rpc.serve(ConfirmTerms, self._confirm)

    async def cut(self, slots: int, timeout_s: float) -> dict[int, SlotEnd]:
        """Return the ends of all slots at one instant.

        Raises Unavailable at the deadline; NoQuorum at once, as owners pause for a majority only.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        while True:
            begun = loop.time()
            stood = await self._ask_all(QuiesceSlots, slots, STILL_S)
            if len(stood) == slots and loop.time() - begun < STILL_S:
                left_s = max(0.0, deadline - loop.time())
                confirmed = await self._ask_all(ConfirmTerms, slots, left_s)
                if {(each.slot, each.epoch) for each in stood} == set(map(tuple, confirmed)):
                    return {each.slot: each for each in stood}
            if self._view.members.lacks_quorum:
                raise NoQuorum("this node does not hear a majority of the members: ask another")
            if loop.time() + AGAIN_S >= deadline:
                raise Unavailable("no instant was found at which all owners paused: ask again")
            await asyncio.sleep(AGAIN_S * random.uniform(0.5, 1.5))

    async def _ask_all(
        self, request: Callable[[bytes, float], Request[Sequence[T]]], slots: int, timeout_s: float
    ) -> list[T]:
        async def ask(owner: str, its: Sequence[int]) -> Sequence[T]:
            asked = request(self._view.bitmap(its), timeout_s)
            try:
                return await self._rpc.call(owner, asked, timeout_s)
            except Unavailable:
                return ()

        asked = self._owners.owners_of(range(slots)).items()
        answers = await asyncio.gather(*(ask(owner, its) for owner, its in asked))
        return [said for answer in answers for said in answer]

    async def _pause_writes(self, asked: QuiesceSlots) -> list[SlotEnd]:
        """Pause proposals; return the ends of the slots that have no proposal in flight."""
        loop = asyncio.get_running_loop()
        self._driver.feed(BarrierAsked(asked.seconds))
        until = loop.time() + asked.seconds
        slots = list(from_bitmap(asked.slots))
        while True:
            if loop.time() >= until or all(map(self._owners.is_still, slots)):
                break
            await asyncio.sleep(POLL_S)
        return [self._standing(slot) for slot in slots if self._owners.is_still(slot)]

    def _standing(self, slot: int) -> SlotEnd:
        log = self._view.logs[slot]
        epoch = self._owners.own_epoch(slot)
        return SlotEnd(slot, epoch, log.last_ballot[0], log.end, log.kept)

    async def _confirm(self, asked: ConfirmTerms) -> list[tuple[int, int]]:
        """Return (slot, epoch) of the slots whose owner a quorum confirmed since the request."""
        slots = await self._confirmed(list(from_bitmap(asked.slots)), asked.timeout_s)
        return [(slot, self._owners.own_epoch(slot)) for slot in slots]
