"""The driver of documents: `stepping.py`, on the store of a node."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import assert_never

import structlog

from docstore.documents.effects import (
    ChangeAnswered,
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
"""Queries that are answered in one step: the loop must come round between two steps."""

Own = Publish | Reconfigured | ChangeAnswered | ReadIndexAnswered
"""The effects of a replica that no other machine has."""

log = structlog.get_logger("docstore.protocol")


class Driver(Stepping[Event, Own]):
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
        """Begin to tick."""
        self._planned_at = clock()
        super().start()

    async def stop(self) -> None:
        """Finish the batch that is under way; answer what still waits as the protocol would."""
        self.end()
        await self._disk.stop()
        for requests in (self._requests, self._changes, self._indexes):
            requests.cancel()

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
        await self._disk.stored()

    def perform(self, effect: Own) -> None:
        """Perform an effect that no other machine has."""
        match effect:
            case Publish(row):
                self._publish(row)
            case Reconfigured(configuration):
                self._peers.configuration = configuration.id
                # Later: it feeds events of its own, and this list is not done yet.
                self.loop.call_soon(self._reconfigured, configuration)
            case ChangeAnswered(request, status, code, detail):
                self._changes.answer(request, (status, code, detail))
            case ReadIndexAnswered(request, found):
                self._indexes.answer(request, found)
            case _:
                assert_never(effect)

    def tick(self) -> None:
        """Say what time it is, and note how late; and whether there is room."""
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
        """Store what was asked to be stored, and look up what was asked for."""
        self._disk.begin()

    def queue_of(self, query: Query) -> Queue[Query]:
        """Return where a query waits: not with those that the store may keep waiting longer."""
        if isinstance(query, LONG):
            return self._long
        # Their answer may have to wait until the tables have followed (`storage/overlay.py`).
        return self._of_branches if isinstance(query, Heads | Lines) else self._short

    async def _wait_for_room(self, writes: Sequence[Write]) -> bool:
        """Begin again from what is stored, once there is room at least to read it."""
        if not self._store.is_full:  # Else it has said so, once.
            log.warning("no room for a batch: nothing of it is stored, slots are yielded")
        recovered = await retry_while_full(self._store.recover)
        # Writes that gathered meanwhile rest on rows that are not there.
        self._disk.writes = []
        self.feed(DiskFilled(recovered))
        return False
