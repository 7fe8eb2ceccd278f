"""One cut through all slots that no cause crosses (`asOf=barrier`).

Slots are logs of their own, and an ordinary cut takes each at a moment of its own: it may hold an
update that somebody made because of another one, and not that other one. So all owners are asked to
stand still, each says when nothing is under way any more and how far its slots have come, and if
the last one has said so while the first still stood still, there was an instant between at which
all of them did. What was answered before it is in the cut, and nothing else. Then every owner shows
by a read of a quorum that it still was the owner; were it not, its successor may have answered
updates meanwhile, and all is tried again.
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
from docstore.wire.requests import ConfirmTerms, Request, SlotStanding, StandStill

STILL_S = 0.05
POLL_S = 0.002
AGAIN_S = 0.25
"""Between two attempts: updates must not wait more often than they are served."""

T = TypeVar("T")


class Barrier:
    """Both sides. confirmed: those of some slots whose term a quorum confirms after the call."""

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
        rpc.serve(StandStill, self._stand_still)
        rpc.serve(ConfirmTerms, self._confirm)

    async def cut(self, slots: int, timeout_s: float) -> dict[int, SlotStanding]:
        """Return where all slots stood at one instant. Raises Unavailable by the deadline.

        NoQuorum at once: owners stand still for a majority.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        while True:
            begun = loop.time()
            stood = await self._ask_all(StandStill, slots, STILL_S)
            if len(stood) == slots and loop.time() - begun < STILL_S:
                left_s = max(0.0, deadline - loop.time())
                confirmed = await self._ask_all(ConfirmTerms, slots, left_s)
                if {(each.slot, each.epoch) for each in stood} == set(map(tuple, confirmed)):
                    return {each.slot: each for each in stood}
            if self._view.members.lacks_quorum:
                raise NoQuorum("this node does not hear a majority of the members")
            if loop.time() + AGAIN_S >= deadline:
                raise Unavailable("no instant was found at which all owners stood still")
            await asyncio.sleep(AGAIN_S * random.uniform(0.5, 1.5))

    async def _ask_all(
        self, request: Callable[[bytes, float], Request[Sequence[T]]], slots: int, timeout_s: float
    ) -> list[T]:
        """Return what the owners say of their slots, those that say something."""

        async def ask(owner: str, its: Sequence[int]) -> Sequence[T]:
            asked = request(self._view.bitmap(its), timeout_s)
            try:
                return await self._rpc.call(owner, asked, timeout_s)
            except Unavailable:
                return ()

        asked = self._owners.owners_of(range(slots)).items()
        answers = await asyncio.gather(*(ask(owner, its) for owner, its in asked))
        return [said for answer in answers for said in answer]

    async def _stand_still(self, asked: StandStill) -> list[SlotStanding]:
        """Propose nothing more; once nothing is under way, say how far slots have come."""
        loop = asyncio.get_running_loop()
        self._driver.feed(BarrierAsked(asked.seconds))
        until = loop.time() + asked.seconds
        slots = list(from_bitmap(asked.slots))
        while True:
            if loop.time() >= until or all(map(self._owners.is_still, slots)):
                break
            await asyncio.sleep(POLL_S)
        return [self._standing(slot) for slot in slots if self._owners.is_still(slot)]

    def _standing(self, slot: int) -> SlotStanding:
        log = self._view.logs[slot]
        epoch = self._owners.own_epoch(slot)
        return SlotStanding(slot, epoch, log.last_ballot[0], log.end, log.kept)

    async def _confirm(self, asked: ConfirmTerms) -> list[tuple[int, int]]:
        """Answer with the epochs of terms that a quorum has confirmed since the request came."""
        slots = await self._confirmed(list(from_bitmap(asked.slots)), asked.timeout_s)
        return [(slot, self._owners.own_epoch(slot)) for slot in slots]
