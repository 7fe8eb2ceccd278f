"""The sessions of a group, as the clients of one node use them: calls go to a document's owner."""

import asyncio
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from docstore.machines.view import MachineView
from docstore.runtime.sessions_driver import SessionsDriver
from docstore.runtime.stepping import clock, unless_ended
from docstore.services.leases import LEASES
from docstore.wire.sessions_messages import Reply

AGAIN_S = 0.05
"""Seconds between two attempts to find the owners of leases."""
STOPPING = Reply(0, 503, "stopping", "this node stops: ask another one", None)
NO_OWNER = Reply(0, 503, "no-owner", "no owner has confirmed it in time", None)
NO_QUORUM = Reply(0, 503, "no-quorum", "a majority of the members is not heard", None)


@dataclass(slots=True)
class KeptAlive:
    """The outcome of keeping leases alive.

    alive: id -> time to live in ms. ended: ids of leases that have ended. missing: ids of leases
    that never existed. why: the reason why the state of the leases in `unknown` is not known.
    """

    alive: dict[str, int] = field(default_factory=dict)
    ended: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    """Ids of leases for which no owner answered in time: they may be alive or not."""
    why: Reply = NO_OWNER


class SessionBackend:
    """The sessions of the group, as the HTTP pages of one node use them."""

    def __init__(self, driver: SessionsDriver, view: MachineView) -> None:
        self._driver = driver
        self._view = view
        self._ends: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def call(self, link: str, kind: str, argument: Any, timeout_s: float) -> Reply:
        """Send the owner of a document a call that is safe to repeat, see `messages.Call`."""
        asking = self._driver.call(link, kind, argument, timeout_s)
        return await unless_ended(self._ends, asking) or STOPPING

    def groups(self) -> Collection[str]:
        """Return the links of the consumer groups that this node coordinates."""
        return self._driver.machine.groups.governed

    async def keep_alive(self, ids: Iterable[str], timeout_s: float) -> KeptAlive:
        """Keep leases alive, with one call to each owner."""
        kept, deadline = KeptAlive(unknown=list(ids)), clock() + timeout_s
        while kept.unknown:
            await self._keep_alive_once(kept, deadline - clock())
            if clock() + AGAIN_S >= deadline or self._ends.done():
                break
            if kept.unknown:
                await asyncio.sleep(AGAIN_S)
        if kept.unknown and self._view.lacks_quorum:
            kept.why = NO_QUORUM
        return kept

    async def _keep_alive_once(self, kept: KeptAlive, timeout_s: float) -> None:
        by_owner: defaultdict[str, list[str]] = defaultdict(list)
        for each in kept.unknown:
            by_owner[self._view.owner_of(f"{LEASES}/{each}")].append(each)
        calls = [
            self.call(f"{LEASES}/{ids[0]}", "keep-alive", tuple(ids), timeout_s)
            for ids in by_owner.values()
        ]
        kept.unknown = []
        for ids, reply in zip(by_owner.values(), await asyncio.gather(*calls), strict=True):
            if reply.result is None:
                kept.unknown += ids
                kept.why = reply
            else:
                alive, ended, missing, again = reply.result
                kept.alive |= alive
                kept.ended += ended
                kept.missing += missing
                kept.unknown += again

    def end(self) -> None:
        """Answer the waiting calls 503, and later calls without waiting."""
        if not self._ends.done():
            self._ends.set_result(None)
