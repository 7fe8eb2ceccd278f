"""The shell around the protocol: how the machine of documents runs (`stepping.py`), and its disk.

What the protocol asks to be stored joins the batch that forms while the disk is busy with the one
before (group commit); batches leave at the end of the loop's turn, as frames do.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import assert_never

import structlog

from docstore.documents.effects import (
    ChangeAnswered,
    Effect,
    Publish,
    ReadIndexAnswered,
    Reconfigured,
)
from docstore.documents.events import (
    BatchRequested,
    ChangeAsked,
    DiskFilled,
    Event,
    ReadIndexAsked,
    Requested,
)
from docstore.documents.membership.change import Change
from docstore.documents.replica import Replica
from docstore.documents.view.replica import ReplicaView
from docstore.errors import DiskFull, StoreBroken
from docstore.machines.effects import Alarm, Give, Persist, Read, Send
from docstore.machines.events import Persisted, QueriesAnswered, Room, Tick, TurnEnded
from docstore.model.document import Row
from docstore.model.operation import Answer, Operation
from docstore.ownership.configuration import Configuration
from docstore.runtime.links.peers import PeerLinks
from docstore.runtime.stepping import TICK_S, Requests, Stepping, clock
from docstore.runtime.trace.context import TRACEPARENT
from docstore.runtime.trace.of_documents import TABLE, bytes_of, bytes_of_rows
from docstore.storage.arrivals import Heads, Lines
from docstore.storage.patience import once_there_is_room
from docstore.storage.store import LONG, Query, Store, Write

QUERIES_AT_ONCE, LONG_QUERIES_AT_ONCE = 256, 4
"""What waits for them all goes on in one step, and the loop has to come round between two."""

log = structlog.get_logger("docstore.protocol")


class Driver(Stepping[Event, Effect]):
    """Runs one replica against a real clock, real links and a real disk."""

    def __init__(
        self,
        replica: Replica,
        store: Store,
        links: PeerLinks,
        *,
        publish: Callable[[Row], None],
        reconfigured: Callable[[Configuration], None],
        broken: Callable[[BaseException], None],
    ) -> None:
        super().__init__(replica, links, TABLE)
        self.replica = replica
        self.view = ReplicaView(replica)
        self.loop_lag_s = 0.0
        self._store = store
        self._publish = publish
        self._reconfigured = reconfigured
        self._broken = broken
        self._requests = Requests[Answer](self.loop)
        self._changes = Requests[tuple[int, str, str]](self.loop)
        self._indexes = Requests[Mapping[int, tuple[int, int]]](self.loop)
        self._writes: list[Write] = []
        self._token = 0
        self._idle = asyncio.Event()
        """Set while no batch is on its way to the disk, nor the way back from a full one."""
        self._idle.set()
        self._recovering: asyncio.Task[None] | None = None
        self._has_room = True
        self._barriers: list[tuple[int, asyncio.Future[None]]] = []
        self._short = _Queue(QUERIES_AT_ONCE, self._answer, broken)
        self._long = _Queue(LONG_QUERIES_AT_ONCE, self._answer, broken)
        self._of_branches = _Queue(QUERIES_AT_ONCE, self._answer, broken)
        self._queues = (self._short, self._long, self._of_branches)

    def start(self) -> None:
        """Begin to tick."""
        self._planned_at = clock()
        super().start()

    async def stop(self) -> None:
        """Finish the batch that is under way; answer what still waits as the protocol would."""
        self.end()
        await self._idle.wait()
        for queue in self._queues:
            if queue.task is not None:
                await asyncio.gather(queue.task, return_exceptions=True)
        for requests in (self._requests, self._changes, self._indexes):
            requests.cancel()
        for _, barrier in self._barriers:
            barrier.cancel()

    def submit(self, operation: Operation, timeout_s: float) -> "asyncio.Future[Answer]":
        """Return a future for the answer; the protocol keeps the deadline."""
        trace = TRACEPARENT.get()
        if trace:
            operation = replace(operation, trace=trace)
        self.recorder.carried += len(operation.body)
        number = self._requests.next_number()
        future = self._requests.wait(number)
        self.feed(Requested(number, operation, clock() + timeout_s))
        return future

    def submit_batch(
        self, operations: Sequence[Operation], timeout_s: float
    ) -> "asyncio.Future[list[Answer]]":
        """Return a future for the answers to what came together; `submit` says the rest."""
        trace = TRACEPARENT.get()
        if trace:
            operations = [replace(operation, trace=trace) for operation in operations]
        self.recorder.carried += sum([len(operation.body) for operation in operations])
        first = self._requests.next_number(len(operations))
        future = self._requests.wait_batch(first, len(operations))
        self.feed(BatchRequested(first, operations, clock() + timeout_s))
        return future

    async def change(self, change: Change) -> tuple[int, str, str]:
        """Ask the register for a change; return HTTP status, code and detail."""
        number = self._changes.next_number()
        future = self._changes.wait(number)
        self.feed(ChangeAsked(number, change))
        return await future

    async def read_index(
        self, slots: Sequence[int], timeout_s: float, at_us: int = 0
    ) -> Mapping[int, tuple[int, int]]:
        """Return slot -> (epoch, decided), of those that this node owns as a quorum confirms.

        at_us: of those alone in which no more can be decided of that instant.
        """
        number = self._indexes.next_number()
        future = self._indexes.wait(number)
        self.feed(ReadIndexAsked(number, slots, clock() + timeout_s, at_us))
        return await future

    async def stored(self) -> None:
        """Return when all that the protocol has asked to be stored by now is on the disk."""
        if self._idle.is_set() and not self._writes:
            return
        barrier = self.loop.create_future()
        self._barriers.append((self._token, barrier))
        await barrier

    @property
    def in_flight(self) -> int:
        """Return how many requests of this node's clients are not answered yet."""
        return self._requests.in_flight

    def perform(self, event: Event) -> None:
        """Step the replica, and perform what it asks in order."""
        for effect in self.step(event):
            match effect:
                case Send(to, message):
                    self.links.send(to, message)
                case Give(request, answer):
                    self._requests.answer(request, answer)
                case Persist(token, writes):
                    self._writes.extend(writes)
                    self._token = token
                    self.recorder.carried += bytes_of(writes)
                case Read(token, query):
                    self._queue_of(query).waiting.append((token, query))
                case Publish(row):
                    self._publish(row)
                case Reconfigured(configuration):
                    self.links.configuration = configuration.id
                    # Later: it feeds events of its own, and this list is not done yet.
                    self.loop.call_soon(self._reconfigured, configuration)
                case ChangeAnswered(request, status, code, detail):
                    self._changes.answer(request, (status, code, detail))
                case ReadIndexAnswered(request, found):
                    self._indexes.answer(request, found)
                case Alarm(what):
                    self.alarm(effect, what)
                case _:
                    assert_never(effect)

    def end_turn(self) -> None:
        """Let the replica say what it gathered in this turn."""
        if self.replica.wants_turn:
            self.feed(TurnEnded())

    def after_turn(self) -> None:
        """Store what was asked to be stored, and look up what was asked for."""
        if self._writes and self._idle.is_set():
            self._submit()
        for queue in self._queues:
            queue.begin()

    def _queue_of(self, query: Query) -> "_Queue":
        """Return where a query waits: not with those that the store may keep waiting longer."""
        if isinstance(query, LONG):
            return self._long
        # Their answer may have to wait until the tables have followed (`storage/overlay.py`).
        return self._of_branches if isinstance(query, Heads | Lines) else self._short

    def _submit(self) -> None:
        """Hand what has gathered over to the disk, in one batch."""
        writes, self._writes = self._writes, []
        self._idle.clear()
        self._store.submit(writes, partial(self._stored, self._token))

    def _stored(self, token: int, error: Exception | None) -> None:
        """Go on after the batch up to `token`: with the next one, if more gathered meanwhile."""
        try:
            if isinstance(error, DiskFull):
                if not self._store.is_full:  # Else it has said so, once.
                    log.warning("no room for a batch: nothing of it is stored, slots are yielded")
                self._recovering = self.loop.create_task(self._go_on_from_disk())
                return
            if error is not None:
                raise error
            self.feed(Persisted(token))
            self._pass_barriers(token)
            if self._writes:
                self._submit()
            else:
                self._idle.set()
        except Exception as failure:  # noqa: BLE001 - one batch lost, and the next would leave a hole
            self._fail(failure)

    async def _go_on_from_disk(self) -> None:
        """Begin again from what is stored, once there is room at least to read it."""
        try:
            recovered = await once_there_is_room(self._store.recover)
            # What was asked meanwhile goes on from rows that are not there: it goes as well.
            self._writes = []
            self.feed(DiskFilled(recovered))
            self._pass_barriers(self._token)
            self._idle.set()
        except Exception as failure:  # noqa: BLE001 - as in `_stored`
            self._fail(failure)

    def _fail(self, error: Exception) -> None:
        self._idle.set()
        self._broken(error)

    def _pass_barriers(self, token: int) -> None:
        """Let those go on who waited for batches up to `token`."""
        waiting, self._barriers = self._barriers, []
        for until, barrier in waiting:
            if until > token:
                self._barriers.append((until, barrier))
            elif not barrier.done():
                barrier.set_result(None)

    async def _answer(self, queries: Sequence[tuple[int, Query]]) -> None:
        """Answer queries, all at once."""
        tokens, asked = zip(*queries, strict=True)
        results = await once_there_is_room(partial(self._store.read, asked))
        self.recorder.carried += sum(bytes_of_rows(each) for each in results if type(each) is list)
        self.feed(QueriesAnswered(list(zip(tokens, results, strict=True))))

    def tick(self) -> None:
        """Say what time it is, and note how late; and whether there is room."""
        now = clock()
        self.loop_lag_s = max(0.0, now - self._planned_at)
        self._planned_at = now + TICK_S
        self._look_for_room()
        self.feed(Tick(time.time_ns() // 1000))

    def _look_for_room(self) -> None:
        has_room = not self._store.is_full
        if has_room != self._has_room:
            self._has_room = has_room
            self.feed(Room(has_room))


class _Queue:
    """Queries that wait for the disk; those that gathered are asked at once, and then the next."""

    def __init__(
        self,
        at_once: int,
        answer: Callable[[Sequence[tuple[int, Query]]], Awaitable[None]],
        broken: Callable[[BaseException], None],
    ) -> None:
        self.waiting: list[tuple[int, Query]] = []
        self.task: asyncio.Task[None] | None = None
        self._at_once = at_once
        self._answer = answer
        self._broken = broken

    def begin(self) -> None:
        """Ask the disk, unless it is being asked."""
        if self.waiting and self.task is None:
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
