"""Fetch: committed batches of several partitions, as they are stored, as soon as there are any.

    fetch all at once --enough, an error, or the time is over--> answer
          ^------- one of the partitions has new records -------wait

A further request on the connection ends the wait, since the connection serves one at a time. A
batch is sent whole, so the first one may exceed the limits and begin below the offset asked for;
clients expect both. There are no sessions: the id 0 tells the client so.
"""

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass

from docstore.errors import DocstoreError
from docstore.http.backend import Backend
from docstore.kafka.brokers import Brokers
from docstore.kafka.dispatch import Api, Call
from docstore.kafka.errors import ErrorCode, code_of
from docstore.kafka.record_batches import for_clients
from docstore.kafka.schemas import Fields
from docstore.model.streams_batch import KAFKA, header_of
from docstore.runtime.streams_backend import StreamBackend
from docstore.streams.effects import Problem, Records
from docstore.streams.replica_set import STREAMS, partition_link
from docstore.streams.requests import ReadRequest

FETCH = 1
BYTES_MAX = 8 << 20
"""Maximum bytes of an answer, as over HTTP, and as much again for its first batches."""
WAIT_S_MAX = 60.0
AT_ONCE = 16
"""Partitions that are read together."""
FOUND_S = 1.0
"""Seconds to find the leader of a partition that this node does not know."""
AGAIN_S = 0.05
"""Seconds between two looks at partitions whose leaders have no Kafka listener."""


@dataclass(slots=True)
class _Part:
    """One partition of a request, and the batches found in it."""

    topic: str
    index: int
    offset: int
    bytes_max: int
    code: ErrorCode = ErrorCode.none
    high: int = -1
    start: int = -1
    records: Sequence[bytes | memoryview] = ()
    size: int = 0
    is_here: bool = True
    """Whether this node leads the partition."""

    @property
    def link(self) -> str:
        return partition_link(self.topic, self.index)


class FetchPages:
    """Answers the requests of consumers for records."""

    def __init__(self, backend: Backend, brokers: Brokers) -> None:
        self._backend = backend
        self._brokers = brokers

    def apis(self) -> Sequence[Api]:
        """Return the API keys that these handlers serve, with their versions."""
        return (Api(FETCH, 4, 12, self.fetch),)

    async def fetch(self, call: Call) -> Fields:
        """Answer Fetch."""
        request = call.request
        if getattr(request, "session_id", 0):
            return Fields(error_code=ErrorCode.fetch_session_id_not_found, responses=())
        parts = [
            _Part(topic.topic, each.partition, each.fetch_offset, each.partition_max_bytes)
            for topic in request.topics
            for each in topic.partitions
        ]
        if len({(part.topic, part.index) for part in parts}) < len(parts):
            return Fields(error_code=ErrorCode.invalid_request, responses=())
        for part in parts:
            _admit(part, call)
        streams = self._backend.inside().stream_backend
        loop = asyncio.get_running_loop()
        until = loop.time() + min(max(request.max_wait, 0.0), WAIT_S_MAX)
        bytes_max = min(max(request.max_bytes, 1), BYTES_MAX)
        while True:
            await self._read(streams, parts, bytes_max)
            found = sum(part.size for part in parts)
            is_enough = found >= min(request.min_bytes, bytes_max)
            left_s = until - loop.time()
            if is_enough or left_s <= 0 or any(part.code for part in parts):
                return _answer(parts)
            if call.more.is_set():
                return _answer(parts)
            await _first(self._news(streams, parts, left_s), call.more.wait())

    async def _read(self, streams: StreamBackend, parts: Sequence[_Part], bytes_max: int) -> None:
        """Read the partitions of which no records were found yet, some at a time."""
        left = bytes_max - sum(part.size for part in parts)
        wanted = [part for part in parts if not part.code and not part.records]
        for begin in range(0, len(wanted), AT_ONCE):
            some = wanted[begin : begin + AT_ONCE]
            if left <= 0:
                return
            share = max(1, left // len(some))
            await asyncio.gather(*(self._read_part(streams, part, share) for part in some))
            left -= sum(part.size for part in some)

    async def _read_part(self, streams: StreamBackend, part: _Part, bytes_max: int) -> None:
        link = part.link
        if self._brokers.elsewhere(link):
            part.code = ErrorCode.not_leader_or_follower
            return
        most = max(1, min(part.bytes_max, bytes_max))
        wanted = ReadRequest(("offset", part.offset), bytes_max=most)
        part.is_here = self._brokers.is_led_here(link)
        if part.is_here:
            outcome = await streams.fetch_here(link, wanted, 0.0)
        else:
            try:
                outcome = await streams.fetch(link, wanted, wait_s=0.0, timeout_s=FOUND_S)
            except DocstoreError as error:
                outcome = Problem(error.status, error.code, str(error))
        if isinstance(outcome, Records):
            await _take(part, outcome)
        else:
            part.code = code_of(outcome)

    async def _news(self, streams: StreamBackend, parts: Sequence[_Part], left_s: float) -> None:
        """Return when there may be more records, or the time is over."""
        waiting = [part for part in parts if not part.records]
        if not all(part.is_here for part in waiting):
            left_s = min(left_s, AGAIN_S)
        positions = [(part.link, max(part.offset, part.high)) for part in waiting if part.is_here]
        if positions:
            await streams.news(positions, left_s)
        else:
            await asyncio.sleep(left_s)


def _admit(part: _Part, call: Call) -> None:
    if not call.may("GET", f"{STREAMS}/{part.topic}/partitions/{part.index}/records"):
        part.code = ErrorCode.topic_authorization_failed
    elif part.index < 0:
        part.code = ErrorCode.unknown_topic_or_partition
    elif part.offset < 0:
        part.code = ErrorCode.offset_out_of_range


async def _take(part: _Part, found: Records) -> None:
    """Take the batches that end below the reader's end: a client would show all their records."""
    part.high, part.start = found.high, found.start
    taken: list[bytes | memoryview] = []
    for raw in found.batches:
        header = header_of(raw)
        if header.end > found.until:
            break
        if not header.flags & KAFKA:
            # A megabyte takes some milliseconds: the event loop gets a turn between batches.
            await asyncio.sleep(0)
        taken += for_clients(header, raw)
    part.records, part.size = taken, sum(map(len, taken))


async def _first(*awaited: Awaitable[object]) -> None:
    """Return when the first of some is done; cancel the others."""
    tasks = [asyncio.ensure_future(each) for each in awaited]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in tasks:
            each.cancel()


def _answer(parts: Sequence[_Part]) -> Fields:
    topics: dict[str, list[Fields]] = {}
    for part in parts:
        topics.setdefault(part.topic, []).append(
            Fields(
                partition_index=part.index, error_code=part.code, high_watermark=part.high,
                last_stable_offset=part.high, log_start_offset=part.start,
                aborted_transactions=None, preferred_read_replica=-1, records=part.records,
            )
        )  # fmt: skip
    return Fields(
        error_code=ErrorCode.none,
        responses=[Fields(topic=name, partitions=each) for name, each in topics.items()],
    )
