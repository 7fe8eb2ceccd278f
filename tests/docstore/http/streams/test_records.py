"""Records over HTTP, in and out, on three real nodes."""

import asyncio
import json
from typing import Any

import aiohttp
import msgpack

from docstore.client import Client, LocalCluster
from docstore.http.consume import _events
from docstore.model.streams_batch import header_of, place_of, verified
from docstore.streams.effects import Records
from docstore.streams.replica_set import partition_name
from tests.docstore.http.problem import problem_of
from tests.docstore.http.streams.asking import (
    MSGPACK,
    NDJSON,
    Session,
    created,
    partitions,
    posted,
    read,
    values,
)
from tests.docstore.reads.events import events

# Records in


async def test_records_are_read_at_each_node_in_offset_order(
    group: LocalCluster, node: Session, topic: str
) -> None:
    path = f"{topic}/partitions/0"
    for number in range(3):
        body = {"key": "k", "value": {"n": number}, "headers": {"by": "test"}}
        answer = await posted(node, f"{path}/records", body)
        assert (answer["partition"], answer["base"], answer["count"]) == (0, number, 1)
        assert answer["hw"] == answer["leo"] == number + 1
    for url in group.urls:
        async with Session(url) as other:
            found = await read(other, path)
            assert [each["offset"] for each in found["records"]] == [0, 1, 2]
            assert values(found) == [{"n": 0}, {"n": 1}, {"n": 2}]
            first = found["records"][0]
            assert (first["key"], first["headers"]) == ("k", {"by": "test"})
            assert (found["next"], found["hw"], found["leo"], found["base"]) == (3, 3, 3, 0)


async def test_lines_of_json_and_msgpack_are_records_too(node: Session, topic: str) -> None:
    path = f"{topic}/partitions/1"
    lines = b'{"value": 1}\n\n{"key": "a", "value": [2]}\n'
    async with node.post(f"{path}/records", data=lines, headers=NDJSON) as response:
        assert (await response.json())["count"] == 2
    packed = msgpack.packb([b"a", b'{"n":3}', None, 77]) + msgpack.packb([None, b"\xff", [], None])
    async with node.post(f"{path}/records", data=packed, headers=MSGPACK) as response:
        assert (await response.json())["base"] == 2
    found = (await read(node, path))["records"]
    assert [each.get("value") for each in found] == [1, [2], {"n": 3}, None]
    assert found[2]["timestampMicros"] == 77
    assert found[3]["valueBase64"] == "/w=="


async def test_a_tombstone_is_a_record_without_a_value(
    group: LocalCluster, node: Session, topic: str
) -> None:
    path = f"{topic}/partitions/1"
    await posted(node, f"{path}/records", {"key": "a", "tombstone": True})
    packed = msgpack.packb([b"b", None, None, None])
    async with node.post(f"{path}/records", data=packed, headers=MSGPACK) as response:
        assert (await response.json())["base"] == 1
    found = (await read(node, path))["records"]
    assert [(each["key"], each["tombstone"], "value" in each) for each in found] == [
        ("a", True, False),
        ("b", True, False),
    ]
    async with node.get(f"{path}/records/1") as response:
        assert (await response.json())["tombstone"] is True
    async with Client(group.urls) as client:
        name = topic.rpartition("/")[2]
        seen = [each async for each in client.consume(name, partition=1, follow=False)]
    assert [(each.key, each.raw_value, each.value) for each in seen] == [
        ("a", None, None),
        ("b", None, None),
    ]
    async with node.post(f"{path}/records", json={"key": "a"}) as response:
        assert "tombstone" in (await problem_of(response, 400))["detail"]


async def test_records_of_a_key_go_to_one_partition_and_the_answer_lists_parts(
    node: Session, topic: str
) -> None:
    records = [{"key": f"k{number % 8}", "value": number} for number in range(32)]
    answer = await posted(node, f"{topic}/records", {"records": records})
    assert sorted(part["partition"] for part in answer["parts"]) == [0, 1]
    assert sorted(index for part in answer["parts"] for index in part["records"]) == [*range(32)]
    packed = b"".join(msgpack.packb([b"k3", b"1", None, None]) for _ in range(2))
    async with node.post(f"{topic}/records", data=packed, headers=MSGPACK) as response:
        assert (await response.json())["count"] == 2
    by_key: dict[str, set[int]] = {}
    for number in (0, 1):
        for record in (await read(node, f"{topic}/partitions/{number}"))["records"]:
            by_key.setdefault(record["key"], set()).add(number)
    assert {len(found) for found in by_key.values()} == {1}


async def test_a_record_may_name_its_partition(node: Session, topic: str) -> None:
    for number in (1, 0):
        answer = await posted(node, f"{topic}/records", {"value": 0, "partition": number})
        assert answer["partition"] == number


