"""Availability of all slots: each has an owner, and a quorum confirms it."""

import asyncio

from docstore.documents.view import ReplicaView
from docstore.errors import NoQuorum, Unavailable
from docstore.runtime.links.rpc import Rpc
from docstore.wire.requests import ConfirmTerms

PATIENCE_S = 1.0
"""Maximum seconds to wait for owners: enough for the handover of a slot."""
AGAIN_S = 0.05


class Availability:
    """Asks the owners of all slots; `reads/scans/barrier.py` answers for an owner."""

    def __init__(self, view: ReplicaView, rpc: Rpc) -> None:
        self._view = view
        self._members, self._owners = view.members, view.owners
        self._rpc = rpc

    async def insist(self, level: int, timeout_s: float) -> None:
        """Return if all documents of a level can be served, else raise Unavailable or NoQuorum."""
        slots = range(self._members.configuration.slots)
        if level < 3:
            lost = sum(self._owners.executes(slot, level) is None for slot in slots)
            if lost:
                raise Unavailable(f"{lost} of {len(slots)} slots have no reachable replica: retry")
            return
        loop = asyncio.get_running_loop()
        deadline = loop.time() + min(timeout_s, PATIENCE_S)
        missing = set(slots)
        while missing:
            if self._members.lacks_quorum:
                raise NoQuorum("this node does not hear a majority of the members: ask another")
            left_s = deadline - loop.time()
            if left_s <= 0:
                raise Unavailable(
                    f"{len(missing)} of {len(slots)} slots have no owner that a quorum confirms"
                )
            owners = self._owners.owners_of(missing)
            asks = (self._confirmed(owner, owned, left_s) for owner, owned in owners.items())
            found = {slot for each in await asyncio.gather(*asks) for slot in each}
            missing -= found
            if missing and not found:
                await asyncio.sleep(AGAIN_S)

    async def _confirmed(self, owner: str, slots: list[int], left_s: float) -> list[int]:
        asked = ConfirmTerms(self._view.bitmap(slots), left_s)
        try:
            return [slot for slot, _ in await self._rpc.call(owner, asked, left_s)]
        except Unavailable:
            return []
