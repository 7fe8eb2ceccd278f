"""The shell around the partition machine: as `docstore/runtime/driver.py` is for documents.

One thread, run to completion; group commit; frames leave at the end of the loop turn. The two
machines of a node never feed each other within a list: what crosses from one to the other (Ask,
Survey, what was decided, links) comes with the next turn of the loop.

A disk without room is not begun again from, as it is for documents: followers may hold what this
node has not kept. The very same writes are tried until they are kept, and nothing new is taken.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import assert_never

import structlog

from docstore.errors import DiskFull, StoreBroken
from docstore.machines.effects import Alarm, Ask, Give, Persist, Read, Send, Survey
from docstore.machines.events import Persisted, QueriesAnswered, Room, Surveyed, Tick, TurnEnded
from docstore.model.document import Row
from docstore.model.streams_batch import Header
from docstore.runtime.documents import Documents, Errands
from docstore.runtime.links.peers import PeerLinks
from docstore.runtime.stepping import Requests, Stepping
from docstore.runtime.trace.context import TRACEPARENT
from docstore.runtime.trace.of_streams import TABLE, bytes_found, bytes_of
from docstore.storage.partitions import (
    CorruptPartition,
    DropPartition,
    Oldest,
    PartitionQuery,
    PartitionWrite,
    StreamStore,
    TrimPartition,
    partitions_of,
)
from docstore.storage.patience import once_there_is_room
from docstore.streams.effects import Outcome, StreamEffect
from docstore.streams.events import (
    CommandAsked,
    FetchAsked,
    FiguresAsked,
    LeaderAsked,
    ProduceAsked,
    StreamEvent,
)
from docstore.streams.partitions import Partitions

LOOKS_AT_ONCE = 64
"""What they find goes on in one step, and each may be a megabyte."""
FULL_PAUSE_S = 0.1
"""Between two attempts to keep what a disk had no room for."""

Asked = ProduceAsked | FetchAsked | LeaderAsked | FiguresAsked | CommandAsked

log = structlog.get_logger("docstore.streams")


class StreamsDriver(Stepping[StreamEvent, StreamEffect]):
    """Runs one partition machine against a real clock, real links and a real disk."""

    def __init__(
        self,
        machine: Partitions,
        store: StreamStore,
        links: PeerLinks,
        *,
        documents: Documents,
        broken: Callable[[BaseException], None],
    ) -> None:
        """broken: called when the disk has failed; nothing may be answered after it."""
        super().__init__(machine, links, TABLE)
        self.machine = machine
        self._store = store
        self._broken = broken
        self._requests = Requests[Outcome](self.loop)
        self._errands = Errands(documents, self.feed, self._surveyed, broken)
        self._writes: list[PartitionWrite] = []
        self._token = 0
        self._committing: asyncio.Task[None] | None = None
        self._looks: list[tuple[int, PartitionQuery]] = []
        self._looking: asyncio.Task[None] | None = None

    async def stop(self) -> None:
        """Finish the batch that is under way, unless it finds no room; answer nobody any more."""
        self.end()
        await self._errands.stop()
        tasks = [self._committing, self._looking]
        await asyncio.gather(*(task for task in tasks if task is not None), return_exceptions=True)
        self._requests.cancel()

    @property
    def in_flight(self) -> int:
        """Return for how many requests somebody still waits."""
        return self._requests.in_flight

    def next_request(self) -> int:
        """Return a number for a request."""
        return self._requests.next_number()

    def request(self, asked: Asked) -> "asyncio.Future[Outcome]":
        """Return a future for the outcome of a request; the machine keeps its deadline."""
        if self.stopped:
            return self._requests.refused()
        if isinstance(asked, ProduceAsked | FetchAsked):
            asked.trace = asked.trace or TRACEPARENT.get()
        future = self._requests.wait(asked.request)
        self.feed(asked)
        return future

    def perform(self, event: StreamEvent) -> None:
        """Step the machine, and perform what it asks in order."""
        for effect in self.step(event):
            match effect:
                case Send(to, message):
                    self.links.send(to, message)
                case Give(request, outcome):
                    self._requests.answer(request, outcome)
                case Persist(token, writes):
                    self._writes.extend(writes)
                    self._token = token
                    self.recorder.carried += bytes_of(writes)
                case Read(token, query):
                    self._looks.append((token, query))
                case Ask():
                    self._errands.ask(effect)
                case Survey():
                    self._errands.survey(effect)
                case Alarm(what):
                    self.alarm(effect, what)
                case _:
                    assert_never(effect)

    def end_turn(self) -> None:
        """Let the machine seal and send what it gathered in this turn."""
        if self.machine.wants_turn:
            self.feed(TurnEnded())

    def after_turn(self) -> None:
        """Store what was asked to be stored, and look up what was asked for."""
        if self._writes and self._committing is None:
            self._committing = self.loop.create_task(self._commit())
        if self._looks and self._looking is None:
            self._looking = self.loop.create_task(self._look())

    def tick(self) -> None:
        """Say what time it is."""
        self.feed(Tick(time.time_ns() // 1000))

    def _surveyed(self, token: int, rows: Sequence[Row]) -> None:
        self.feed(Surveyed(token, rows))

    # The disk

    async def _commit(self) -> None:
        """Commit batch after batch until nothing gathered meanwhile."""
        try:
            while self._writes:
                writes, self._writes = self._writes, []
                token = self._token
                if not await self._keep(writes):
                    return
                self.feed(Persisted(token))
        except Exception as error:  # noqa: BLE001 - one batch lost, and the next would leave a hole
            self._broken(error)
        finally:
            self._committing = None

    async def _keep(self, writes: Sequence[PartitionWrite]) -> bool:
        """Commit writes; again and again while there is no room for them. False: given up."""
        is_full = False
        while True:
            try:
                await self._store.commit(writes)
                break
            except DiskFull:
                if not is_full:
                    is_full = True
                    # What waits stays as it is: others hold it under its offsets (rule RD1).
                    log.warning("the disk is full: nothing is appended, reads go on")
                    self.feed(Room(has_room=False))
                if self.stopped:
                    return False
                await asyncio.sleep(FULL_PAUSE_S)
                await self._make_room(writes)
        if is_full:
            log.info("the disk has room again")
            self.feed(Room(has_room=True))
        return True

    async def _make_room(self, writes: Sequence[PartitionWrite]) -> None:
        """Do, of what waits, what makes room and what nothing else of it rests on."""
        try:
            for write in writes:
                if isinstance(write, TrimPartition):
                    await self._trim(write)
                elif isinstance(write, DropPartition):
                    others = (each for each in writes if each is not write)
                    if all(write.name not in partitions_of(other) for other in others):
                        await self._store.commit([write])
        except DiskFull:
            return  # Not even that; the caller tries again.

    async def _trim(self, write: TrimPartition) -> None:
        """Trim, but never the last batch: without its new record, a partition's end is in it."""
        [found] = await self._store.read([Oldest(write.name, write.limit + 1)])
        if isinstance(found, CorruptPartition):
            return
        headers = [each for each in found if isinstance(each, Header)]
        if len(headers) > 1:
            start = min(write.start, headers[-1].base)
            await self._store.commit([TrimPartition(write.name, start, write.limit)])

    async def _look(self) -> None:
        """Answer queries, those that gathered at once, and then the next."""
        try:
            while self._looks:
                looks, self._looks = self._looks[:LOOKS_AT_ONCE], self._looks[LOOKS_AT_ONCE:]
                asked = [query for _, query in looks]
                results = await once_there_is_room(partial(self._store.read, asked))
                self.recorder.carried += bytes_found(results)
                tokens = [token for token, _ in looks]
                self.feed(QueriesAnswered(list(zip(tokens, results, strict=True))))
        except StoreBroken as error:
            self._broken(error)
        finally:
            self._looking = None
