"""Reader of a topic: the records of each partition in order, from any offset or time on.

    async for record in client.consume("flights", partition=0, since="beginning"):
        print(record.offset, record.key, record.value)

Batches are sent as they are stored, by the leader if it can be reached, else through any node.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, NamedTuple
from urllib.parse import urlencode

import orjson

from docstore.client.leaders import Leaders
from docstore.client.requests import Requests
from docstore.model.streams_batch import header_of, unframed
from docstore.streams.forms import records_of

INCARNATION = "Docstore-Incarnation"
BATCHES = {"Accept": "application/vnd.docstore.batches"}
PATIENCE_S = 60.0
"""Seconds for which a partition may lack a leader before reading it fails."""
QUEUED_MAX = 1_000
"""Records that are read ahead for a caller that reads several partitions."""


class ReadRecord(NamedTuple):
    """A record as read.

    timestamp_us: the time that the writer has given, else that of its append.
    """

    partition: int
    offset: int
    epoch: int
    raw_key: bytes | None
    raw_value: bytes | None
    """The bytes of the value; None for a tombstone."""
    raw_headers: Sequence[tuple[str, bytes | None]]
    timestamp_us: int
    topic: str = ""
    """Topic of the record; set for consumer groups, which may read several."""

    @property
    def key(self) -> str | bytes | None:
        """Return the key, as a text if it is UTF-8."""
        return None if self.raw_key is None else _text(self.raw_key)

    @property
    def value(self) -> Any:
        """Return the value parsed as JSON, or its bytes if it is not JSON; None for a tombstone."""
        if self.raw_value is None:
            return None
        try:
            return orjson.loads(self.raw_value)
        except orjson.JSONDecodeError:
            return self.raw_value

    @property
    def headers(self) -> Mapping[str, str | bytes | None]:
        """Return the headers, each as a text if it is UTF-8; of a repeated one the last."""
        return {
            name: None if content is None else _text(content) for name, content in self.raw_headers
        }


class ReadOptions(NamedTuple):
    """Options of a reader.

    follow: whether to wait for more records at the end; else end once the records committed by now
    have been read. incarnation: that of the topic to which `since` belongs; "" for the present one.
    """

    since: str = "beginning"
    isolation: str = "committed"
    follow: bool = True
    wait_s: int = 10
    incarnation: str = ""


class _Ended(NamedTuple):
    """Marker that the reader of one partition has ended, among several.

    failure: the error that ended it, None at the end of the partition. A reader that is cancelled
    leaves no marker.
    """

    failure: Exception | None


async def consume(
    client: Requests, topic: str, partition: int | None, reading: ReadOptions
) -> AsyncGenerator[ReadRecord, None]:
    """Yield the records of a partition in order, or those of all partitions interleaved."""
    leaders = Leaders(client, topic)
    await leaders.refresh()
    one = None if partition is None else _read(leaders, partition, reading)
    try:
        # A caller that stops reading leaves no task behind.
        async with aclosing(one or _read_all(leaders, reading)) as records:
            async for record in records:
                yield record
    finally:
        await leaders.close()


async def _read_all(leaders: Leaders, reading: ReadOptions) -> AsyncGenerator[ReadRecord, None]:
    queue: asyncio.Queue[ReadRecord | _Ended] = asyncio.Queue(QUEUED_MAX)

    async def pump(partition: int) -> None:
        failure: Exception | None = None
        try:
            async for record in _read(leaders, partition, reading):
                await queue.put(record)
        except Exception as error:  # noqa: BLE001 - it is raised where the records are read
            failure = error
        await queue.put(_Ended(failure))

    pumps = [asyncio.create_task(pump(number)) for number in range(leaders.partitions)]
    left = len(pumps)
    try:
        while left:
            found = await queue.get()
            if isinstance(found, ReadRecord):
                yield found
            elif found.failure is not None:
                raise found.failure
            else:
                left -= 1
    finally:
        for each in pumps:
            each.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)


async def _read(
    leaders: Leaders, partition: int, reading: ReadOptions
) -> AsyncGenerator[ReadRecord, None]:
    since, of, until = reading.since, reading.incarnation, None
    if not reading.follow:
        until, of = await _position(leaders, partition, reading._replace(since="end"))
    wait_ms = 1000 * reading.wait_s if reading.follow else 0
    while True:
        # "end" is resolved by a request that does not wait, since a later "end" would skip records.
        waits_ms = 0 if since.startswith("end") else wait_ms
        query = {"from": since, "isolation": reading.isolation, "waitMs": waits_ms} | _named(of)
        headers, content = await leaders.ask(
            "GET",
            partition,
            None,
            BATCHES,
            query="?" + urlencode(query),
            wait_s=waits_ms / 1000,
            timeout_s=PATIENCE_S,
        )
        first, following = int(headers["Docstore-From"]), int(headers["Docstore-Next"])
        of = headers.get(INCARNATION, of)  # The offsets in the answer belong to this incarnation.
        for record in _records(content, partition, first, following):
            yield record
        if until is not None and following >= until:
            return
        since = str(following)


def _named(incarnation: str) -> dict[str, str]:
    return {"incarnation": incarnation} if incarnation else {}


async def position_of(client: Requests, topic: str, partition: int, reading: ReadOptions) -> int:
    """Return the offset that `since` means now."""
    leaders = Leaders(client, topic)
    await leaders.refresh()
    try:
        return (await _position(leaders, partition, reading))[0]
    finally:
        await leaders.close()


async def _position(leaders: Leaders, partition: int, reading: ReadOptions) -> tuple[int, str]:
    """Return the offset that `since` means now, and the incarnation that it belongs to.

    A new leader may have to find the offset first, so the request is repeated.
    """
    asked = {"from": reading.since, "isolation": reading.isolation, "maxBytes": "1"}
    query = urlencode(asked | _named(reading.incarnation))
    headers, _ = await leaders.ask(
        "GET", partition, None, BATCHES, query="?" + query, timeout_s=PATIENCE_S
    )
    return int(headers["Docstore-From"]), headers.get(INCARNATION, reading.incarnation)


def _records(content: bytes, partition: int, first: int, until: int) -> Iterator[ReadRecord]:
    """Yield the records first..until-1 of batches, each of which follows its length."""
    for raw in unframed(content):
        header = header_of(raw)
        for offset, (key, value, headers, client_us) in records_of(header, raw):
            if first <= offset < until:
                at_us = header.last_us if client_us is None else client_us
                yield ReadRecord(partition, offset, header.epoch, key, value, headers, at_us)


def _text(content: bytes) -> str | bytes:
    try:
        return content.decode()
    except UnicodeDecodeError:
        return content
