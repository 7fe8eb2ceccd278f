"""Records by Kafka's requests: stored as sent, returned as stored, in order."""

import asyncio
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import aiohttp
import pytest
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from kio.schema.errors import ErrorCode

from docstore.kafka.connection import UNANSWERED_MAX
from tests.docstore.http.streams.asking import created, posted, read
from tests.docstore.kafka.test_group_requests import commit
from tests.docstore.kafka.wire import NOW_S, Fields, Wire, connected

PRODUCE, FETCH, LIST_OFFSETS, INIT_PRODUCER_ID, METADATA = 0, 1, 2, 22, 3
DELETE_RECORDS = 21
LATEST, EARLIEST = -1, -2
GZIP = 1
NO_PRODUCER = (-1, -1, -1)


def batch(
    *values: bytes | None,
    producer: tuple[int, int, int] = NO_PRODUCER,
    ms: int = 0,
    codec: int = 0,
) -> bytes:
    """Return a RecordBatch of records without keys, with the present time unless `ms` is given."""
    builder = DefaultRecordBatchBuilder(2, codec, 0, *producer, 1 << 22)
    for number, value in enumerate(values):
        builder.append(number, ms or time.time_ns() // 1_000_000, None, value, [])
    return bytes(builder.build())


def sent(topic: str, *records: bytes, acks: int = -1) -> dict[str, Any]:
    """Return the fields of Produce: records for the partitions 0, 1, ..."""
    data = [Fields(index=index, records=each) for index, each in enumerate(records)]
    return {
        "transactional_id": None, "acks": acks, "timeout": timedelta(seconds=5),
        "topic_data": [Fields(name=topic, partition_data=data)],
    }  # fmt: skip


def wanted(topic: str, *offsets: int, wait_s: float = 0, **limits: int) -> dict[str, Any]:
    """Return the fields of Fetch: from these offsets of the partitions 0, 1, ..."""
    each_max = limits.pop("partition_max_bytes", 1 << 20)
    partitions = [
        Fields(
            partition=index, fetch_offset=offset, partition_max_bytes=each_max,
            current_leader_epoch=-1, last_fetched_epoch=-1, log_start_offset=-1,
        )
        for index, offset in enumerate(offsets)
    ]  # fmt: skip
    return {
        "cluster_id": None, "replica_id": -1, "max_wait": timedelta(seconds=wait_s),
        "min_bytes": 1, "max_bytes": 1 << 24, "isolation_level": 0, "session_id": 0,
        "session_epoch": -1, "forgotten_topics_data": (), "rack_id": "",
        "topics": [Fields(topic=topic, partitions=partitions)], **limits,
    }  # fmt: skip


def outcomes(found: Any) -> list[tuple[ErrorCode, int]]:
    """Return code and offset of each partition of an answer to Produce."""
    [topic] = found.responses
    return [(each.error_code, each.base_offset) for each in topic.partition_responses]


def partitions(found: Any) -> Sequence[Any]:
    """Return the partitions of an answer to Fetch."""
    [topic] = found.responses
    return list(topic.partitions)


def records(raw: bytes) -> list[tuple[int, bytes | None]]:
    """Return (offset, value) of the records in the answer to Fetch."""
    found = []
    while raw:
        size = 12 + int.from_bytes(raw[8:12], "big")
        whole = DefaultRecordBatch(raw[:size])
        assert whole.validate_crc()
        found += [(each.offset, each.value) for each in whole]
        raw = raw[size:]
    return found


@pytest.fixture
async def topic(wire: Wire, http: aiohttp.ClientSession) -> str:
    """Create a topic with two partitions that have leaders; return its name."""
    name = (await created(http, partitions=2)).rpartition("/")[2]
    async with asyncio.timeout(NOW_S):
        while True:
            found = await wire.ask(METADATA, 1, topics=[Fields(name=name)])
            if all(each.error_code == ErrorCode.none for each in found.topics[0].partitions):
                return name


@pytest.mark.parametrize("version", range(3, 10))
async def test_batches_are_returned_as_sent(wire: Wire, topic: str, version: int) -> None:
    first, second = batch(b"a", None), batch(b"b", ms=5)
    found = await wire.ask(PRODUCE, version, **sent(topic, first, second))
    assert outcomes(found) == [(ErrorCode.none, 0), (ErrorCode.none, 0)]
    found = await wire.ask(PRODUCE, version, **sent(topic, batch(b"c")))
    assert outcomes(found) == [(ErrorCode.none, 2)]
    for fetch_version in (version + 1, version + 3):
        here, there = partitions(await wire.ask(FETCH, fetch_version, **wanted(topic, 0, 0)))
        assert records(here.records) == [(0, b"a"), (1, None), (2, b"c")]
        assert (here.high_watermark, here.last_stable_offset) == (3, 3)
        assert records(there.records) == [(0, b"b")]
        # Checksum, records and times are unchanged.
        assert there.records[16:] == second[16:]


async def test_records_are_equal_over_http(
    wire: Wire, http: aiohttp.ClientSession, topic: str
) -> None:
    path = f"/core/streams/{topic}/partitions/0"
    await wire.ask(PRODUCE, 7, **sent(topic, batch(b'{"n": 1}')))
    await posted(http, f"{path}/records", {"key": "k", "value": {"n": 2}})
    found = await read(http, path)
    assert [each["offset"] for each in found["records"]] == [0, 1]
    [here] = partitions(await wire.ask(FETCH, 11, **wanted(topic, 0)))
    values = [value for _, value in records(here.records)]
    assert values[0] == b'{"n": 1}'
    assert values[1] is not None
    assert b"2" in values[1]


async def test_a_retry_of_an_idempotent_producer_is_appended_once(wire: Wire, topic: str) -> None:
    started = await wire.ask(
        INIT_PRODUCER_ID, 3, transactional_id=None, transaction_timeout=timedelta(0),
        producer_id=-1, producer_epoch=-1,
    )  # fmt: skip
    assert started.error_code == ErrorCode.none
    me = started.producer_id, started.producer_epoch
    first, second = batch(b"a", b"b", producer=(*me, 0)), batch(b"c", producer=(*me, 2))
    for each, base in ((first, 0), (second, 2), (first, 0), (second, 2)):
        assert outcomes(await wire.ask(PRODUCE, 7, **sent(topic, each))) == [(0, base)]
    gap = batch(b"d", producer=(*me, 9))
    [(code, _)] = outcomes(await wire.ask(PRODUCE, 7, **sent(topic, gap)))
    assert code == ErrorCode.out_of_order_sequence_number
    stranger = batch(b"e", producer=(me[0] ^ 1, 0, 5))
    found = await wire.ask(PRODUCE, 7, **sent(topic, stranger))
    assert outcomes(found) == [(ErrorCode.unknown_producer_id, -1)]
    assert found.responses[0].partition_responses[0].log_start_offset == 0
    [here] = partitions(await wire.ask(FETCH, 11, **wanted(topic, 0)))
    assert [value for _, value in records(here.records)] == [b"a", b"b", b"c"]


async def test_transactions_are_refused(wire: Wire, topic: str) -> None:
    started = await wire.ask(
        INIT_PRODUCER_ID, 4, transactional_id="t", transaction_timeout=timedelta(0),
        producer_id=-1, producer_epoch=-1,
    )  # fmt: skip
    assert started.error_code == ErrorCode.transactional_id_authorization_failed
    asked = sent(topic, batch(b"a")) | {"transactional_id": "t"}
    [(code, base)] = outcomes(await wire.ask(PRODUCE, 7, **asked))
    assert (code, base) == (ErrorCode.transactional_id_authorization_failed, -1)


def damaged(raw: bytes) -> bytes:
    return raw[:-1] + bytes([raw[-1] ^ 1])


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (damaged(batch(b"a")), ErrorCode.corrupt_message),
        (batch(b"a")[:-1], ErrorCode.corrupt_message),
        (b"", ErrorCode.corrupt_message),
        (b"\0" * 16 + b"\1" + b"\0" * 60, ErrorCode.unsupported_for_message_format),
        (batch(b"x" * (1 << 20), b"y" * 2000), ErrorCode.message_too_large),
        (batch(b"a", ms=1 << 42), ErrorCode.invalid_timestamp),
    ],
    ids=["checksum", "cut off", "empty", "magic 1", "too large", "from the future"],
)
async def test_an_invalid_batch_is_refused_by_its_code(
    wire: Wire, topic: str, raw: bytes, code: ErrorCode
) -> None:
    found = await wire.ask(PRODUCE, 9, **sent(topic, raw, batch(b"b")))
    assert outcomes(found) == [(code, -1), (ErrorCode.none, 0)]