async def test_a_numbered_request_is_appended_once(node: Session, topic: str) -> None:
    path = f"{topic}/partitions/0/records"
    first = await posted(node, path, {"value": 1}, Docstore_Producer="p; epoch=1; sequence=0")
    again = await posted(node, path, {"value": 1}, Docstore_Producer="p; epoch=1; sequence=0")
    assert again["repeated"] is True
    assert again["base"] == first["base"]
    await posted(node, path, {"value": 2}, Docstore_Producer="p; epoch=1; sequence=1")
    assert values(await read(node, f"{topic}/partitions/0")) == [1, 2]


async def test_wrong_producer_numbers_are_refused_by_code(node: Session, topic: str) -> None:
    path = f"{topic}/partitions/0/records"
    for sequence in range(7):
        number = f"p; epoch=2; sequence={sequence}"
        await posted(node, path, {"value": sequence}, Docstore_Producer=number)
    for number, code in {
        "p; epoch=1; sequence=9": "producer-fenced",
        "p; epoch=2; sequence=9": "sequence-gap",
        "p; epoch=2; sequence=0": "stale-sequence",
        "q; epoch=1; sequence=4": "unknown-producer",
    }.items():
        async with node.post(
            path, json={"value": 0}, headers={"Docstore-Producer": number}
        ) as response:
            problem = await problem_of(response, 409)
        assert (problem["errorCode"], problem["outcome"]) == (code, "not_applied")


async def test_each_request_for_a_producer_id_raises_its_epoch(
    group: LocalCluster, node: Session
) -> None:
    epochs = []
    for url in group.urls:
        async with (
            Session(url) as other,
            other.post("/core/producers", json={"id": "loader"}) as response,
        ):
            epochs.append((await response.json())["epoch"])
    assert epochs == [1, 2, 3]
    async with node.delete("/core/producers/loader") as response:
        assert response.status == 200
    async with node.post("/core/producers", json={"id": "loader"}) as response:
        assert (await response.json())["epoch"] > 3, "the one before would fence its successor"
    for body in ({}, {"id": "a/b"}, {"id": "a", "epoch": 9}, []):
        async with node.post("/core/producers", json=body) as response:
            await problem_of(response, 400)
    for method in ("PUT", "PATCH"):  # A lower epoch would revive fenced producers.
        async with node.request(method, "/core/producers/loader", json={"epoch": 1}) as response:
            await problem_of(response, 405)


# Records out


async def test_a_read_starts_at_the_requested_position(node: Session, topic: str) -> None:
    path = f"{topic}/partitions/0"
    for number in range(5):
        await posted(node, f"{path}/records", {"value": number})
    first = (await read(node, path))["records"]
    at = first[3]["timestampMicros"]
    for query, expected in {
        "?from=3": [3, 4],
        "?from=beginning&maxRecords=2": [0, 1],
        "?from=end-2": [3, 4],
        "?from=end": [],
        f"?from=@{at}": [3, 4],
        "?from=2020-01-01T00:00:00Z": [0, 1, 2, 3, 4],
        "?from=5": [],
        "?isolation=uncommitted&from=4": [4],
    }.items():
        assert values(await read(node, path, query)) == expected, query
    page = await read(node, path, "?maxRecords=2")
    assert values(await read(node, path, f"?from={page['next']}&maxRecords=2")) == [2, 3]


async def test_the_last_line_gives_the_next_offset(node: Session, topic: str) -> None:
    path = f"{topic}/partitions/0"
    await posted(node, f"{path}/records", {"value": 1})
    async with node.get(f"{path}/records") as response:
        assert response.content_type == "application/x-ndjson"
        record, ending = [json.loads(line) for line in (await response.text()).splitlines()]
        assert response.headers["Docstore-Next"] == "1"
    assert record["value"] == 1
    expected = {"complete": True, "next": 1, "hw": 1, "leo": 1, "base": 0}
    expected["incarnation"] = await _incarnation(node, topic)
    assert ending == expected | {"epoch": ending["epoch"]}


async def test_sealed_batches_are_returned_as_stored(node: Session, topic: str) -> None:
    path = f"{topic}/partitions/0"
    await posted(node, f"{path}/records", {"records": [{"value": 1}, {"value": 2}]})
    async with node.get(topic) as response:
        incarnation = (await response.json())["incarnation"]
    accept = {"Accept": "application/vnd.docstore.batches"}
    async with node.get(f"{path}/records", headers=accept) as response:
        content = await response.read()
        assert response.headers["Docstore-Next"] == response.headers["Docstore-Hw"] == "2"
    size = int.from_bytes(content[:4], "big")
    assert len(content) == 4 + size
    header = verified(content[4:], place_of(partition_name(path, incarnation)))
    assert (header.base, header.records) == (0, 2)
    assert header == header_of(content[4:])


