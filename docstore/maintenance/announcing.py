"""A changed declaration is in force at every owner before its change is acknowledged. A shell.

Whoever took the change in asks the owners of all slots. Each takes the declaration over, and then
has a quorum confirm that it still owns what it answers for. So the terms that may execute updates
are those that were told, and those that open later: their owners read the declaration first (see
`ServiceFor`). Terms from before can decide nothing any more. A factory that is new needs none of
this, since nobody knows an older declaration of it.

Levels 1 and 2 know no terms: all members that are reached are told.
"""

import asyncio
from functools import partial

from docstore.model.document import Row
from docstore.model.operation import Answer
from docstore.model.slots import from_bitmap
from docstore.reads.owners import Owners
from docstore.runtime.driver import Driver
from docstore.runtime.links.rpc import Rpc
from docstore.services.registry import Registry
from docstore.wire.requests import Answered, FollowDeclaration

TELL_S = 1.0
"""A member that is connected and silent is not waited for any longer, at levels 1 and 2."""

NOT_YET = Answer(
    504, "undecided", "it is stored, but not every owner is known to follow it", unknown=True
)


class Announcing:
    """Both sides."""

    def __init__(self, driver: Driver, registry: Registry, rpc: Rpc, owners: Owners) -> None:
        self._driver = driver
        self._view = driver.view
        self._registry = registry
        self._rpc = rpc
        self._owners = owners
        rpc.serve(FollowDeclaration, self._follow)

    async def announce(self, row: Row, timeout_s: float) -> None:
        """Return once a declaration is in force everywhere. Raises Unavailable."""
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
