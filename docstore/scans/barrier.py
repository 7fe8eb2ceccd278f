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
from typing import Any

from docstore.driver import Driver
from docstore.errors import Unavailable
from docstore.links.questions import Questions
from docstore.protocol.events import StillnessAsked
from docstore.protocol.slots import from_bitmap, to_bitmap

STILL_S = 0.05
POLL_S = 0.002
AGAIN_S = 0.25
"""Between two attempts: updates must not wait more often than they are served."""

Standing = tuple[int, int, int, int]
"""(epoch of the reign, epoch of the last row, its n, kept) of a slot."""


class Barrier:
    """Both sides. confirmed: those of some slots whose reign a quorum confirms after the call."""

    def __init__(
        self,
        driver: Driver,
        questions: Questions,
        confirmed: Callable[[Sequence[int], float], Awaitable[list[int]]],
    ) -> None:
        self._driver = driver
        self._questions = questions
        self._view = driver.view
        self._confirmed = confirmed
        questions.answer("stand-still", self._stand_still)
        questions.answer("reigns", self._reigns)

    async def cut(self, slots: int, timeout_s: float) -> dict[int, Standing]:
        """Return where all slots stood at one instant. Raises Unavailable by the deadline."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        while True:
            begun = loop.time()
            stood = await self._ask_all("stand-still", slots, STILL_S)
            if len(stood) == slots and loop.time() - begun < STILL_S:
                reigns = await self._ask_all("reigns", slots, max(0.0, deadline - loop.time()))
                if {slot: (each[0],) for slot, each in stood.items()} == reigns:
                    return stood
            if loop.time() + AGAIN_S >= deadline:
                raise Unavailable("no instant was found at which all owners stood still")
            await asyncio.sleep(AGAIN_S * random.uniform(0.5, 1.5))

    async def _ask_all(self, question: str, slots: int, timeout_s: float) -> dict[int, Any]:
        """Return slot -> what its owner says, of those that say something."""

        async def ask(owner: str, its: Sequence[int]) -> Any:
            argument = (to_bitmap(its, slots), timeout_s)
            try:
                return await self._questions.ask(owner, question, argument, timeout_s)
            except Unavailable:
                return ()

        asked = self._view.owners_of(range(slots)).items()
        answers = await asyncio.gather(*(ask(owner, its) for owner, its in asked))
        return {slot: tuple(said) for answer in answers for slot, *said in answer}

    async def _stand_still(self, argument: Any) -> list[tuple[int, ...]]:
        """Propose nothing more; once nothing is under way, say how far slots have come."""
        bitmap, seconds = argument
        loop = asyncio.get_running_loop()
        self._driver.feed(StillnessAsked(seconds))
        until = loop.time() + seconds
        slots = list(from_bitmap(bitmap))
        while True:
            if loop.time() >= until or all(map(self._view.is_still, slots)):
                break
            await asyncio.sleep(POLL_S)
        return [(slot, *self._standing(slot)) for slot in slots if self._view.is_still(slot)]

    def _standing(self, slot: int) -> Standing:
        log = self._view.logs[slot]
        return self._view.reign_of(slot), log.last_ballot[0], log.end, log.kept

    async def _reigns(self, argument: Any) -> list[tuple[int, int]]:
        """Answer with the epochs of reigns that a quorum has confirmed since the question came."""
        bitmap, timeout_s = argument
        slots = await self._confirmed(list(from_bitmap(bitmap)), timeout_s)
        return [(slot, self._standing(slot)[0]) for slot in slots]