async def test_a_waiting_read_returns_with_the_first_record(
    group: LocalCluster, node: Session, topic: str
) -> None:
    path = f"{topic}/partitions/0"
    await posted(node, f"{path}/records", {"value": 0})
    async with Session(group.urls[1]) as one, Session(group.urls[2]) as other:
        waiting = [
            asyncio.create_task(read(one, path, "?from=1&waitMs=15000")),
            asyncio.create_task(read(other, path, "?from=end", Prefer="wait=15")),
        ]
        # The reader from `end` must wait before the record is appended.
        done, _ = await asyncio.wait(waiting, timeout=0.3)
        assert not done
        token = await posted(node, f"{path}/records", {"value": 1})
        async with asyncio.timeout(5):
            found = await asyncio.gather(*waiting)
    assert [values(each) for each in found] == [[1], [1]]
    assert token["base"] == 1
    assert values(await read(node, path, "?from=2&waitMs=10")) == []


async def test_events_continue_after_the_last_event_id(node: Session, topic: str) -> None:
    path = f"{topic}/partitions/0"
    await posted(node, f"{path}/records", {"records": [{"value": 0}, {"value": 1}]})
    accept = {"Accept": "text/event-stream", "Last-Event-ID": "0"}
    async with node.get(f"{path}/records", headers=accept) as response:
        assert response.content_type == "text/event-stream"
        assert await _next_event(response) == (f"1@{await _incarnation(node, topic)}", 1)
        await posted(node, f"{path}/records", {"value": 2})
        assert await _next_event(response) == (f"2@{await _incarnation(node, topic)}", 2)


async def _incarnation(node: Session, topic: str) -> str:
    async with node.get(topic) as response:
        return str((await response.json())["incarnation"])


async def test_a_deleted_topic_ends_its_events_with_a_problem(
    group: LocalCluster, node: Session, topic: str
) -> None:
    accept = {"Accept": "text/event-stream"}
    await posted(node, f"{topic}/partitions/0/records", {"value": 0})
    async with node.get(f"{topic}/partitions/0/records", headers=accept) as response:
        assert (await _next_event(response))[1] == 0
        async with node.delete(topic) as deleted:
            assert deleted.status == 200
        async with asyncio.timeout(20):
            ending = (await response.text()).split("\n")
    said = json.loads(ending[ending.index("event: problem") + 1].removeprefix("data: "))
    assert (said["status"], said["errorCode"]) == (404, "no-such-topic")
    assert topic.rpartition("/")[2] in said["detail"]
    assert "Traceback" not in (group.nodes[0].data / "log.txt").read_text()


async def test_a_position_in_a_recreated_topic_is_refused_by_code(
    node: Session, topic: str
) -> None:
    path, before = f"{topic}/partitions/0", await _incarnation(node, topic)
    await posted(node, f"{path}/records", {"records": [{"value": n} for n in range(3)]})
    page = await read(node, path)
    assert page["incarnation"] == before
    async with node.get(f"{path}/records/0?incarnation={before}") as response:
        first, tag = await response.json(), response.headers["ETag"]
    async with node.delete(topic) as deleted:
        assert deleted.status == 200
    body = {"name": topic.rpartition("/")[2], "partitions": 2}
    async with node.post("/core/streams", json=body) as made:
        assert made.status == 201, await made.text()
    after = await _incarnation(node, topic)
    await posted(node, f"{path}/records", {"records": [{"value": 10 + n} for n in range(5)]})
    for query, seen in (
        (f"?from=3&incarnation={before}", ""),
        (f"?from=9&incarnation={before}&waitMs=100", ""),
        ("", f"2@{before}"),
    ):
        accept = {"Accept": "text/event-stream", "Last-Event-ID": seen} if seen else {}
        async with node.get(f"{path}/records{query}", headers=accept) as response:
            problem = await problem_of(response, 410)
        assert (problem["errorCode"], problem["incarnation"]) == ("topic-recreated", after)
        assert before in problem["detail"]
    assert values(await read(node, path, f"?from=3&incarnation={after}")) == [13, 14]
    async with node.get(f"{path}/records/0?incarnation={before}") as response:
        assert (await problem_of(response, 410))["errorCode"] == "topic-recreated"
    async with node.get(f"{path}/records/0", headers={"If-None-Match": tag}) as response:
        assert response.status == 200, "a cache held the record of the topic before"
        assert (await response.json())["value"] != first["value"]
        assert response.headers["Cache-Control"] == "no-cache"


