"""The driver of partitions: runs their machine (`stepping.py`) on the stream store of a node.

The machines of a node never feed each other while effects are performed: an effect for another
machine (Ask, Survey, decided rows, links) reaches it in the next turn of the loop.

On a full disk documents restart from the stored rows. Partitions cannot, since followers may hold
records that this node has not stored: the driver retries the same writes and takes no new ones.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Never

import structlog

from docstore.errors import DiskFull
from docstore.machines.events import Room
from docstore.model.streams_batch import BatchHeader
from docstore.runtime.disk import DiskIO
from docstore.runtime.document_client import DocumentClient
from docstore.runtime.links.peers import PeerLinks
from docstore.runtime.stepping import Stepping
from docstore.runtime.trace.context import TRACEPARENT
from docstore.runtime.trace.of_streams import TABLE, bytes_found, bytes_of
from docstore.storage.partitions import (
    CorruptPartition,
    DropPartition,
    Oldest,
    PartitionWrite,
    StreamStore,
    TrimPartition,
    partitions_of,
)
from docstore.storage.store import Then
from docstore.streams.effects import Outcome, Problem
from docstore.streams.events import (
    CommandAsked,
    DeletionAsked,
    FetchAsked,
    FiguresAsked,
    LeaderAsked,
    NewsAsked,
    ProduceAsked,
    StreamEvent,
)
from docstore.streams.partitions import Partitions
from docstore.wire.streams_messages import Produced

READS_AT_ONCE = 64
"""Queries answered in one step: each result may have a megabyte."""
FULL_PAUSE_S = 0.1
"""Seconds between two attempts to store writes on a full disk."""

Asked = FetchAsked | NewsAsked | LeaderAsked | FiguresAsked | CommandAsked | DeletionAsked

log = structlog.get_logger("docstore.streams")


class StreamsDriver(Stepping[StreamEvent, Never]):
    """Runs one partition machine against a real clock, real links and a real disk."""

    def __init__(
        self,
        machine: Partitions,
        store: StreamStore,
        links: PeerLinks,
        *,
        documents: DocumentClient,
        broken: Callable[[BaseException], None],
    ) -> None:
        """broken: called when the disk has failed; the node must not answer anything after it."""
        super().__init__(machine, links, TABLE)
        self.broken = broken
        self.machine = machine
        self.bytes_of = bytes_of
        self._store = store
        self._documents = documents
        documents.feed = self.feed
        self._disk = DiskIO(
            self, READS_AT_ONCE,
            submit=self._submit, wait_for_room=self._wait_for_room,
            read=store.read, bytes_read=bytes_found,
        )  # fmt: skip
        self._committing: asyncio.Task[None] | None = None

    async def stop(self) -> None:
        """Finish the batch under way, unless the disk is full; cancel all requests."""
        self.end()
        await self._documents.stop()
        await self._disk.stop()
        self._requests.cancel()

    def next_request(self) -> int:
        return self._requests.next_number()

    def produce(self, asked: ProduceAsked) -> "asyncio.Future[Produced | Problem]":
        """Return a future for the outcome of records; the machine keeps their deadline."""
        if self.stopped:
            return self._requests.refused()
        asked.trace = TRACEPARENT.get()
        future = self._requests.wait(asked.request)
        self.feed(asked)
        return future

    def request(self, asked: Asked) -> "asyncio.Future[Outcome]":
        if self.stopped:
            return self._requests.refused()
        if isinstance(asked, FetchAsked):
            asked.trace = asked.trace or TRACEPARENT.get()
        future = self._requests.wait(asked.request)
        self.feed(asked)
        return future

    def after_turn(self) -> None:
        self._disk.begin()

    # The disk

    def _submit(self, writes: Sequence[PartitionWrite], then: Then) -> None:
        self._committing = self.loop.create_task(self._commit(writes, then))

    async def _commit(self, writes: Sequence[PartitionWrite], then: Then) -> None:
        error: Exception | None = None
        try:
            await self._store.commit(writes)
        except Exception as failure:  # noqa: BLE001 - `then` takes it
            error = failure
        then(error)

    async def _wait_for_room(self, writes: Sequence[PartitionWrite]) -> bool:
        """Retry a commit until there is room for it; return False if the driver stops first."""
        # Retry the same writes: followers hold their records under the same offsets (rule RD1).
        log.warning("the disk is full: nothing is appended, reads go on")
        self.feed(Room(has_room=False))
        while not self.stopped:
            await asyncio.sleep(FULL_PAUSE_S)
            await self._make_room(writes)
            with suppress(DiskFull):
                await self._store.commit(writes)
                log.info("the disk has room again")
                self.feed(Room(has_room=True))
                return True
        return False

    async def _make_room(self, writes: Sequence[PartitionWrite]) -> None:
        """Commit the trims and drops among `writes` that no other write depends on."""
        try:
            for write in writes:
                if isinstance(write, TrimPartition):
                    await self._trim(write)
                elif isinstance(write, DropPartition):
                    others = (each for each in writes if each is not write)
                    if all(write.name not in partitions_of(other) for other in others):
                        await self._store.commit([write])
        except DiskFull:
            return  # The caller retries.

    async def _trim(self, write: TrimPartition) -> None:
        """Trim all but the last batch.

        Until the partition's record is stored, only that batch marks the end.
        """
        [found] = await self._store.read([Oldest(write.name, write.limit + 1)])
        if isinstance(found, CorruptPartition):
            return
        headers = [each for each in found if isinstance(each, BatchHeader)]
        if len(headers) > 1:
            start = min(write.start, headers[-1].base)
            await self._store.commit([TrimPartition(write.name, start, write.limit)])
