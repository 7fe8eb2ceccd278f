"""Delivery of events to a holder: by callbacks, or by iteration.

    async for event in role.events(): ...     # asking for the next one acknowledges the one before

Callbacks may be coroutines and slow: they are called one after the other, and never delay the
proofs. `drained` waits until all events were handled; then revoked partitions may be released.
"""

import asyncio
import inspect
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

Callback = Callable[[Any], Awaitable[None] | None]

EVENTS_MAX = 1_000
"""Events kept for a reader; beyond that the oldest are dropped."""


async def call_back(
    callback: Callable[..., Awaitable[None] | None] | None, *arguments: Any
) -> None:
    """Call a function of the application, if there is one; the event loop reports its errors."""
    if callback is None:
        return
    try:
        result = callback(*arguments)
        if inspect.isawaitable(result):
            await result
    except Exception as error:  # noqa: BLE001 - it must not end the delivery of events
        said = ", ".join(map(str, arguments))
        context = {"message": f"the callback for {said} failed", "exception": error}
        asyncio.get_running_loop().call_exception_handler(context)


class EventDelivery:
    """Delivers the events of one holder in order, to callbacks or to a reader of one loop."""

    def __init__(self, callbacks: Mapping[type, Callback | None]) -> None:
        """callbacks: by type of event; an event without a callback is handled once it is read."""
        self._callbacks = {kind: each for kind, each in callbacks.items() if each is not None}
        self._waiting: deque[Any] = deque(maxlen=EVENTS_MAX)
        self._some = asyncio.Event()
        self._drained = asyncio.Event()
        self._drained.set()
        self._is_read = False
        self._is_over = False
        self._error: BaseException | None = None

    @property
    def has_callbacks(self) -> bool:
        """Say whether callbacks consume the events, so that no reader can."""
        return bool(self._callbacks)

    def put(self, events: Iterable[Any]) -> None:
        """Append events to the queue."""
        self._waiting.extend(events)
        if self._waiting:
            self._some.set()
            self._drained.clear()

    def end(self, error: BaseException | None = None) -> None:
        """Accept no more events; once the queued ones are delivered, readers end or get `error`."""
        self._is_over = True
        self._error = self._error or error
        self._some.set()

    async def drained(self, within_s: float) -> None:
        """Return when all events were handled, or after `within_s` seconds.

        Returns at once if there are neither callbacks nor a reader. A reader that stopped reading
        is waited for.
        """
        if self._is_read:
            with suppress(TimeoutError):
                async with asyncio.timeout(within_s):
                    await self._drained.wait()

    async def call(self) -> None:
        """Call the callbacks until the end; log an exception of a callback and continue."""
        async for event in self.events():
            await call_back(self._callbacks.get(type(event)), event)

    async def events(self) -> AsyncGenerator[Any, None]:
        """Yield events until the end. Raises RuntimeError if they have a reader already."""
        if self._is_read:
            raise RuntimeError(
                "these events already have a reader; iterate over them in one place only"
            )
        self._is_read = True
        try:
            while True:
                while self._waiting:
                    yield self._waiting.popleft()
                self._drained.set()
                if self._is_over:
                    break
                self._some.clear()
                await self._some.wait()
        finally:
            self._is_read = False
            self._drained.set()
        if self._error is not None:
            raise self._error
