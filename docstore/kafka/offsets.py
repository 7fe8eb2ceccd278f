"""ListOffsets: the first offset, the one after the last committed record, or that of a time.

A record's time is that of its producer, which may be up to a minute ahead of the append time. So
the search by time begins earlier, and looks into the batches.
"""

import asyncio
from collections.abc import Sequence
from functools import partial

from docstore.errors import DocstoreError
from docstore.http.backend import Backend
from docstore.kafka.brokers import Brokers
from docstore.kafka.dispatch import Api, Call
from docstore.kafka.errors import ErrorCode, code_of, code_of_error
from docstore.kafka.reading import some_at_once
from docstore.kafka.schemas import Fields
from docstore.model.streams_batch import KAFKA, body_of, header_of
from docstore.runtime.streams_backend import StreamBackend
from docstore.streams.effects import Problem, Records
from docstore.streams.forms import records_of
from docstore.streams.kafka_records import kafka_head
from docstore.streams.replica_set import STREAMS, partition_link
from docstore.streams.requests import ReadRequest

LIST_OFFSETS = 2
EARLIEST, LATEST = -2, -1
TIMEOUT_S = 10.0
PAGE_BYTES = 1 << 20
NOT_FOUND = (-1, -1)
"""Time and offset if no record is as late."""


class OffsetFinder:
    """Answers questions for offsets."""

    def __init__(self, backend: Backend, brokers: Brokers) -> None:
        self._backend = backend
        self._brokers = brokers

    def apis(self) -> Sequence[Api]:
        """Return the API keys that these handlers serve, with their versions."""
        return (Api(LIST_OFFSETS, 1, 6, self.list_offsets),)

    async def list_offsets(self, call: Call) -> Fields:
        """Answer ListOffsets."""
        topics = []
        for topic in call.request.topics:
            asked = [partial(self._listed, call, topic.name, each) for each in topic.partitions]
            topics.append(Fields(name=topic.name, partitions=await some_at_once(asked)))
        return Fields(topics=topics)

    async def _listed(self, call: Call, topic: str, asked: Fields) -> Fields:
        index, code, found = asked.partition_index, ErrorCode.none, NOT_FOUND
        link = partition_link(topic, index)
        if not call.may("GET", f"{STREAMS}/{topic}/partitions/{index}/records"):
            code = ErrorCode.topic_authorization_failed
        elif index < 0:
            code = ErrorCode.unknown_topic_or_partition
        elif self._brokers.elsewhere(link):
            code = ErrorCode.not_leader_or_follower
        else:
            streams = self._backend.inside().stream_backend
            try:
                async with asyncio.timeout(TIMEOUT_S):
                    outcome = await _found(streams, link, asked.timestamp)
            except TimeoutError:
                code = ErrorCode.request_timed_out
            except DocstoreError as error:
                code = code_of_error(error)
            else:
                if isinstance(outcome, Problem):
                    code = code_of(outcome)
                else:
                    found = outcome
        ms, offset = found
        return Fields(partition_index=index, error_code=code, timestamp=ms, offset=offset)


async def _found(streams: StreamBackend, link: str, ms: int) -> tuple[int, int] | Problem:
    """Return time in ms, and offset, of the place that a client asks for."""
    if ms in (EARLIEST, LATEST):
        origin = ("beginning", 0) if ms == EARLIEST else ("end", 0)
        wanted = ReadRequest(origin, bytes_max=1)
        outcome = await streams.fetch(link, wanted, wait_s=0.0, timeout_s=TIMEOUT_S)
        return outcome if isinstance(outcome, Problem) else (-1, outcome.offset)
    if ms < 0:
        return Problem(400, "malformed", "the time must be -2, -1, or milliseconds since 1970")
    origin = ("written", ms * 1000)
    while True:
        wanted = ReadRequest(origin, bytes_max=PAGE_BYTES)
        outcome = await streams.fetch(link, wanted, wait_s=0.0, timeout_s=TIMEOUT_S)
        if isinstance(outcome, Problem):
            return outcome
        if (found := _first_since(outcome, ms)) is not None:
            return found
        if outcome.until <= outcome.offset:
            return NOT_FOUND
        origin = ("offset", outcome.until)
        await asyncio.sleep(0)


def _first_since(found: Records, ms: int) -> tuple[int, int] | None:
    """Return the time and the offset of the first record since a time, None if there is none."""
    for raw in found.batches:
        header = header_of(raw)
        if header.flags & KAFKA and kafka_head(body_of(raw)).last_ms < ms:
            continue
        for offset, record in records_of(header, raw):
            us = header.last_us if record.client_us is None else record.client_us
            if us // 1000 >= ms and found.offset <= offset < found.until:
                return us // 1000, offset
    return None
