"""Requests to the owners of all slots: each slot is answered once, by its owner.

A node answers for the slots that it is sure to own: at level 3 a quorum has confirmed it since the
request came. The entry node asks for the other slots again until each has an answer.
"""

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from docstore.documents.view import ReplicaView
from docstore.errors import NoQuorum, Unavailable
from docstore.model.slots import from_bitmap
from docstore.runtime.links.rpc import Rpc
from docstore.wire.requests import Answered, ToOwner

AGAIN_S = 0.05
"""Seconds between two attempts to find owners of slots that have none."""


class Owners:
    """Asks the owners of all slots, as the entry node of a request."""

    def __init__(self, view: ReplicaView, rpc: Rpc) -> None:
        self._view = view
        self._members, self._owners = view.members, view.owners
        self._rpc = rpc
        self._as_of = (0, 0.0)
        self._owned: dict[str, list[int]] = {}

    async def ask(
        self, request: Callable[[int, bytes, float], ToOwner], level: int, timeout_s: float
    ) -> list[Any]:
        """Return the answers of the owners. request: takes level, bitmap of slots, seconds left.

        Asks again for slots without an answer, at their new owners, until the deadline, or until a
        slot had no owner for as long as a GET waits. Raises Unavailable, NoQuorum.
        """
        loop = asyncio.get_running_loop()
        began = progress_at = loop.time()
        slots = self._members.configuration.slots
        missing, answers = set(range(slots)), []
        while missing:
            left_s = began + timeout_s - loop.time()
            waited_s = loop.time() - progress_at
            if level == 3 and self._members.lacks_quorum:
                raise NoQuorum("this node does not hear a majority of the members: ask another")
            if left_s <= 0 or waited_s > self._view.owner_patience_s:
                raise Unavailable(
                    f"{len(missing)} of {slots} slots have no owner that answers: retry"
                )
            whole = len(missing) == slots and waited_s < AGAIN_S
            owners = self._known(level) if whole else self._by_owner(missing, level)
            asks = (
                self._ask(owner, request(level, self._view.bitmap(owned), left_s), level, left_s)
                for owner, owned in owners.items()
            )
            found = [each for each in await asyncio.gather(*asks) if each is not None]
            answered = {slot for each in found for slot in from_bitmap(each.slots)}
            answers += [each.answer for each in found]
            missing -= answered
            if answered:
                progress_at = loop.time()
            elif missing:
                await asyncio.sleep(AGAIN_S)
        return answers

    def _known(self, level: int) -> dict[str, list[int]]:
        """Return the owners as of the last tick.

        A wrong owner does not answer, and its slots are asked for again.
        """
        key = (level, self._view.ticked_at)
        if self._as_of != key:
            self._as_of = key
            self._owned = self._by_owner(range(self._members.configuration.slots), level)
        return self._owned

    def _by_owner(self, slots: Iterable[int], level: int) -> dict[str, list[int]]:
        if level == 3:
            return self._owners.owners_of(slots)
        owners: dict[str, list[int]] = {}
        for slot in slots:
            owner = self._owners.executes(slot, level)
            if owner is not None:
                owners.setdefault(owner, []).append(slot)
        return owners

    async def _ask(
        self, owner: str, request: ToOwner, level: int, left_s: float
    ) -> Answered | None:
        """Return the answer of an owner; None as soon as no answer can arrive."""
        is_lost = partial(self._is_lost, owner, level)
        return await self._rpc.call_while(owner, request, left_s, is_lost=is_lost)

    def _is_lost(self, owner: str, level: int) -> bool:
        return (level == 3 and self._members.lacks_quorum) or not self._members.is_alive(owner)
