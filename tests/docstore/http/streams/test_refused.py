"""Requests to streams that are refused over HTTP, and their problems."""

import asyncio
import json
import re
from typing import Any

import aiohttp
import msgpack
import pytest
from yarl import URL

from tests.docstore.http.problem import problem_of
from tests.docstore.http.streams.asking import NDJSON, Session, created, read

KIB_300 = "x" * 300
WRONG_TOPICS: dict[str, tuple[Any, int]] = {
    "no name": ({}, 400),
    "a slash": ({"name": "a/b"}, 400),
    "NUL": ({"name": "a\x00b"}, 400),
    "300 characters": ({"name": KIB_300}, 400),
    "a percent sign": ({"name": "a%00b"}, 400),
    "no partitions": ({"name": "a", "partitions": 0}, 400),
    "a partition and a half": ({"name": "a", "partitions": 1.5}, 400),
    "more in sync than replicas": ({"name": "a", "replicationFactor": 2, "minInSync": 3}, 400),
    "an unknown member": ({"name": "a", "colour": "red"}, 400),
    "no object": ([], 400),
}


@pytest.mark.parametrize("what", WRONG_TOPICS)
async def test_an_invalid_topic_is_refused(node: Session, what: str) -> None:
    body, status = WRONG_TOPICS[what]
    async with node.post("/core/streams", json=body) as response:
        assert (await problem_of(response, status))["outcome"] == "not_applied"


NOT_THERE = {
    "GET /core/streams/nobody": 404,
    "DELETE /core/streams/nobody": 404,
    "GET /core/streams/nobody/partitions": 404,
    "GET /core/streams/nobody/partitions/0": 404,
    "POST /core/streams/nobody/records": 404,
    "POST /core/streams/nobody/partitions/0/records": 404,
    "GET /core/streams/nobody/partitions/0/records": 404,
    "GET /core/streams/nobody/partitions/0/records/0": 404,
    "GET {topic}/partitions/9": 404,
    "GET {topic}/partitions/9/records": 404,
    "GET {topic}/partitions/01/records": 404,
    "GET {topic}/partitions/x/records": 404,
    "GET {topic}/partitions/-1": 404,
    "GET {topic}/partitions/99999999999999999999": 404,
    "POST {topic}/partitions/9/records": 404,
    "GET {topic}/nothing": 404,
    "GET {topic}/partitions/0/records/x": 404,
    "GET {topic}/partitions/0/records/0": 404,
    "GET {topic}/partitions/0/records/00": 404,
    "GET {topic}/partitions/0/records?from=7": 416,
    "GET {topic}/partitions/0/records?from=x": 400,
    "GET {topic}/partitions/0/records?from=-1": 400,
    "GET {topic}/partitions/0/records?from=end-": 400,
    "GET {topic}/partitions/0/records?from=2020-01-01": 400,
    "GET {topic}/partitions/0/records?maxBytes=0": 400,
    "GET {topic}/partitions/0/records?waitMs=999999999": 400,
    "GET {topic}/partitions/0/records?isolation=dirty": 400,
    "GET {topic}/partitions/0/records?offset=1": 400,
    "GET /core/streams/a%00b": 400,
    "GET /core/streams/a%2Fb": 400,
    "GET /core/streams/" + KIB_300: 400,
    "POST /core/streams/a%00b/records": 400,
    "PUT {topic}": 405,
    "PUT {topic}/partitions/0": 405,
    "POST {topic}/partitions": 405,
    "DELETE {topic}/partitions/0": 405,
    "PUT {topic}/records": 405,
    "POST {topic}/records?acks=all": 400,
}


