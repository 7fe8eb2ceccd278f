"""The disk under a driver: queries, and one batch of writes at a time (group commit).

Writes that a machine asks for while a batch is being stored form the next batch. A batch leaves at
the end of a turn of the loop, as frames do.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from docstore.errors import DiskFull, StoreBroken
from docstore.machines.events import Persisted, QueriesAnswered
from docstore.runtime.trace.recorder import Recorder
from docstore.storage.retry_while_full import retry_while_full

Q = TypeVar("Q")
R = TypeVar("R")
W = TypeVar("W")

Then = Callable[[Exception | None], None]


class Fed(Protocol):
    """The driver, as `DiskIO` calls it."""

    recorder: Recorder
    broken: Callable[[BaseException], None]
    """Called when the disk has failed; the node must not answer anything after it."""

    def feed(self, event: Any) -> None:
        """Give the machine an event."""


class DiskIO(Generic[W, Q, R]):
    """The queued writes and queries of one machine."""

    def __init__(
        self,
        driver: Fed,
        *at_once: int,
        submit: Callable[[Sequence[W], Then], None],
        wait_for_room: Callable[[Sequence[W]], Awaitable[bool]],
        read: Callable[[Sequence[Q]], Awaitable[Sequence[R]]],
        bytes_read: Callable[[Sequence[R]], int],
    ) -> None:
        """at_once: for each queue of queries, the number of queries that are read together.

        submit: hands a batch to the store, which calls back once the batch is durable or has
        failed. wait_for_room: called after DiskFull; returns when the machine can continue: True if
        the batch is durable, False if it was dropped.
        """
        self.writes: list[W] = []
        self.token = 0
        """The token of the last Persist."""
        self.queues = [Queue(limit, self._answer, self._fail) for limit in at_once]
        self._driver = driver
        self._store_submit = submit
        self._wait_for_room = wait_for_room
        self._read = read
        self._bytes_read = bytes_read
        self._idle = asyncio.Event()
        """Set while no batch is being stored or waits for room."""
        self._idle.set()
        self._going_on: asyncio.Task[None] | None = None
        self._barriers: list[tuple[int, asyncio.Future[None]]] = []

    def begin(self) -> None:
        """Submit the queued writes, unless a batch is under way, and the queued queries."""
        if self.writes and self._idle.is_set():
            self._submit()
        for queue in self.queues:
            if queue.waiting and queue.task is None:
                queue.begin()

    async def stored(self) -> None:
        """Return when all writes that the machine has asked for by now are durable."""
        if self._idle.is_set() and not self.writes:
            return
        barrier = asyncio.get_running_loop().create_future()
        self._barriers.append((self.token, barrier))
        await barrier

    async def stop(self) -> None:
        """Finish the batch and the queries that are under way."""
        await self._idle.wait()
        tasks = [queue.task for queue in self.queues if queue.task is not None]
        await asyncio.gather(*tasks, return_exceptions=True)
        for _, barrier in self._barriers:
            barrier.cancel()

    # Writes

    def _submit(self) -> None:
        writes, self.writes = self.writes, []
        self._idle.clear()
        self._store_submit(writes, partial(self._stored, writes, self.token))

    def _stored(self, writes: Sequence[W], token: int, error: Exception | None) -> None:
        """Report the batch up to `token`, then submit the writes that were queued meanwhile."""
        try:
            if isinstance(error, DiskFull):
                going_on = self._go_on_with_room(writes, token)
                self._going_on = asyncio.get_running_loop().create_task(going_on)
                return
            if error is not None:
                raise error
            self._driver.feed(Persisted(token))
            self._pass_barriers(token)
            if self.writes:
                self._submit()
            else:
                self._idle.set()
        except Exception as failure:  # noqa: BLE001 - after a lost batch the next would leave a gap
            self._fail(failure)

    async def _go_on_with_room(self, writes: Sequence[W], token: int) -> None:
        try:
            is_durable = await self._wait_for_room(writes)
        except Exception as failure:  # noqa: BLE001 - as in `_stored`
            self._fail(failure)
            return
        if is_durable:
            self._stored(writes, token, None)
        else:
            self._pass_barriers(self.token)
            self._idle.set()

    def _fail(self, error: Exception) -> None:
        self._idle.set()
        self._driver.broken(error)

    def _pass_barriers(self, token: int) -> None:
        waiting, self._barriers = self._barriers, []
        for until, barrier in waiting:
            if until > token:
                self._barriers.append((until, barrier))
            elif not barrier.done():
                barrier.set_result(None)

    # Queries

    async def _answer(self, queries: Sequence[tuple[int, Q]]) -> None:
        tokens, asked = zip(*queries, strict=True)
        results = await retry_while_full(partial(self._read, asked))
        self._driver.recorder.carried += self._bytes_read(results)
        self._driver.feed(QueriesAnswered(list(zip(tokens, results, strict=True))))


class Queue(Generic[Q]):
    """Queries that wait for the disk. Queries that arrive during a read are read together next."""

    def __init__(
        self,
        at_once: int,
        answer: Callable[[Sequence[tuple[int, Q]]], Awaitable[None]],
        broken: Callable[[Exception], None],
    ) -> None:
        self.waiting: list[tuple[int, Q]] = []
        self.task: asyncio.Task[None] | None = None
        self._at_once = at_once
        self._answer = answer
        self._broken = broken

    def begin(self) -> None:
        self.task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        try:
            while self.waiting:
                queries = self.waiting[: self._at_once]
                del self.waiting[: self._at_once]
                await self._answer(queries)
        except StoreBroken as error:
            self._broken(error)
        finally:
            self.task = None