async def test_a_record_of_one_mebibyte_fits(wire: Wire, topic: str) -> None:
    value = bytes(range(256)) * 4096
    assert outcomes(await wire.ask(PRODUCE, 7, **sent(topic, batch(value)))) == [(0, 0)]
    limits = {"max_bytes": 1, "partition_max_bytes": 1}
    [here] = partitions(await wire.ask(FETCH, 11, **wanted(topic, 0, **limits)))
    assert records(here.records) == [(0, value)]


async def test_unknown_partitions_and_offsets_are_refused(wire: Wire, topic: str) -> None:
    for name, partition in (("absent", 0), (topic, 2), (topic, -1)):
        asked = sent(name, batch(b"a"))
        asked["topic_data"][0].partition_data[0].index = partition
        [(code, _)] = outcomes(await wire.ask(PRODUCE, 7, **asked))
        assert code == ErrorCode.unknown_topic_or_partition
        asked = wanted(name, 0)
        asked["topics"][0].partitions[0].partition = partition
        [there] = partitions(await wire.ask(FETCH, 11, **asked))
        assert there.error_code == ErrorCode.unknown_topic_or_partition
    for offset in (1, -1):
        [here] = partitions(await wire.ask(FETCH, 11, **wanted(topic, offset)))
        assert here.error_code == ErrorCode.offset_out_of_range
    [(code, _)] = outcomes(await wire.ask(PRODUCE, 7, **sent(topic, batch(b"a"), acks=2)))
    assert code == ErrorCode.invalid_required_acks