@pytest.mark.parametrize("what", NOT_THERE)
async def test_a_missing_path_or_malformed_query_has_its_status(
    node: Session, topic: str, what: str
) -> None:
    method, _, path = what.replace("{topic}", topic).partition(" ")
    body = json.dumps({"value": 1}) if method in ("POST", "PUT") else None
    headers = {"Content-Type": "application/json"} if body else {}
    url = URL(path, encoded=True)
    async with node.request(method, url, data=body, headers=headers) as found:
        problem = await problem_of(found, NOT_THERE[what])
    assert problem["outcome"] == "not_applied"


WRONG_RECORDS: dict[str, tuple[str, bytes, int, str]] = {
    "value is required": ("application/json", b'{"key": "a"}', 400, "`value` must be given"),
    "an unknown member": ("application/json", b'{"value": 1, "x": 2}', 400, "x"),
    "a key that is a number": ("application/json", b'{"key": 1, "value": 2}', 400, "key"),
    "no JSON": ("application/json", b"{", 400, ""),
    "nothing": ("application/json", b"", 400, ""),
    "no record": ("application/json", b'{"records": []}', 400, "no record"),
    "a broken record": ("application/json", b'{"records": [{"value":1},{}]}', 400, "record 1"),
    "a broken line": ("application/x-ndjson", b'{"value":1}\n\n{"value"\n', 400, "line 3"),
    "empty lines": ("application/x-ndjson", b"\n\n", 400, "no record"),
    "half a batch": (
        "application/msgpack", msgpack.packb([None, b"1", None, None]) * 2 + b"\x94\xc0", 400,
        "record 2",
    ),
    "msgpack of something else": ("application/msgpack", msgpack.packb({"a": 1}), 400, "record 0"),
    "headers that are a map": (
        "application/msgpack", msgpack.packb([None, b"1", {"a": b"b"}, None]), 400,
        "record 0: headers must be a list of [name, bytes]",
    ),
    "an oversize record": (
        "application/json", b'{"value":"%b"}' % (b"x" * 3000), 413, "at most 2048 bytes",
    ),
    "an oversize batch": (
        "application/x-ndjson", b'{"partition":0,"value":"%b"}\n' % (b"x" * 900) * 3, 413, "batch",
    ),
    "a form": ("application/x-www-form-urlencoded", b"value=1", 415, ""),
}  # fmt: skip


@pytest.fixture(scope="module")
def small() -> list[str]:
    """Return a list for the path of a topic with batches of at most 2 KiB, empty until created."""
    return []


@pytest.mark.parametrize("what", WRONG_RECORDS)
async def test_an_invalid_record_is_refused(node: Session, small: list[str], what: str) -> None:
    if not small:
        small.append(await created(node, batchBytesMax=2048))
    media, body, status, detail = WRONG_RECORDS[what]
    async with node.post(
        f"{small[0]}/records", data=body, headers={"Content-Type": media}
    ) as response:
        problem = await problem_of(response, status)
    assert problem["outcome"] == "not_applied"
    assert detail in problem["detail"]


NUMBERED_WITHOUT_A_PARTITION: dict[str, Any] = {
    "neither key nor partition": {"value": 1},
    "a key, which more partitions move": {"key": "a", "value": 1},
    "a partition in the record": {"value": 1, "partition": 0},
    "two partitions": {"records": [{"value": 1, "partition": 0}, {"value": 2, "partition": 1}]},
}


@pytest.mark.parametrize("what", NUMBERED_WITHOUT_A_PARTITION)
async def test_a_numbered_request_names_its_partition_in_the_path(
    node: Session, topic: str, what: str
) -> None:
    body, number = NUMBERED_WITHOUT_A_PARTITION[what], "p; epoch=1; sequence=0"
    async with node.post(
        f"{topic}/records", json=body, headers={"Docstore-Producer": number}
    ) as response:
        problem = await problem_of(response, 400)
    assert problem["errorCode"] == "producer-needs-a-partition"
    assert f"{topic}/partitions/<n>/records" in problem["detail"]
    for partition in (0, 1):
        assert (await read(node, f"{topic}/partitions/{partition}"))["leo"] == 0