async def test_an_event_stream_sends_its_position_before_the_first_record(
    node: Session, topic: str
) -> None:
    path = f"{topic}/partitions/0/records"
    accept = {"Accept": "text/event-stream"}
    for number in range(2):  # First with an empty partition: its first record must be seen.
        async with node.get(f"{path}?from=end", headers=accept) as response:
            async for event in events(response):
                if "id" in event:
                    break
        await posted(node, path, {"value": number})
        last = accept | {"Last-Event-ID": event["id"]}
        async with node.get(f"{path}?from=end", headers=last) as response:
            expected = f"{number}@{await _incarnation(node, topic)}"
            assert await _next_event(response) == (expected, number)
    async with node.get(f"{path}?from=end", headers=accept | {"Last-Event-ID": ""}) as response:
        assert "Last-Event-ID" in (await problem_of(response, 400))["detail"]


def test_a_heartbeat_of_an_event_stream_has_its_position() -> None:
    found = Records([], 7, 7, high=9, end=9, start=0, epoch=1, incarnation="i1")
    assert b"\nid: 6@i1\n\n" in b"".join(_events(found))


async def _next_event(response: aiohttp.ClientResponse) -> tuple[str, Any]:
    seen = ""
    async with asyncio.timeout(10):
        async for line in response.content:
            name, _, rest = line.decode().strip().partition(": ")
            if name == "id":
                seen = rest
            elif name == "data":
                return seen, json.loads(rest)["value"]
    raise AssertionError("the stream has ended")


async def test_a_read_with_a_token_returns_the_record_of_the_token(
    node: Session, topic: str
) -> None:
    path = f"{topic}/partitions/0"
    async with node.post(f"{path}/records", json={"value": 0}) as response:
        token = response.headers["Docstore-Token"]
    assert values(await read(node, path, Docstore_Token=token)) == [0]
    epoch = token.partition(".")[0]
    async with node.get(f"{path}/records", headers={"Docstore-Token": f"{epoch}.9"}) as response:
        problem = await problem_of(response, 503)
    assert problem["errorCode"] == "not-committed-yet"


async def test_a_record_is_an_immutable_document(
    group: LocalCluster, node: Session, topic: str
) -> None:
    link = f"{topic}/partitions/0/records/0"
    await posted(node, f"{topic}/partitions/0/records", {"key": "a", "value": {"n": 1}})
    [partition, _] = await partitions(node, topic)
    async with node.get(f"{link}?incarnation={await _incarnation(node, topic)}") as response:
        page = await response.json()
        tag = response.headers["ETag"]
        assert "immutable" in response.headers["Cache-Control"]
    assert page["documentSelfLink"] == link
    assert (page["documentKind"], page["documentVersion"]) == ("docstore:Record", 0)
    assert page["documentOwner"] == partition["leader"]
    for url in group.urls[1:]:
        async with Session(url) as other, other.get(link) as response:
            assert await response.json() == page
    assert (page["key"], page["value"]) == ("a", {"n": 1})
    async with node.get(link, headers={"If-None-Match": tag}) as response:
        assert response.status == 304
    async with node.get(f"{topic}/partitions/0/records/1") as response:
        assert (await problem_of(response, 404))["errorCode"] == "no-such-record"
    for method in ("PUT", "PATCH", "DELETE"):
        async with node.request(method, link, json={}) as response:
            await problem_of(response, 405)
    async with node.get(link, headers={"Accept": "application/msgpack"}) as response:
        assert response.status == 200
        assert msgpack.unpackb(await response.read()) == page
        assert response.headers["ETag"] == tag[:-1] + '-m"'


async def test_a_read_waits_until_the_offset_of_its_token_is_committed(
    node: Session, topic: str
) -> None:
    path = f"{topic}/partitions/0"
    await posted(node, f"{path}/records", {"value": 0})
    clock = asyncio.get_running_loop().time
    began = clock()
    bounded = {"Docstore-Token": "1.1", "Docstore-Timeout-Ms": "300"}
    async with node.get(f"{path}/records", headers=bounded) as response:
        assert (await problem_of(response, 503))["errorCode"] == "not-committed-yet"
    assert clock() - began > 0.25
    reading = asyncio.create_task(read(node, path, Docstore_Token="1.1"))
    await posted(node, f"{path}/records", {"value": 1})
    assert values(await reading) == [0, 1]


async def test_an_evicted_offset_is_410_with_the_next_offset(node: Session) -> None:
    topic = await created(node, retention={"ms": 0, "bytes": 1})
    path = f"{topic}/partitions/0"
    await posted(node, f"{path}/records", {"value": 0})
    async with asyncio.timeout(20):
        while (await read(node, path))["base"] == 0:
            await posted(node, f"{path}/records", {"value": 1})
            await asyncio.sleep(0.05)
    base = (await read(node, path))["base"]
    for where in ("records?from=0", "records/0"):
        async with node.get(f"{path}/{where}") as response:
            problem = await problem_of(response, 410)
        assert problem["errorCode"] == "offset-evicted"
        assert problem["next"] >= base > 0
