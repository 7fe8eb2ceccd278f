"""A consumer group: processes that share the partitions of topics, and resume after a restart.

    async with client.group("etl", ["flights"]) as group:
        async for record in group:
            await work(record)

A record counts as processed when the next one is requested. Processed records are committed every
few seconds, and before a partition is released. After a crash the records since the last commit are
delivered again: at least once. Only the member that leads a partition reads it, from the offset
that its claim returned; after that claim, the group rejects commits of the member before.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, NamedTuple, Self

from docstore.client.consumer import ReadOptions, ReadRecord, consume
from docstore.client.errors import ClientError, RequestFailed, is_passing
from docstore.client.event_delivery import call_back
from docstore.client.group_offsets import PAUSE_S, GroupOffsets, PartitionReading, is_recreated
from docstore.client.membership import GroupEnded, GroupMembership
from docstore.client.requests import Requests
from docstore.ownership.by_induction import Acquired, Event, Fenced, Revoked
from docstore.services.group_document import GROUPS
from docstore.sessions.member import GroupMember

PartitionCallback = Callable[[str, int], Awaitable[None] | None]
COMMIT_S = 5.0
QUIET_S = 0.5
"""Seconds without a record after which a reader that stops at the end checks if it is there."""


class _Calls(NamedTuple):
    """Callbacks of the application for partitions that this member gets, gives back, or loses."""

    acquired: PartitionCallback | None
    revoked: PartitionCallback | None
    fenced: PartitionCallback | None


class ConsumerGroup(GroupMembership):
    """Member of a group that reads topics together with other processes."""

    def __init__(
        self,
        client: Requests,
        name: str,
        topics: Sequence[str],
        *,
        since: str = "beginning",
        isolation: str = "committed",
        commit_s: float = COMMIT_S,
        session_s: float | None = None,
        instance: str = "",
        capacity: int = 1,
        max_poll_s: float | None = None,
        on_acquired: PartitionCallback | None = None,
        on_revoked: PartitionCallback | None = None,
        on_fenced: PartitionCallback | None = None,
    ) -> None:
        """name: that of the group. topics: the topics that all its processes read.

        `async with` raises Differs if the group reads other topics, or has another session than the
        one given. since: where to begin in a partition that the group has never read; the first
        member that reads it commits the offset. commit_s: interval between commits; each is a
        version of a document, which history keeps.

        max_poll_s: seconds to process a record. A process that takes longer leaves the group, and
        its next request raises GroupEnded. on_acquired, on_revoked, on_fenced: called with topic
        and partition before the first record, after the last one, and where another member may
        read already. Raises ValueError if an interval is not above 0.
        """
        _insist_above_0(commit_s=commit_s, max_poll_s=max_poll_s)
        session = {} if session_s is None else {"sessionMs": int(session_s * 1000)}
        asked: dict[str, Any] = {"topics": sorted(topics), **session}
        super().__init__(client, f"{GROUPS}/{name}", asked, instance=instance, capacity=capacity)
        self._wanted = {"name": name, **asked}
        self._offsets = GroupOffsets(client, self.link, self.member, since)
        self._isolation = isolation
        self._commit_s = commit_s
        self._readings: dict[int, PartitionReading] = {}
        self._arrived = asyncio.Event()
        self._busy: PartitionReading | None = None
        """Partition of the record that the application is processing."""
        self._taker: asyncio.Task[Any] | None = None
        """Task that requested that record."""
        self._handed = 0
        self._was_processed = asyncio.Event()
        self._problem: Exception | None = None
        self._max_poll_s = max_poll_s
        self._polled_s, self._why_late = 0.0, ""
        """Time at which the application got its record; error where it took too long."""
        self._calls = _Calls(on_acquired, on_revoked, on_fenced)

    @property
    def calls_back(self) -> bool:
        """Return True: this class handles its events itself."""
        return True

    async def __aenter__(self) -> Self:
        """Create the group unless it exists, and join.

        Raises RequestFailed if a topic does not exist.
        """
        await self._driver.insist_on(GROUPS, self._wanted)
        await super().__aenter__()
        self._driver.spawn(self._commit_on())
        if self._max_poll_s is not None:
            self._driver.spawn(self._limit_processing(self._max_poll_s))
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        """Commit what was processed, and leave.

        The last record counts as processed unless an error ends the block. A record that another
        task is processing is waited for, up to revokeMs.
        """
        if self._taker is asyncio.current_task() and kind is None:
            self._processed()
        for reading in list(self._readings.values()):
            reading.stop()
        try:
            with contextlib.suppress(ClientError):  # Otherwise the records are delivered again.
                await self.commit()
        finally:
            await super().__aexit__(kind, *rest)

    async def leave(self, *, drain: bool = False) -> None:
        """Leave the group; see `GroupMembership.leave`."""
        taker = self._taker
        if taker is None or taker is asyncio.current_task() or taker.done():
            # No next record will be requested, so this record is delivered again.
            self._busy = None
            self._processed()
        await super().leave(drain=drain)

    # Records

    def __aiter__(self) -> AsyncIterator[ReadRecord]:
        return self.records()

    async def records(self, *, until_end: bool = False) -> AsyncGenerator[ReadRecord, None]:
        """Yield records without end, those of each partition in order.

        until_end: stop when the group, with all its members, has read and committed the records
        that exist now.
        """
        ends = {}
        if until_end:
            ends = await self._offsets.ends(lambda: self.is_over or self._problem is not None)
        while True:
            self._taker = asyncio.current_task()
            self._processed()
            if self._problem is not None:
                raise self._problem
            if self.is_over:
                raise GroupEnded(self.why_over)
            found = self._next()
            if found is None:
                self._arrived.clear()
                if until_end:
                    if await self._offsets.commit_until(ends, list(self._readings.values())):
                        return
                    # Not wait_for, which may swallow a cancellation in Python 3.11.
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(QUIET_S):
                            await self._arrived.wait()
                else:
                    await self._arrived.wait()
                continue
            reading, record = found
            self._busy, self._handed = reading, record.offset + 1
            reading.epoch = record.epoch
            self._polled_s = asyncio.get_running_loop().time()
            yield record

    async def _limit_processing(self, limit_s: float) -> None:
        """Leave the group if the application takes too long for a record."""
        loop = asyncio.get_running_loop()
        while not self.is_over:
            left_s = self._polled_s + limit_s - loop.time() if self._busy else limit_s
            if left_s > 0:
                await asyncio.sleep(left_s)
                continue
            self._busy = None  # It is delivered again.
            self._processed()
            self._why_late = f"a record took longer than max_poll_s, {limit_s:g} s"
            await super().leave()

    def _next(self) -> tuple[PartitionReading, ReadRecord] | None:
        """Return the next record of the partitions that this process leads, each in turn."""
        for place, reading in list(self._readings.items()):
            is_ours = not reading.is_ending and self.leads_partition(place)
            if is_ours and not _is_over(self.member, reading) and not reading.records.empty():
                # Moves it behind the other partitions.
                self._readings[place] = self._readings.pop(place)
                return reading, reading.records.get_nowait()
        return None

    def _processed(self) -> None:
        if self._busy is not None:
            self._busy.done, self._busy = self._handed, None
        self._was_processed.set()
        self._was_processed = asyncio.Event()

    def _end(self, why: str) -> None:
        super()._end(self._why_late or why)
        self._arrived.set()

    # Partitions

    async def happened(self, event: Event) -> None:
        """Begin to read acquired partitions, finish revoked ones, and drop lost ones."""
        self._arrived.set()  # The led partitions have changed.
        reading = self._readings.get(event.partition)
        if isinstance(event, Acquired):
            if reading is not None and reading.token != event.token:
                await self.happened(Fenced(event.partition, reading.token, "fenced"))
                reading = None
            if reading is not None:
                reading.is_lapsed = False
            else:
                topic, _, number = self.member.name_of(event.partition).rpartition("/")
                reading = PartitionReading(topic, int(number), event.partition, event.token)
                self._readings[event.partition] = reading
                await call_back(self._calls.acquired, reading.topic, reading.partition)
                reading.task = asyncio.get_running_loop().create_task(self._read(reading))
            return
        if reading is None or reading.token != event.token:
            return
        if isinstance(event, Revoked):
            reading.stop()
            while self._busy is reading:
                await self._was_processed.wait()
            await call_back(self._calls.revoked, reading.topic, reading.partition)
            with contextlib.suppress(ClientError):  # Otherwise the records are delivered again.
                await self._offsets.commit([reading])
            _forget(self._readings, reading)
        elif event.why == "silent":
            reading.is_lapsed = True
        else:
            reading.stop()
            _forget(self._readings, reading)
            await call_back(self._calls.fenced, reading.topic, reading.partition)

    async def _read(self, reading: PartitionReading) -> None:
        """Claim the partition and read it from there; retry errors that pass."""
        try:
            since = await self._offsets.claim(reading)
            while True:
                way = ReadOptions(since, self._isolation, True, incarnation=reading.incarnation)
                records = consume(self._client, reading.topic, reading.partition, way)
                try:
                    async for record in records:
                        await reading.records.put(record._replace(topic=reading.topic))
                        since = str(record.offset + 1)
                        self._arrived.set()
                except ClientError as error:
                    if is_recreated(error):
                        since = await self._claim_anew(reading)
                        continue
                    if not is_passing(error):
                        raise
                await asyncio.sleep(PAUSE_S)  # No node answers at present.
        except ClientError as error:
            if not reading.is_ending and not _is_anothers(error):
                self._problem = error
                self._arrived.set()

    async def _claim_anew(self, reading: PartitionReading) -> str:
        """Claim the partition of a recreated topic, once the former records are processed."""
        while not reading.records.empty() or self._busy is reading:
            await self._was_processed.wait()
        return await self._offsets.claim(reading)

    # Offsets

    async def commit(self) -> None:
        """Commit what was processed. Raises ClientError if that may have failed."""
        await self._offsets.commit(list(self._readings.values()))

    async def _commit_on(self) -> None:
        while not self.is_over:
            await asyncio.sleep(self._commit_s)
            for each in self._readings.values():
                if each.is_lapsed and _is_over(self.member, each):
                    # No event follows the lapse of a tenure that is over.
                    self._events.put(Fenced(each.place, each.token, "fenced"))
            with contextlib.suppress(ClientError):  # The next commit includes this one.
                await self.commit()


def _forget(readings: dict[int, PartitionReading], reading: PartitionReading) -> None:
    if readings.get(reading.place) is reading:
        del readings[reading.place]


def _is_over(member: GroupMember, reading: PartitionReading) -> bool:
    """Say whether the tenure of a reading is over: its records may be another member's work now."""
    return member.induced is None or member.induced.token(reading.place) != reading.token


def _is_anothers(error: ClientError) -> bool:
    """Say whether the partition belongs to another member by now."""
    return isinstance(error, RequestFailed) and error.code in ("fenced", "other-token")


def _insist_above_0(**intervals: float | None) -> None:
    for name, seconds in intervals.items():
        if seconds is not None and seconds <= 0:
            raise ValueError(f"`{name}` must be above 0 seconds; got {seconds}")
