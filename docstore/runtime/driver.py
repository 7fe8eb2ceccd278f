"""The driver of documents: runs their machine (`stepping.py`) on the store of a node."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import assert_never

import structlog

from docstore.documents import events
from docstore.documents.effects import ChangeAnswered, Publish, ReadIndexAnswered, Reconfigured
from docstore.documents.membership.change import Change
from docstore.documents.replica import Replica
from docstore.documents.view import ReplicaView
from docstore.machines.events import Room
from docstore.model.document import Row
from docstore.model.operation import Answer, Operation
from docstore.ownership.configuration import Configuration
from docstore.runtime.disk import DiskIO, Queue
from docstore.runtime.links.peers import PeerLinks
from docstore.runtime.stepping import TICK_S, PendingRequests, Stepping, clock
from docstore.runtime.trace.context import TRACEPARENT
from docstore.runtime.trace.of_documents import TABLE, bytes_of, bytes_read
from docstore.storage.replication_log import Heads, Lines
from docstore.storage.retry_while_full import retry_while_full
from docstore.storage.store import LONG, Query, Store, Write

QUERIES_AT_ONCE, LONG_QUERIES_AT_ONCE = 256, 4
"""Queries answered in one step. A bound, so that the event loop can run between two steps."""

Own = Publish | Reconfigured | ChangeAnswered | ReadIndexAnswered
"""The effects that only a replica of documents has."""

log = structlog.get_logger("docstore.protocol")


class Driver(Stepping[events.Event, Own]):
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
        self.broken = broken
        self._peers = links
        self.replica = replica
        self.view = ReplicaView(replica, clock)
        self.loop_lag_s = 0.0
        self._store = store
        self._publish = publish
        self._reconfigured = reconfigured
        self._changes = PendingRequests[tuple[int, str, str]](self.loop)
        self._indexes = PendingRequests[Mapping[int, tuple[int, int]]](self.loop)
        self._has_room = True
        self.bytes_of = bytes_of
        self._disk = DiskIO(
            self, QUERIES_AT_ONCE, LONG_QUERIES_AT_ONCE, QUERIES_AT_ONCE,
            submit=store.submit, wait_for_room=self._wait_for_room,
            read=store.read, bytes_read=bytes_read,
        )  # fmt: skip
        self._short, self._long, self._of_branches = self._disk.queues

    def start(self) -> None:
        self._planned_at = clock()
        super().start()

    async def stop(self) -> None:
        """Finish the batch under way; cancel the requests without an answer."""
        self.end()
        await self._disk.stop()
        for requests in (self._requests, self._changes, self._indexes):
            requests.cancel()

    def submit(self, operation: Operation, timeout_s: float) -> "asyncio.Future[Answer]":
        """Return a future for the answer; the replica keeps the deadline."""
        trace = TRACEPARENT.get()
        if trace:
            operation = replace(operation, trace=trace)
        self.recorder.carried += len(operation.body)
        number = self._requests.next_number()
        future = self._requests.wait(number)
        self.feed(events.Requested(number, operation, clock() + timeout_s))
        return future

    def submit_batch(
        self, operations: Sequence[Operation], timeout_s: float
    ) -> "asyncio.Future[list[Answer]]":
        trace = TRACEPARENT.get()
        if trace:
            operations = [replace(operation, trace=trace) for operation in operations]
        self.recorder.carried += sum([len(operation.body) for operation in operations])
        first = self._requests.next_number(len(operations))
        future = self._requests.wait_batch(first, len(operations))
        self.feed(events.BatchRequested(first, operations, clock() + timeout_s))
        return future

    async def change(self, change: Change) -> tuple[int, str, str]:
        """Ask the register for a change; return HTTP status, code and detail."""
        number = self._changes.next_number()
        future = self._changes.wait(number)
        self.feed(events.ChangeAsked(number, change))
        return await future

    async def read_index(
        self, slots: Sequence[int], timeout_s: float, at_us: int = 0
    ) -> Mapping[int, tuple[int, int]]:
        """Return slot -> (epoch, decided) of the slots that a quorum confirms this node to own.

        at_us: return only slots in which no version of that instant or an earlier one can be
        decided any more.
        """
        number = self._indexes.next_number()
        future = self._indexes.wait(number)
        self.feed(events.ReadIndexAsked(number, slots, clock() + timeout_s, at_us))
        return await future

    async def stored(self) -> None:
        """Return when all writes that the replica has asked for by now are durable."""
        await self._disk.stored()

    def perform(self, effect: Own) -> None:
        match effect:
            case Publish(row):
                self._publish(row)
            case Reconfigured(configuration):
                self._peers.configuration = configuration.id
                # Feed the event in the next turn: effects are being performed now.
                self.loop.call_soon(self._reconfigured, configuration)
            case ChangeAnswered(request, status, code, detail):
                self._changes.answer(request, (status, code, detail))
            case ReadIndexAnswered(request, found):
                self._indexes.answer(request, found)
            case _:
                assert_never(effect)

    def tick(self) -> None:
        """Feed the time and changes of free space; measure how late the tick is."""
        now = clock()
        self.loop_lag_s = max(0.0, now - self._planned_at)
        self._planned_at = now + TICK_S
        has_room = not self._store.is_full
        if has_room != self._has_room:
            self._has_room = has_room
            self.feed(Room(has_room))
        super().tick()

    # The disk

    def after_turn(self) -> None:
        self._disk.begin()

    def queue_of(self, query: Query) -> Queue[Query]:
        """Return the queue of a query, so that slow queries do not delay the others."""
        if isinstance(query, LONG):
            return self._long
        # These queries may have to wait until the tables have followed (`storage/overlay.py`).
        return self._of_branches if isinstance(query, Heads | Lines) else self._short

    async def _wait_for_room(self, writes: Sequence[Write]) -> bool:
        """Rebuild the replica's state from the stored rows, once there is room to read them."""
        if not self._store.is_full:  # A full store has logged the reason.
            log.warning("the disk is full: a batch of writes is dropped, slots are yielded")
        recovered = await retry_while_full(self._store.recover)
        # Writes that were queued meanwhile depend on rows that are not stored.
        self._disk.writes = []
        self.feed(events.DiskFilled(recovered))
        return False
