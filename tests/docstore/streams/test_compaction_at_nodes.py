"""A million records of a thousand keys, compacted by three nodes while their leaders are killed."""

import asyncio
import time
from collections import Counter
from collections.abc import Iterator

import pytest

from docstore.client import Client, LocalCluster
from docstore.client.local import LocalNode
from docstore.model.streams_batch import header_of, unframed
from docstore.streams.forms import records_of
from tests.docstore.watching import page_of

RECORDS = 1_000_000
KEYS = 1_000
PRODUCERS = 4
BATCH = 500
KILL_EVERY = 80_000
"""Records between two deaths of leaders."""
PATIENCE_S = 300.0

Log = list[tuple[int, bytes | None, bytes | None]]


@pytest.fixture
def group() -> Iterator[LocalCluster]:
    with LocalCluster(3, settings=("--streams-retention-check-s", "1")) as nodes:
        yield nodes


async def produce(
    client: Client, number: int, last: dict[str, int], sent: Counter[int], killed: list[str]
) -> None:
    """Write records of keys of its own, one after the other; note the last value of each."""
    async with client.producer("large", id=f"p{number}", batch=BATCH) as producer:
        for turn in range(RECORDS // PRODUCERS):
            while turn % BATCH == 0 and sent.total() > KILL_EVERY * (len(killed) + 2):
                await asyncio.sleep(0.05)  # However slow the deaths are, there are as many.
            key = f"k{(turn * 7 % (KEYS // PRODUCERS)) * PRODUCERS + number}"
            last[key] = turn
            sent[number] += 1
            await producer.send(key, {"turn": turn, "text": "x" * 80})


async def kill_leaders(
    group: LocalCluster, path: str, sent: Counter[int], killed: list[str]
) -> None:
    """Kill the leader again and again, and start it."""
    while len(killed) < RECORDS // KILL_EVERY:
        await asyncio.sleep(0.05)
        if sent.total() < KILL_EVERY * (len(killed) + 1):
            continue
        await asyncio.to_thread(group.wait_ready)
        page = await asyncio.to_thread(page_of, f"{group.urls[0]}{path}/partitions")
        leader = page.get("partitions", [{}])[0].get("leader")
        if leader:
            await asyncio.to_thread(group.kill, group.node(leader))
            group.start(group.node(leader))
            killed.append(leader)


async def log_at(node: LocalNode, path: str) -> tuple[Log, int]:
    """Return the records at a node's own replica, and the bytes of its batches."""
    found: Log = []
    size, since = 0, "beginning"
    async with Client([node.url]) as client:
        while True:
            status, headers, content = await client.once(
                node.url, "GET", f"{path}/partitions/0/records?from={since}&maxBytes=8388608", b"",
                {"Accept": "application/vnd.docstore.batches", "Docstore-Consistency": "stale"},
                timeout_s=30,
            )  # fmt: skip
            if status != 200 or headers["Docstore-Next"] == headers["Docstore-From"]:
                return found, size
            since = headers["Docstore-Next"]
            for raw in unframed(content):
                size += len(raw)
                found += [
                    (offset, record.key, record.value)
                    for offset, record in records_of(header_of(raw), raw)
                ]


@pytest.mark.slow
async def test_a_million_records_of_a_thousand_keys_become_a_thousand(group: LocalCluster) -> None:
    path, last, sent = "/core/streams/large", dict[str, int](), Counter[int]()
    killed: list[str] = []
    async with Client(group.urls) as client:
        await client.json("POST", "/core/streams", {"name": "large", "cleanup": "compact"})
        began = time.monotonic()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(kill_leaders(group, path, sent, killed))
            for number in range(PRODUCERS):
                tasks.create_task(produce(client, number, last, sent, killed))
        took_s = time.monotonic() - began
    await asyncio.to_thread(group.wait_ready)
    began = time.monotonic()
    for node in group.nodes:
        async with asyncio.timeout(PATIENCE_S):
            log, size = await log_at(node, path)
            while not KEYS <= len(log) <= KEYS + 2 * BATCH or log[-1][0] < RECORDS - 1:
                await asyncio.sleep(0.05)
                log, size = await log_at(node, path)
        seen = {key.decode(): value for _, key, value in log if key is not None}
        assert seen.keys() == last.keys()
        for key, turn in last.items():
            assert (seen[key] or b"").startswith(b'{"turn":%d,' % turn), key
        assert [offset for offset, _, _ in log] == sorted({offset for offset, _, _ in log})
        assert size < 1 << 20
        print(f"{node.name}: {len(log)} records in {size} bytes")
    print(
        f"{RECORDS / took_s:.0f} records/s, {len(killed)} leaders killed, then"
        f" {time.monotonic() - began:.0f} s until all were compacted"
    )
