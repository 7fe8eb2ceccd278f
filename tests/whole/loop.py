"""An event loop whose time passes only when there is nothing to do, with lives that end at once.

Every callback of a host is scheduled in the context of its life. When the life ends, its callbacks
never run: no exception, no cleanup, as after SIGKILL. While it is paused, they wait, as after
SIGSTOP.
"""

import asyncio
import selectors
from collections.abc import Callable
from contextvars import Context, ContextVar, copy_context
from typing import Any

ROUNDING_S = 1e-9


class Life:
    """One start of one host."""

    def __init__(self, host: str, clock_ahead_us: int = 0, rate: float = 1.0) -> None:
        """rate: speed of its machine's clock, and so of its timers and deadlines."""
        self.host = host
        self.alive = True
        self.paused = False
        self.clock_ahead_us = clock_ahead_us
        self.rate = rate
        self.stepped: Callable[[], None] | None = None
        """Called after each callback of this life."""
        self.stash: list[tuple[Any, tuple[Any, ...]]] = []


LIFE: ContextVar[Life | None] = ContextVar("life", default=None)


def _rate() -> float:
    life = LIFE.get()
    return 1.0 if life is None else life.rate


class Idle(RuntimeError):
    """Nothing is scheduled, and a task waits for ever."""


class _Selector(selectors.BaseSelector):
    """Waits by advancing the clock."""

    def __init__(self) -> None:
        self.now = 0.0

    def register(self, fileobj: Any, events: int, data: Any = None) -> Any:
        raise NotImplementedError("no descriptors here")

    def unregister(self, fileobj: Any) -> Any:
        raise NotImplementedError("no descriptors here")

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise Idle("every task waits for another one")
        self.now += max(0.0, timeout)
        return []

    def get_map(self) -> Any:
        return {}


class _Lived:
    """A callback that runs only within its life."""

    __slots__ = ("_callback", "_life", "_loop", "context", "handle")

    def __init__(self, loop: Any, callback: Any, life: Life | None, context: Context) -> None:
        self._loop, self._callback, self._life, self.context = loop, callback, life, context
        self.handle: Any = None

    def __call__(self, *args: Any) -> None:
        life = self._life
        if life is None:
            self._callback(*args)
        elif not life.alive:
            self._loop.graveyard.append(self._callback)
        elif life.paused:
            life.stash.append((self, args))
        else:
            self._callback(*args)
            if life.stepped is not None:
                life.stepped()

    def unless_cancelled(self, *args: Any) -> None:
        """Run after a pause, unless it was cancelled meanwhile."""
        if not self.handle.cancelled():
            self(*args)


class _Nothing:
    """A handle of nothing."""

    def cancel(self) -> None:
        return


_NOTHING = _Nothing()


class VirtualLoop(asyncio.SelectorEventLoop):
    """asyncio's loop on a clock of its own."""

    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)
        self._clock_resolution = 1e-9
        self.network: Any = None
        self.over = False
        """Whether the run is over: cleanups schedule nothing any more."""
        self.graveyard: list[Any] = []
        """Callbacks of ended lives: kept, so that asyncio does not warn of destroyed tasks."""

    @property
    def now(self) -> float:
        """Return true virtual seconds since the loop was made."""
        return self._virtual.now

    def time(self) -> float:
        """Return them by the clock of the present life."""
        return self._virtual.now * _rate()

    def call_soon(self, callback: Any, *args: Any, context: Any = None) -> Any:
        """Schedule, within the present life or that of the context."""
        if self.over:
            return _NOTHING
        context = copy_context() if context is None else context
        lived = self._lived(callback, context)
        handle = super().call_soon(lived, *args, context=context)
        lived.handle = handle
        return handle

    def call_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> Any:
        """Schedule for later, by the clock of the present life, within a life."""
        rate = _rate()
        # A little later: a rounding must not make it early.
        true = when if rate == 1.0 else when / rate + ROUNDING_S
        return self.call_at_true(true, callback, *args, context=context)

    def call_at_true(self, when: float, callback: Any, *args: Any, context: Any = None) -> Any:
        """Schedule for an instant of true time, within a life."""
        if self.over:
            return _NOTHING
        context = copy_context() if context is None else context
        lived = self._lived(callback, context)
        handle = super().call_at(when, lived, *args, context=context)
        lived.handle = handle
        return handle

    def _lived(self, callback: Any, context: Context) -> Any:
        return _Lived(self, callback, context.get(LIFE), context)

    def resume(self, life: Life) -> None:
        """Resume a paused life, with all callbacks that waited."""
        life.paused = False
        stash, life.stash = life.stash, []
        for lived, args in stash:
            self.call_soon(lived.unless_cancelled, *args, context=lived.context)

    # The world, which is simulated

    async def create_server(
        self, factory: Any, host: Any = None, port: Any = None, **_: Any
    ) -> Any:
        """Listen at an address of the simulated network."""
        return self.network.listen(factory, str(host), int(port))

    async def create_connection(
        self, factory: Any, host: Any = None, port: Any = None, **_: Any
    ) -> Any:
        """Connect over the simulated network."""
        return await self.network.connect(factory, str(host), int(port))

    def _make_self_pipe(self) -> None:
        """Do nothing: no other thread wakes this loop."""

    def _close_self_pipe(self) -> None:
        """Do nothing: there is no pipe."""

    def _write_to_self(self) -> None:
        """Do nothing: there is no pipe."""
