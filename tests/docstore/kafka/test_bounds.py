"""Limits on the connections, time and memory that a hostile client takes."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack

import aiohttp
import pytest
from kio.schema.errors import ErrorCode

from docstore.client.local import LocalCluster
from docstore.kafka import connection
from docstore.kafka.listener import KafkaListener
from docstore.model.limits import Limits
from tests.docstore.http.single import SingleNode
from tests.docstore.http.streams.asking import created
from tests.docstore.kafka.test_records import FETCH, PRODUCE, batch, outcomes, sent, topic, wanted
from tests.docstore.kafka.wire import API_VERSIONS, NOW_S, Wire, connected
from tests.docstore.watching import metrics, resident_bytes, until

__all__ = ["topic"]
CONNECTIONS_MAX = 120
SLOW_S = 5.0
MEBIBYTE = 1 << 20


@pytest.fixture(scope="module")
def group(port: int) -> Iterator[LocalCluster]:
    settings = (
        "--kafka-listen", f"127.0.0.1:{port}", "--first-request-timeout-s", "2",
        "--body-timeout-s", "1", "--send-timeout-s", "1",
        "--connections-per-address-max", str(CONNECTIONS_MAX),
    )  # fmt: skip
    with LocalCluster(1, settings=settings) as nodes:
        yield nodes


async def opened(group: LocalCluster) -> float:
    """Return the node's count of connections."""
    return (await asyncio.to_thread(metrics, group.nodes[0]))["docstore_kafka_connections"]


async def test_silent_connections_are_closed(group: LocalCluster, port: int) -> None:
    began = time.monotonic()
    async with AsyncExitStack() as stack:
        silent = [await stack.enter_async_context(connected(port)) for _ in range(CONNECTIONS_MAX)]
        for each in silent[::2]:
            each.writer.write(b"\0\x7f\xff\xff" + b"\0" * 1000)
        async with connected(port) as beyond:
            assert await beyond.is_closed()
        assert all(await asyncio.gather(*(each.is_closed() for each in silent)))
    assert time.monotonic() - began < SLOW_S
    async with connected(port) as other:
        assert (await other.ask(API_VERSIONS, 0)).error_code == ErrorCode.none
    counted = await asyncio.to_thread(metrics, group.nodes[0])
    assert counted["docstore_kafka_connections_silent_total"] >= CONNECTIONS_MAX
    assert counted["docstore_kafka_connections_refused_total"] == 1


async def test_a_client_that_does_not_read_is_closed_and_bounded(
    wire: Wire, topic: str, group: LocalCluster, port: int
) -> None:
    process = group.nodes[0].process
    assert process is not None
    value = b"x" * (MEBIBYTE - 1000)
    for number in range(8):
        found = await wire.ask(PRODUCE, 7, **sent(topic, batch(value)))
        assert outcomes(found) == [(ErrorCode.none, number)]
    await wire.ask(FETCH, 11, **wanted(topic, 0, partition_max_bytes=1 << 24))
    before = resident_bytes(process.pid)
    async with connected(port) as slow:
        for _ in range(200):
            slow.send(FETCH, 11, **wanted(topic, 0, partition_max_bytes=1 << 24))
        peak = before
        deadline = time.monotonic() + NOW_S
        while await opened(group) > 1:
            peak = max(peak, resident_bytes(process.pid))
            assert time.monotonic() < deadline
            await asyncio.sleep(0.02)
        assert peak - before < 64 * MEBIBYTE


async def test_a_request_with_batches_of_many_partitions_is_served(
    wire: Wire, http: aiohttp.ClientSession
) -> None:
    name = (await created(http, partitions=12)).rpartition("/")[2]
    large = batch(b"x" * (MEBIBYTE - 1000))
    async with asyncio.timeout(NOW_S):
        codes = {ErrorCode.leader_not_available}
        while codes != {ErrorCode.none}:
            found = await wire.ask(PRODUCE, 7, **sent(name, *[large] * 12))
            codes = {code for code, _ in outcomes(found)}


async def test_a_request_that_never_ends_is_bounded(
    group: LocalCluster, wire: Wire, port: int
) -> None:
    process = group.nodes[0].process
    assert process is not None
    await wire.ask(API_VERSIONS, 0)
    before = resident_bytes(process.pid)
    async with AsyncExitStack() as stack:
        for _ in range(8):
            each = await stack.enter_async_context(connected(port))
            each.writer.write((8 << 20).to_bytes(4, "big") + b"\0" * (4 << 20))
        for _ in range(4):
            each = await stack.enter_async_context(connected(port))
            each.writer.write(b"\0\0\0\x0a" * (1 << 20))
        until(lambda: metrics(group.nodes[0])["docstore_kafka_connections"] <= 1)
        assert resident_bytes(process.pid) - before < 96 * MEBIBYTE
    assert (await wire.ask(API_VERSIONS, 0)).error_code == ErrorCode.none
    assert "Traceback" not in group.nodes[0].last_words()


async def test_all_connections_together_hold_a_bounded_number_of_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection, "HELD_BYTES_MAX", 4 * MEBIBYTE)
    listener = KafkaListener(SingleNode(), Limits())
    port = await listener.bind("127.0.0.1", 0)
    await listener.serve()
    begun = (8 << 20).to_bytes(4, "big") + b"\0" * MEBIBYTE
    no_request = (10).to_bytes(4, "big") + b"\x7f" * 10
    for _ in range(120):  # Requests behind a refused one are freed, too.
        async with connected(port) as wrong:
            wrong.writer.write(no_request + (50_000).to_bytes(4, "big") + bytes(50_000))
            assert await wrong.is_closed()
    async with AsyncExitStack() as stack:
        every = [await stack.enter_async_context(connected(port)) for _ in range(6)]
        small = await stack.enter_async_context(connected(port))
        for each in every:
            each.writer.write(begun)
        async with asyncio.timeout(NOW_S):
            while listener.metrics()["docstore_kafka_connections_refused_total"] < 2:
                await asyncio.sleep(0.01)
        assert (await small.ask(API_VERSIONS, 0)).error_code == ErrorCode.none
    async with asyncio.timeout(NOW_S):
        while listener.metrics()["docstore_kafka_connections"]:
            await asyncio.sleep(0.01)
    refused = listener.metrics()["docstore_kafka_connections_refused_total"]
    async with connected(port) as other:  # The bytes of closed connections are not counted.
        other.writer.write(begun)
        assert (await other.reader.read(0)) == b""
        async with connected(port) as another:
            assert (await another.ask(API_VERSIONS, 0)).error_code == ErrorCode.none
        assert listener.metrics()["docstore_kafka_connections_refused_total"] == refused
    await listener.stop(0.1)
