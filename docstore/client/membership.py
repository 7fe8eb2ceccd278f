"""One process in one group or set of roles.

Events are delivered in order: to callbacks, or to the task that iterates over `events()`. A revoked
partition is released once its callback has returned, or the next event is requested; without
callbacks and reader, at once. A process that leaves announces it only then.
"""

import asyncio
import contextlib
import socket
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Self

from docstore.client.boot_clock import drop_in_child
from docstore.client.errors import ClientError
from docstore.client.event_delivery import call_back
from docstore.client.member_driver import JOIN_S, LEAVE_S, MemberDriver
from docstore.client.requests import Requests
from docstore.ownership.by_induction import Event
from docstore.services.group_document import MemberDetails
from docstore.sessions.member import GroupMember
from docstore.sessions.member_events import Finished, LeaveAsked

Callback = Callable[[Event], Awaitable[None] | None] | None


class GroupEnded(ClientError):
    """This process is no longer a member although it did not leave; its group may be deleted."""


class GroupMembership:
    """A member from the start of `async with` to the end of the block."""

    def __init__(
        self,
        client: Requests,
        link: str,
        asked: Mapping[str, Any],
        *,
        instance: str = "",
        capacity: int = 1,
        callbacks: dict[str, Callback] | None = None,
    ) -> None:
        """link: of the group's document. callbacks: name of an event's class -> function.

        asked: settings that the document must have, named as on its page.
        """
        self._client = client
        self.link = link
        self.member = GroupMember(
            lambda: uuid.uuid4().hex,
            MemberDetails(instance=instance, host=socket.gethostname(), capacity=capacity),
        )
        drop_in_child(self.member)
        self._driver = MemberDriver(client, link, asked, self.member, self._end)
        self._events = self._driver.events
        self._callbacks = {name: each for name, each in (callbacks or {}).items() if each}
        self.why_over = ""
        """Reason why this process is no member any more: "left", or the answer of a node."""

    async def __aenter__(self) -> Self:
        """Join. Raises RequestFailed or Differs if the group rejects this process.

        While no node answers, it keeps trying in the background, and leads nothing until then.
        """
        self._driver.spawn(self._driver.watch())
        if self.calls_back:
            self._events.reader = self._driver.spawn(self._call_back())
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(JOIN_S):
                    await self._driver.is_in.wait()
            if self._driver.refused is not None:
                raise self._driver.refused
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        """Leave. Raises GroupEnded if the membership ended before, unless the block raises."""
        try:
            await self.leave()
        finally:
            await self._close()
        if kind is None:
            self._check_over()

    async def _close(self) -> None:
        self.member.drop_all()
        self._end("left")
        for task in self._driver.tasks:
            task.cancel()
        await asyncio.gather(*self._driver.tasks, return_exceptions=True)

    async def leave(self, *, drain: bool = False) -> None:
        """Leave: lead nothing, wait for callbacks and the reader of events, then announce it.

        drain: lead until other members have taken over. It takes at most revokeMs and 5 s.
        """
        self._driver.feed(LeaveAsked(drain))
        me, reader = asyncio.current_task(), self._events.reader
        is_waited_for = reader is not None and reader is not me and not reader.done()
        if not is_waited_for:
            # The caller reads these events itself, and is done with them.
            for partition in tuple(self._events.unfinished):
                self._driver.feed(Finished(partition))
        settings = self.member.settings
        revoke_s = 0.0 if settings is None else settings.revoke_ms / 1000
        with contextlib.suppress(TimeoutError):  # Otherwise its session runs out.
            async with asyncio.timeout(revoke_s + LEAVE_S):
                await self._driver.ended.wait()
                if reader is not None and is_waited_for and self.calls_back:
                    await asyncio.wait({reader})

    # Leadership

    @property
    def calls_back(self) -> bool:
        """Say whether there are callbacks."""
        return bool(self._callbacks)

    @property
    def is_over(self) -> bool:
        """Say whether this process is no member any more."""
        return self._driver.ended.is_set()

    def leads_partition(self, partition: int) -> bool:
        """Say whether this process leads a partition, by its clock of this moment."""
        induced = self.member.induced
        return induced is not None and induced.leads_partition(partition, self._driver.clock())

    def _check_over(self) -> None:
        """Raise GroupEnded if the membership ended, unless this process left by itself."""
        if self.is_over and self.why_over != "left":
            raise GroupEnded(self.why_over) from self._driver.refused

    @property
    def partitions(self) -> list[int]:
        """Return the partitions that this process leads now, by the numbers that events use."""
        induced = self.member.induced
        return [] if induced is None else [p for p in induced.held if self.leads_partition(p)]

    def now(self) -> float:
        """Return the time by the clock of proofs, for `event.protected(now)`."""
        return self._driver.clock()

    async def changed(self) -> None:
        """Wait for the next event: acquired, revoked or fenced."""
        await self._events.happened.wait()

    async def events(self) -> AsyncIterator[Event]:
        """Yield events; requesting the next one acknowledges the one before.

        Only without callbacks, and for one reader. Raises GroupEnded when the group is gone.
        """
        if self.calls_back:
            raise RuntimeError(
                "the events go to the callbacks of this membership: give no "
                "callbacks to iterate over them"
            )
        async for event in self._events.each():
            yield event
        self._check_over()

    def _end(self, why: str) -> None:
        if not self._driver.ended.is_set():
            self.why_over = why if self._driver.refused is None else str(self._driver.refused)
            self._driver.ended.set()
            self._driver.is_in.set()
            self._events.end()

    async def _call_back(self) -> None:
        async for event in self._events.each():
            await self.happened(event)

    async def happened(self, event: Event) -> None:
        """Handle an event before it is acknowledged."""
        await call_back(self._callbacks.get(type(event).__name__), event)
