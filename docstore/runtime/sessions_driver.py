"""The driver of sessions: runs their machine (`stepping.py`), without a disk."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from docstore.runtime.document_client import DocumentClient
from docstore.runtime.links.peers import PeerLinks
from docstore.runtime.stepping import Stepping, clock
from docstore.runtime.trace.context import TRACEPARENT
from docstore.runtime.trace.of_machines import SESSIONS
from docstore.sessions.effects import Confirm
from docstore.sessions.events import Asked, Confirmed, SessionEvent
from docstore.sessions.machine import Sessions
from docstore.wire.sessions_messages import Reply

ReadIndex = Callable[[Sequence[int], float], Awaitable[Mapping[int, tuple[int, int]]]]
"""(slots, timeout in s) -> slot -> (epoch, decided) of the slots that this node surely owns."""


class SessionsDriver(Stepping[SessionEvent, Confirm]):
    """Runs one session machine against a real clock and real links."""

    def __init__(
        self,
        machine: Sessions,
        links: PeerLinks,
        *,
        documents: DocumentClient,
        read_index: ReadIndex,
    ) -> None:
        """read_index: as `Driver.read_index`."""
        super().__init__(machine, links, SESSIONS)
        self.machine = machine
        self._read_index = read_index
        self._confirming: set[asyncio.Task[None]] = set()
        self._documents = documents
        documents.feed = self.feed

    async def stop(self) -> None:
        self.end()
        for task in self._confirming:
            task.cancel()
        await asyncio.gather(*self._confirming, return_exceptions=True)
        await self._documents.stop()
        self._requests.cancel()

    def call(
        self, link: str, kind: str, argument: Any, timeout_s: float
    ) -> "asyncio.Future[Reply]":
        """Ask the owner of a document, see `messages.Call`; the machine keeps the deadline."""
        if self.stopped:
            return self._requests.refused()
        number = self._requests.next_number()
        future = self._requests.wait(number)
        self.feed(Asked(number, link, kind, argument, clock() + timeout_s, TRACEPARENT.get()))
        return future

    def perform(self, effect: Confirm) -> None:
        self.loop.call_soon(self._confirm, effect)

    def _confirm(self, effect: Confirm) -> None:
        task = self.loop.create_task(self._confirmed(effect))
        self._confirming.add(task)
        task.add_done_callback(self._confirming.discard)

    async def _confirmed(self, effect: Confirm) -> None:
        """Have a majority confirm that this node still owns the slots of these documents."""
        core = self.machine.core
        slots = {link: core.view.slot_of(link) for link in effect.links}
        found = await self._read_index(list(slots.values()), effect.timeout_s)
        owners = {link: (core.me, found[slot][0]) for link, slot in slots.items() if slot in found}
        self.feed(Confirmed(effect.token, owners))
