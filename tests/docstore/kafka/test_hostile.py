"""A good client is served beside hostile ones, and the node's memory is bounded."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from datetime import timedelta

import aiohttp
import cramjam
import pytest
from kio.schema.errors import ErrorCode

from docstore.client.local import LocalCluster
from docstore.kafka.connection import FRAME_BYTES_MAX
from docstore.streams.records import Record
from tests.docstore.http.streams.asking import created, read
from tests.docstore.kafka.test_record_batches import (
    COMPRESS,
    a_record,
    built,
    changed,
    varint,
    with_body,
)
from tests.docstore.kafka.wire import NOW_S, Fields, Wire, connected
from tests.docstore.watching import resident_bytes

PRODUCE = 0
GROWTH_BYTES_MAX = 96 << 20
STALL_S = 2.0
"""Seconds within which the good client must get its answer, on a busy machine."""
GOOD = built([Record(b"k", b"v")])
BOMBS = [
    with_body(bytes(compress(bytes(20 << 20))), attributes=codec)
    for codec, compress in COMPRESS.items()
]
RECORD = b"\x01\x01" + varint(64) + b"\0\x01" * 64
HEADERS = with_body(
    bytes(cramjam.zstd.compress(b"".join(a_record(RECORD, n) for n in range(50_000)))), 50_000,
    attributes=4,
)  # fmt: skip
SILENT = 990
Attack = Callable[[int, str, random.Random], Awaitable[None]]


def send(wire: Wire, topic: str, raw: bytes) -> None:
    """Send a batch with acks=all."""
    part = Fields(index=0, records=raw)
    wire.send(
        PRODUCE, 3, transactional_id=None, acks=-1, timeout=timedelta(seconds=10),
        topic_data=[Fields(name=topic, partition_data=[part])],
    )  # fmt: skip


async def code_of(wire: Wire) -> ErrorCode:
    """Return the code of the next answer to a batch."""
    _, found = await wire.answer(PRODUCE, 3)
    return ErrorCode(found.responses[0].partition_responses[0].error_code)


async def served_s(good: Wire, topic: str) -> float:
    """Append a batch; return the seconds that it took."""
    begun = time.monotonic()
    send(good, topic, GOOD)
    assert await code_of(good) == ErrorCode.none
    return time.monotonic() - begun


async def bombs(port: int, topic: str, rng: random.Random) -> None:
    """Send bombs of all codecs in a pipeline; each is refused."""
    raws = BOMBS * 2
    rng.shuffle(raws)
    async with connected(port) as wire:
        for raw in raws:
            send(wire, topic, raw)
        for _ in raws:
            assert await code_of(wire) == ErrorCode.message_too_large


async def headers(port: int, topic: str, rng: random.Random) -> None:
    """Send small batches with millions of headers; each is refused."""
    async with connected(port) as wire:
        for _ in range(4):
            send(wire, topic, HEADERS)
        for _ in range(4):
            assert await code_of(wire) == ErrorCode.message_too_large


async def batches(port: int, topic: str, rng: random.Random) -> None:
    """Send batches with a wrong checksum, wrong numbers, and garbage in valid heads."""
    async with connected(port) as wire:
        for _ in range(100):
            at = rng.randrange(21, len(GOOD))
            flipped = GOOD[:at] + bytes([GOOD[at] ^ 1 + rng.randrange(255)]) + GOOD[at + 1 :]
            codec = rng.randrange(6)
            field = rng.choice(("records", "last", "attributes", "size", "magic"))
            for raw in (
                flipped,
                changed(GOOD, **{field: rng.randrange(-128, 128) or 77} if field == "magic"
                        else {field: rng.randrange(64, 1 << 15)}),
                with_body(rng.randbytes(rng.randrange(300)), attributes=codec),
                rng.randbytes(rng.randrange(300)),
            ):  # fmt: skip
                send(wire, topic, raw)
                assert await code_of(wire) != ErrorCode.none


async def frames(port: int, topic: str, rng: random.Random) -> None:
    """Send frames of any key and version with garbage after the head, and sizes of up to 4 GB."""
    for _ in range(100):
        async with connected(port) as wire:
            key, version = rng.randrange(80), rng.randrange(12)
            head = key.to_bytes(2, "big") + version.to_bytes(2, "big") + bytes(4) + b"\0\1x"
            frame = head + rng.randbytes(rng.randrange(200))
            size = rng.choice((len(frame), rng.randrange(FRAME_BYTES_MAX + 1, 1 << 32)))
            wire.writer.write(size.to_bytes(4, "big") + frame)
            wire.writer.write_eof()
            async with asyncio.timeout(NOW_S):
                await wire.reader.read()


async def halves(port: int, topic: str, rng: random.Random) -> None:
    """Pipeline whole requests and half of one, and disconnect."""
    for _ in range(15):
        async with connected(port) as wire:
            for _ in range(rng.randrange(5)):
                send(wire, topic, BOMBS[-1])
            claim = rng.randrange(100, FRAME_BYTES_MAX).to_bytes(4, "big")
            wire.writer.write(claim + rng.randbytes(99))
            await wire.writer.drain()


@pytest.fixture(scope="module")
def group(port: int) -> Iterator[LocalCluster]:
    """Yield a node that closes silent connections early."""
    settings = (
        "--kafka-listen", f"127.0.0.1:{port}", "--first-request-timeout-s", "2",
        "--body-timeout-s", "2",
    )  # fmt: skip
    with LocalCluster(1, settings=settings) as nodes:
        yield nodes


@pytest.fixture
async def topic(http: aiohttp.ClientSession) -> str:
    return (await created(http)).rpartition("/")[2]


@pytest.mark.parametrize("attack", [bombs, headers, batches, frames, halves])
async def test_a_good_client_is_served_beside_hostile_ones(
    group: LocalCluster, http: aiohttp.ClientSession, port: int, topic: str, attack: Attack
) -> None:
    [node] = group.nodes
    assert node.process is not None
    wrong = (await created(http)).rpartition("/")[2]
    async with connected(port) as good, asyncio.TaskGroup() as hostile:
        await served_s(good, topic)
        before = resident_bytes(node.process.pid)
        attackers = [
            hostile.create_task(attack(port, wrong, random.Random(seed))) for seed in range(3)
        ]
        slowest_s, sent = 0.0, 1
        while not all(each.done() for each in attackers) or sent < 10:
            slowest_s, sent = max(slowest_s, await served_s(good, topic)), sent + 1
    assert slowest_s < STALL_S
    assert resident_bytes(node.process.pid) - before < GROWTH_BYTES_MAX
    for name, count in ((topic, sent), (wrong, 0)):
        found = await read(http, f"/core/streams/{name}/partitions/0", "?maxBytes=8000000")
        assert len(found["records"]) == count
    log = (node.data / "log.txt").read_text()
    assert "Traceback" not in log, log[log.find("Traceback") - 500 : log.find("Traceback") + 3500]


@pytest.mark.thorough
async def test_a_good_client_is_served_beside_a_thousand_silent_ones(
    group: LocalCluster, port: int, topic: str
) -> None:
    [node] = group.nodes
    assert node.process is not None
    async with connected(port) as good, AsyncExitStack() as stack:
        await served_s(good, topic)
        before = resident_bytes(node.process.pid)
        silent = [await stack.enter_async_context(connected(port)) for _ in range(SILENT)]
        for each in silent[::3]:
            each.writer.write(b"\0\0\0\x20\0\0")
        assert await served_s(good, topic) < STALL_S
        assert resident_bytes(node.process.pid) - before < GROWTH_BYTES_MAX
        for each in silent[::100]:
            assert await each.is_closed()
            assert await served_s(good, topic) < STALL_S
        for each in silent:
            assert await each.is_closed()