async def test_the_path_of_a_partition_is_not_a_topic_name(wire: Wire, topic: str) -> None:
    name = f"{topic}/partitions/0"
    found = await wire.ask(METADATA, 1, topics=[Fields(name=name)])
    assert found.topics[0].error_code == ErrorCode.invalid_topic_exception
    [(code, _)] = outcomes(await wire.ask(PRODUCE, 7, **sent(name, batch(b"a"))))
    assert code == ErrorCode.unknown_topic_or_partition
    assert await commit(wire, "g", f"{name}/0", 1) == ErrorCode.unknown_topic_or_partition


async def test_requests_without_acks_are_not_answered(wire: Wire, topic: str) -> None:
    every = [wire.send(PRODUCE, 7, **sent(topic, batch(b"a"), acks=acks)) for acks in (0, 1, 0, -1)]
    answers = [await wire.answer(PRODUCE, 7) for _ in range(2)]
    assert [correlation for correlation, _ in answers] == every[1::2]
    [here] = partitions(await wire.ask(FETCH, 11, **wanted(topic, 0)))
    assert len(records(here.records)) == 4


async def test_records_without_acks_are_stored_although_the_client_disconnects_at_once(
    wire: Wire, topic: str, port: int
) -> None:
    count = 3 * UNANSWERED_MAX
    async with connected(port) as other:
        for _ in range(count):
            other.send(PRODUCE, 7, **sent(topic, batch(b"a", codec=GZIP), acks=0))
    async with asyncio.timeout(NOW_S):
        while partitions(await wire.ask(FETCH, 11, **wanted(topic, 0)))[0].high_watermark < count:
            pass


async def test_a_refusal_of_records_without_acks_ends_the_connection(
    wire: Wire, topic: str, port: int
) -> None:
    wire.send(PRODUCE, 7, **sent(topic, batch(b"a"), b"no batch", acks=0))
    assert await wire.is_closed()
    async with connected(port) as other, asyncio.timeout(NOW_S):
        while partitions(await other.ask(FETCH, 11, **wanted(topic, 0)))[0].high_watermark < 1:
            pass


async def test_a_fetch_waits_for_the_first_record_of_any_partition(
    wire: Wire, topic: str, port: int
) -> None:
    began = time.monotonic()
    empty = partitions(await wire.ask(FETCH, 11, **wanted(topic, 0, 0, wait_s=0.2)))
    assert time.monotonic() - began >= 0.2
    assert [each.records for each in empty] in ([b"", b""], [None, None])
    wire.send(FETCH, 11, **wanted(topic, 0, 0, wait_s=60))
    async with connected(port) as other:
        await other.ask(PRODUCE, 7, **sent(topic, batch(b"a"), b""))
    _, found = await wire.answer(FETCH, 11)
    assert records(partitions(found)[0].records) == [(0, b"a")]
    # With fewer bytes than wanted it waits for the time, then returns the present records.
    asked = wanted(topic, 0, wait_s=0.2, min_bytes=1 << 16)
    [here] = partitions(await wire.ask(FETCH, 11, **asked))
    assert records(here.records) == [(0, b"a")]