async def test_a_malformed_producer_number_is_refused(node: Session, topic: str) -> None:
    for wrong in ("p", "p; epoch=1", "p; sequence=0; epoch=1", "p; epoch=\u0661; sequence=0"):
        async with node.post(
            f"{topic}/partitions/0/records", json={"value": 1}, headers={"Docstore-Producer": wrong}
        ) as response:
            await problem_of(response, 400)


@pytest.mark.parametrize("name", ["Idempotency-Key", "Docstore-Quorum", "Fence"])
async def test_headers_for_documents_are_refused_with_records(
    node: Session, topic: str, name: str
) -> None:
    said = {"Idempotency-Key": "k", "Docstore-Quorum": "all", "Fence": "a:1"}[name]
    body = {"value": 1, "partition": 0}
    async with node.post(f"{topic}/records", json=body, headers={name: said}) as response:
        assert name in (await problem_of(response, 400))["detail"]


async def test_a_partition_without_enough_nodes_exists_without_a_leader(node: Session) -> None:
    topic = "/core/streams/wide"
    async with node.post("/core/streams", json={"name": "wide", "replicationFactor": 4}) as made:
        assert made.status == 202
        assert made.headers["Location"] == topic
    for method, path in (
        ("GET", f"{topic}/partitions/0"),
        ("GET", f"{topic}/partitions/0/records"),
        ("GET", f"{topic}/partitions/0/records/0"),
        ("POST", f"{topic}/partitions/0/records"),
        ("POST", f"{topic}/records"),
    ):
        body = {"value": 1} if method == "POST" else None
        async with node.request(method, path, json=body) as response:
            assert (await problem_of(response, 503))["errorCode"] == "no-leader", path


async def test_documents_of_streams_are_not_written_as_documents(node: Session, topic: str) -> None:
    line = json.dumps({"op": "PUT", "link": f"{topic}/partitions/0", "body": {}}) + "\n"
    async with node.post("/core/bulk", data=line, headers=NDJSON) as response:
        [result] = [json.loads(each) for each in (await response.text()).splitlines()]
    assert result["status"] == 405
    for command in ({"kind": "Explode"}, {"kind": "MoveRequest", "replicas": []}, {}):
        async with node.patch(f"{topic}/partitions/0", json=command) as response:
            await problem_of(response, 400)


async def test_a_page_of_another_site_cannot_append(node: Session, topic: str) -> None:
    async with node.post(
        f"{topic}/records", json={"value": 1}, headers={"Origin": "http://evil.example"}
    ) as response:
        assert (await problem_of(response, 403))["errorCode"] == "cross-site"


async def test_long_polls_end_with_their_connections(node: Session, topic: str) -> None:
    async def measured(name: str) -> float:
        async with node.get("/metrics") as response:
            found = re.search(rf"^{name} (\S+)$", await response.text(), re.MULTILINE)
            assert found is not None
            return float(found[1])

    async def polled(client: Session, target: str, media: str) -> None:
        async with client.get(target, headers={"Accept": media}) as response:
            await response.read()

    before = await measured("docstore_tasks")
    wants = ("partitions/0/records?from=end&waitMs=30000", "partitions/1/records?waitMs=30000")
    async with aiohttp.ClientSession(node._base_url) as gone:
        polls = [
            asyncio.create_task(polled(gone, f"{topic}/{each}", media))
            for each in wants
            for media in ("application/json", "text/event-stream")
            for _ in range(10)
        ]
        async with asyncio.timeout(20):
            while await measured("docstore_http_waiting") < len(polls):
                await asyncio.sleep(0.02)
        for each in polls:
            each.cancel()
    async with asyncio.timeout(20):
        while await measured("docstore_http_waiting"):
            await asyncio.sleep(0.02)
        while await measured("docstore_tasks") > before + 5:
            await asyncio.sleep(0.02)
    await asyncio.gather(*polls, return_exceptions=True)
