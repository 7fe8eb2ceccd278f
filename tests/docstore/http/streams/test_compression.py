"""A compressed topic is smaller when stored and sent, with the same records for all readers."""

import asyncio
import json
from typing import Any

from docstore.client import Client, LocalCluster
from docstore.model.streams_batch import CODEC, ZSTD, BatchHeader, header_of, unframed
from tests.docstore.http.streams.asking import Session, created, posted, read, values
from tests.fork_server import SERVER

VALUES = [{"origin": "MUC", "destination": "HAM", "delay": n} for n in range(200)]
RECORDS = {"records": [{"key": f"LH{n}", "value": each} for n, each in enumerate(VALUES)]}


async def test_records_are_stored_compressed_and_read_uncompressed(
    group: LocalCluster, node: Session
) -> None:
    topic = await created(node, compression="zstd")
    path, name = f"{topic}/partitions/0", topic.rpartition("/")[2]
    assert (await posted(node, f"{path}/records", RECORDS))["count"] == 200
    for url in group.urls:
        async with Session(url) as other:
            for consistency in ("linearizable", "stale"):
                found = await read(other, path, "?waitMs=5000", Docstore_Consistency=consistency)
                assert values(found) == VALUES
    [(header, raw)] = await _stored(node, path)
    assert header.flags & CODEC == ZSTD
    assert len(raw) < 0.25 * len(json.dumps(RECORDS))
    async with node.get(f"{path}/records/7") as response:
        assert (await response.json())["value"] == VALUES[7]
    events = {"Accept": "text/event-stream", "Last-Event-ID": "198"}
    async with node.get(f"{path}/records", headers=events) as response:
        found_event = await _until(response.content, b"data: ")
        assert json.loads(found_event)["value"] == VALUES[199]
    async with Client(group.urls) as client:
        seen = [each async for each in client.consume(name, partition=0, follow=False)]
        assert [each.value for each in seen] == VALUES
        assert [each.offset for each in seen] == list(range(200))
    shown = SERVER.run("consume", name, "--once", "--url", group.urls[1]).stdout
    assert [json.loads(line) for line in shown.splitlines()] == VALUES


async def test_an_answer_is_bounded_by_its_uncompressed_size(node: Session) -> None:
    path = f"{await created(node, compression='zstd')}/partitions/0"
    for _ in range(3):
        await posted(node, f"{path}/records", RECORDS)
    stored = sum(len(raw) for _, raw in await _stored(node, path))
    found = await read(node, path, f"?maxBytes={stored}")
    assert found["next"] == len(found["records"]) == 200
    rest = await read(node, path, f"?from=200&maxBytes={stored}&maxRecords=50")
    assert [each["offset"] for each in rest["records"]] == list(range(200, 250))
    assert len((await read(node, path))["records"]) == 600


async def test_a_change_of_compression_applies_to_new_batches_and_keeps_retries(
    group: LocalCluster, node: Session
) -> None:
    topic = await created(node)
    path = f"{topic}/partitions/0"
    name, url = topic.rpartition("/")[2], group.urls[0]
    assert SERVER.run("topic", "alter", name, "--compression", "zstd", "--url", url).returncode == 0
    sequence = 0
    async with asyncio.timeout(20):
        while True:
            number = f"p; epoch=0; sequence={sequence}"
            first = await posted(node, f"{path}/records", RECORDS, Docstore_Producer=number)
            again = await posted(node, f"{path}/records", RECORDS, Docstore_Producer=number)
            assert (again["base"], again["repeated"]) == (first["base"], True)
            batches = await _stored(node, path)
            if batches[-1][0].flags & CODEC:
                break
            sequence += 1
    assert all(header.records == 200 for header, _ in batches)
    async with node.patch(topic, json={"compression": "lz4"}) as response:
        assert response.status == 400
        assert "none, zstd" in (await response.json())["detail"]


async def _stored(node: Session, path: str) -> list[tuple[BatchHeader, bytes]]:
    accept = {"Accept": "application/vnd.docstore.batches"}
    async with node.get(f"{path}/records?maxBytes=8000000", headers=accept) as response:
        return [(header_of(raw), raw) for raw in unframed(await response.read())]


async def _until(lines: Any, beginning: bytes) -> bytes:
    async with asyncio.timeout(10):
        async for line in lines:
            if line.startswith(beginning):
                return bytes(line.removeprefix(beginning))
    raise AssertionError("the stream has ended")
