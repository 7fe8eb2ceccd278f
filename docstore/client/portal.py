"""The thread of a blocking client, on whose event loop its asynchronous twin runs.

Heartbeats of leases, locks and roles run there too, so they do not depend on the calling threads.
Each calling thread has one task on the loop, which runs its calls one after the other, because a
consumer group knows its reader by the task.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Generator, Iterator
from concurrent.futures import CancelledError, Future
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar

from docstore.client.documents import Document
from docstore.client.queries import Found as AsyncFound

T = TypeVar("T")
THREAD = "docstore"


class _Block(Protocol):
    """An object that is used within `async with`."""

    async def __aenter__(self) -> Any: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: object, /
    ) -> None: ...


Inner = TypeVar("Inner")
Block = TypeVar("Block", bound=_Block)
_Call = tuple[Awaitable[Any], Future[Any]]


class Portal:
    """A thread with an event loop; any thread may have it run calls and wait for them."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._is_over: asyncio.Event
        self._callers: dict[int, _Caller] = {}

    def start(self) -> None:
        """Start the thread."""
        is_ready = threading.Event()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._serve(is_ready)), name=THREAD, daemon=True
        )
        self._thread.start()
        is_ready.wait()

    def stop(self) -> None:
        """End the thread; calls of other threads raise CancelledError."""
        loop, self._loop = self._loop, None
        assert loop is not None
        assert self._thread is not None
        loop.call_soon_threadsafe(self._is_over.set)
        self._thread.join()

    def run(self, work: Awaitable[T]) -> T:
        """Return the outcome of a call on the loop. Raises RuntimeError outside of the block."""
        loop = self._loop
        if loop is None or threading.current_thread() is self._thread:
            if asyncio.iscoroutine(work):
                work.close()
            why = "use it within `with`" if loop is None else "a callback must not wait for it"
            raise RuntimeError(f"this client cannot be called here: {why}")
        outcome: Future[T] = Future()
        caller = threading.get_ident()
        loop.call_soon_threadsafe(self._put, caller, (work, outcome))
        try:
            return outcome.result()
        except BaseException:  # The waiting thread was interrupted, if there is no outcome.
            if not outcome.done():
                loop.call_soon_threadsafe(self._callers[caller].cancel, outcome)
            raise

    def iterate(self, found: AsyncIterator[T]) -> Generator[T, None, None]:
        """Yield what an asynchronous iterator yields."""
        try:
            while True:
                try:
                    each = self.run(anext(found))
                except StopAsyncIteration:
                    return
                yield each
        finally:
            close = getattr(found, "aclose", None)
            if close is not None and self._loop is not None:
                self.run(close())

    def later(self, work: Awaitable[Awaitable[T]]) -> Future[T]:
        """Return a future of what the outcome of a call awaits."""
        awaited = self.run(work)

        async def outcome() -> T:
            return await awaited

        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(outcome(), self._loop)

    async def _serve(self, is_ready: threading.Event) -> None:
        self._loop, self._is_over = asyncio.get_running_loop(), asyncio.Event()
        is_ready.set()
        await self._is_over.wait()
        for caller in self._callers.values():
            caller.end()

    def _put(self, caller: int, call: _Call) -> None:
        if self._is_over.is_set():
            call[1].set_exception(CancelledError())
            return
        if caller not in self._callers:
            self._callers[caller] = _Caller()
        self._callers[caller].calls.put_nowait(call)


class _Caller:
    """The task of one calling thread."""

    def __init__(self) -> None:
        self.calls: asyncio.Queue[_Call] = asyncio.Queue()
        self._present: Future[Any] | None = None
        self._is_over = False
        self._task = asyncio.get_running_loop().create_task(self._serve())

    def cancel(self, outcome: Future[Any]) -> None:
        """Cancel a call if it is under way."""
        if outcome is self._present:
            self._task.cancel()

    def end(self) -> None:
        """Cancel all calls."""
        self._is_over = True
        self._task.cancel()
        while not self.calls.empty():
            self.calls.get_nowait()[1].set_exception(CancelledError())

    async def _serve(self) -> None:
        while not self._is_over:
            work, self._present = await self.calls.get()
            try:
                self._present.set_result(await work)
            except asyncio.CancelledError:
                self._present.set_exception(CancelledError())
                self._task.uncancel()
            except BaseException as error:  # noqa: BLE001 - it is raised in the calling thread
                self._present.set_exception(error)


class Twin(Generic[Inner]):
    """The blocking twin of an asynchronous object."""

    def __init__(self, portal: Portal, twin: Inner) -> None:
        """portal: thread of the client. twin: the asynchronous object."""
        self._portal = portal
        self.twin = twin


class Found(Twin[AsyncFound], Iterator[Document]):
    """Documents in order, read page by page; see `docstore.client.Found`."""

    @property
    def cursor(self) -> str:
        """Return the `cursor=` with which a later call continues."""
        return self.twin.cursor

    def __next__(self) -> Document:
        try:
            return self._portal.run(anext(self.twin))
        except StopAsyncIteration:
            raise StopIteration from None


class Held(Twin[Block]):
    """A twin that is used within `with`."""

    def __enter__(self) -> Self:
        self._portal.run(self.twin.__aenter__())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._portal.run(self.twin.__aexit__(kind, error, trace))


class Opened(Held[Block]):
    """A twin with a thread of its own: a client."""

    def __init__(self, twin: Block) -> None:
        super().__init__(Portal(), twin)

    def __enter__(self) -> Self:
        self._portal.start()
        try:
            return super().__enter__()
        except BaseException:
            self._portal.stop()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            super().__exit__(kind, error, trace)
        finally:
            self._portal.stop()
