"""Announces a changed declaration: every owner follows it before the change is acknowledged.

The entry node sends the declaration to the owners of all slots. Each owner adopts it, and then a
quorum confirms that it still owns the slots for which it answers. So updates are executed only by
owners that have the declaration, or by later owners, which read it first (see `ServiceFor`);
deposed owners can decide nothing. A new factory needs no announcement: no node has an older
declaration. Levels 1 and 2 have no owners: all reachable members get the declaration.
"""

import asyncio
from functools import partial

from docstore.model.document import Row
from docstore.model.operation import undecided
from docstore.model.slots import from_bitmap
from docstore.reads.owners import Owners
from docstore.runtime.driver import Driver
from docstore.runtime.links.rpc import Rpc
from docstore.services.registry import Registry
from docstore.wire.requests import Answered, FollowDeclaration

TELL_S = 1.0
"""Seconds to wait for a connected but silent member, at levels 1 and 2."""

NOT_YET = undecided("the change is stored, but not every owner is known to follow it yet")


class Announcing:
    """Announces declarations as the entry node, and adopts those of other nodes as an owner."""

    def __init__(self, driver: Driver, registry: Registry, rpc: Rpc, owners: Owners) -> None:
        self._driver = driver
        self._view = driver.view
        self._registry = registry
        self._rpc = rpc
        self._owners = owners
        rpc.serve(FollowDeclaration, self._follow)

    async def announce(self, row: Row, timeout_s: float) -> None:
        """Return once every owner follows a declaration. Raises Unavailable."""
        asked = FollowDeclaration(tuple(row), 3, self._view.bitmap(()), TELL_S)
        others = [peer for peer in self._view.members.peers if self._rpc.reaches(peer)]
        tellings = (self._rpc.call(peer, asked, TELL_S) for peer in others)
        telling = asyncio.gather(*tellings, return_exceptions=True)
        await self._owners.ask(partial(FollowDeclaration, tuple(row)), 3, timeout_s)
        await telling

    async def _follow(self, asked: FollowDeclaration) -> Answered:
        self._registry.publish(Row(*asked.row))
        index = await self._driver.read_index(list(from_bitmap(asked.slots)), asked.left_s)
        return Answered(self._view.bitmap(index), None)