async def test_a_fetch_does_not_wait_while_another_request_does(wire: Wire, topic: str) -> None:
    first = wire.send(FETCH, 11, **wanted(topic, 0, wait_s=60))
    second = wire.send(METADATA, 1, topics=[Fields(name=topic)])
    assert (await wire.answer(FETCH, 11))[0] == first
    assert (await wire.answer(METADATA, 1))[0] == second
    sessions = wanted(topic, 0) | {"session_id": 7, "session_epoch": 3}
    found = await wire.ask(FETCH, 11, **sessions)
    assert found.error_code == ErrorCode.fetch_session_id_not_found


async def test_batches_of_a_pipeline_keep_their_order(wire: Wire, topic: str) -> None:
    for number in range(300):
        wire.send(PRODUCE, 7, **sent(topic, batch(b"%d" % number)))
    found = [outcomes((await wire.answer(PRODUCE, 7))[1]) for _ in range(300)]
    assert found == [[(ErrorCode.none, number)] for number in range(300)]


async def offsets(wire: Wire, version: int, topic: str, *times: int) -> list[tuple[int, int, int]]:
    """Return (code, time, offset) for each time, of partition 0."""
    found = []
    for each in times:
        asked = Fields(partition_index=0, timestamp=each, current_leader_epoch=-1)
        answer = await wire.ask(
            LIST_OFFSETS, version, replica_id=-1, isolation_level=0,
            topics=[Fields(name=topic, partitions=[asked])],
        )  # fmt: skip
        [partition] = answer.topics[0].partitions
        found.append((partition.error_code, partition.timestamp, partition.offset))
    return found


@pytest.mark.parametrize("version", range(1, 7))
async def test_offsets_are_found_at_both_ends_and_by_time(
    wire: Wire, topic: str, version: int
) -> None:
    assert await offsets(wire, version, topic, EARLIEST, LATEST, 0) == [
        (0, -1, 0), (0, -1, 0), (0, -1, -1),
    ]  # fmt: skip
    now = time.time_ns() // 1_000_000
    for values, ms in (((b"a", b"b"), now - 90_000), ((b"c",), now - 5), ((b"d",), now - 20)):
        await wire.ask(PRODUCE, 7, **sent(topic, batch(*values, ms=ms)))
    found = await offsets(
        wire, version, topic, EARLIEST, LATEST, 0, now - 80_000, now - 10, now, -9
    )
    assert found[:6] == [
        (0, -1, 0), (0, -1, 4), (0, now - 90_000, 0), (0, now - 5, 2), (0, now - 5, 2), (0, -1, -1),
    ]  # fmt: skip
    assert found[6][0] == ErrorCode.invalid_request


@pytest.mark.parametrize("version", range(3))
async def test_records_are_deleted_below_an_offset(wire: Wire, topic: str, version: int) -> None:
    for _ in range(4):
        await wire.ask(PRODUCE, 7, **sent(topic, batch(b"a")))

    async def delete(partition: int, before: int) -> tuple[ErrorCode, int]:
        asked = Fields(partition_index=partition, offset=before)
        found = await wire.ask(
            DELETE_RECORDS, version, topics=[Fields(name=topic, partitions=[asked])],
            timeout=timedelta(seconds=5),
        )  # fmt: skip
        [result] = found.topics[0].partitions
        return ErrorCode(result.error_code), result.low_watermark

    assert await delete(0, 3) == (ErrorCode.none, 3)
    assert await offsets(wire, 4, topic, EARLIEST) == [(0, -1, 3)]
    [here] = partitions(await wire.ask(FETCH, 11, **wanted(topic, 2)))
    assert here.error_code == ErrorCode.offset_out_of_range
    assert await delete(0, 9) == (ErrorCode.offset_out_of_range, -1)
    assert await delete(7, 1) == (ErrorCode.unknown_topic_or_partition, -1)
    assert await delete(0, -1) == (ErrorCode.none, 4)
