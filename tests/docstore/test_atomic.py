"""Atomic batches on three real nodes: all lines or none, through any node."""

import asyncio
import gzip
import json
import os
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import msgpack
import pytest
import pytest_asyncio

from docstore.client import Client, LocalCluster, RequestFailed
from docstore.client.errors import ClientError, is_passing
from tests.docstore.watching import start_all

NDJSON = {"Content-Type": "application/x-ndjson"}
PATH = "/core/bulk?atomic=true"
ORDERS, LINES = "/orders:", "/order-lines:"
STRICT = {"type": "object", "properties": {"count": {"type": "integer"}}}


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(3, tmp_path_factory.mktemp("atomic"), ["--slots", "64"]) as group:
        yield group


@pytest.fixture
def cluster(group: LocalCluster) -> LocalCluster:
    start_all(group)
    return group


@pytest_asyncio.fixture
async def client(cluster: LocalCluster) -> AsyncIterator[Client]:
    async with Client(cluster.urls) as client:
        await client.declare(ORDERS)
        await client.declare(LINES, schema=STRICT)
        yield client


@pytest.fixture
def key(request: pytest.FixtureRequest) -> str:
    """A partition key that no other test uses."""
    return f"{request.node.name}-{os.getpid()}"


def order_of(key: str, **order: Any) -> list[dict[str, Any]]:
    """Return the lines of an order with two lines of its own."""
    return [
        {"link": f"{ORDERS}/{key}", "body": {"customer": "a", **order}},
        {"link": f"{LINES}/{key}~1", "body": {"count": 1, **order}},
        {"link": f"{LINES}/{key}~2", "body": {"count": 2, **order}},
    ]


async def refused(client: Client, lines: Any, status: int, **headers: str) -> dict[str, Any]:
    """Send a batch that is refused; return the problem."""
    body = lines
    if not isinstance(lines, bytes):
        body = b"\n".join(json.dumps(each).encode() for each in lines)
    with pytest.raises(RequestFailed) as failed:
        await client.request("POST", PATH, body, {**NDJSON, **headers})
    assert (failed.value.status, failed.value.outcome) == (status, "not_applied")
    return failed.value.problem


async def there(client: Client, key: str) -> list[int]:
    """Return the versions of an order and its lines, those that are there."""
    found = []
    for each in order_of(key):
        try:
            found.append((await client.get(each["link"])).version)
        except RequestFailed as error:
            if error.status != 404:
                raise
    return found


async def test_all_lines_are_made_at_one_time_in_one_slot(
    cluster: LocalCluster, client: Client, key: str
) -> None:
    made = await client.atomic(order_of(key))
    links = [each["link"] for each in order_of(key)]
    assert made == [{"link": link, "status": 201, "version": 0} for link in links]
    changed: list[dict[str, Any]] = [
        {"op": "PATCH", "link": links[1], "body": {"count": 5}, "ifVersion": 0},
        {"op": "DELETE", "link": links[2]},
        {"op": "POST", "link": f"{LINES}/{key}~3", "body": {"count": 7}},
    ]
    for url in cluster.urls:
        async with Client([url]) as one:
            assert await there(one, key) == [0, 0, 0]
    made = await client.atomic(changed)
    assert [(each["status"], each["version"]) for each in made] == [(200, 1), (200, 1), (201, 0)]
    assert (await client.get(links[1])).value["count"] == 5
    histories = [await client.history(link) for link in links[1:]]
    for version in (0, 1):
        times = {history[-1 - version]["documentUpdateTimeMicros"] for history in histories}
        assert len(times) == 1
    before = times.pop() - 1
    assert (await client.get(links[2], at=str(before))).value["count"] == 2
    pages = [await client.json("GET", f"{link}/explain") for link in (*links, changed[2]["link"])]
    assert {page["documentPartitionKey"] for page in pages} == {key}
    assert len({page["slot"] for page in pages}) == 1


async def test_one_instant_always_shows_all_of_a_batch_or_none(client: Client, key: str) -> None:
    links = [each["link"] for each in order_of(key)]
    await client.atomic(order_of(key, n=0))
    is_over = asyncio.Event()

    async def write() -> None:
        for n in range(1, 60):
            await client.atomic(order_of(key, n=n))
        is_over.set()

    async def look(at: str) -> list[int]:
        return [(await client.get(link, at=at)).value["n"] for link in links]

    writing, seen = asyncio.create_task(write()), []
    while not is_over.is_set():
        at = str(time.time_ns() // 1_000)  # A batch in progress may have this time.
        seen.append((at, await look(at)))
    await writing
    assert seen
    for at, numbers in seen:
        assert len(set(numbers)) == 1, at
        assert await look(at) == numbers


async def test_an_instant_that_is_yet_to_come_is_400(client: Client, key: str) -> None:
    await client.atomic(order_of(key))
    with pytest.raises(RequestFailed) as failed:
        await client.get(order_of(key)[0]["link"], at="2999-01-01T00:00:00Z")
    assert (failed.value.status, failed.value.problem["errorCode"]) == (400, "malformed")
    assert "yet to come" in failed.value.problem["detail"]


async def test_a_line_that_is_refused_refuses_all_and_is_named(client: Client, key: str) -> None:
    await client.atomic(order_of(key)[:2])
    last = f"{LINES}/{key}~2"
    wrong: list[tuple[dict[str, Any], int, str]] = [
        ({"op": "PATCH", "link": last, "body": {}}, 404, "not-found"),
        ({"op": "DELETE", "link": last}, 404, "not-found"),
        ({"link": last, "body": {}, "mustExist": True}, 412, "precondition-failed"),
        ({"link": last, "body": {"count": "two"}}, 422, "refused-by-service"),
        ({"link": last, "body": {}, "op": "JUMP"}, 400, "malformed"),
        ({"link": f"/nowhere:/{key}", "body": {}}, 404, "not-found"),
    ]
    for line, status, code in wrong:
        problem = await refused(client, [*order_of(key)[:2], line], status)
        assert (problem["errorCode"], problem["line"], problem["link"]) == (code, 2, line["link"])
        assert await there(client, key) == [0, 0]
    stale = [dict(each, ifVersion=3) if n == 1 else each for n, each in enumerate(order_of(key))]
    problem = await refused(client, stale, 409)
    assert (problem["errorCode"], problem["line"], problem["version"]) == ("version-conflict", 1, 0)
    born = [{"op": "POST", **each} for each in order_of(key)[::-1]]
    assert (await refused(client, born, 409))["link"] == f"{LINES}/{key}~1"
    assert await there(client, key) == [0, 0]


async def test_documents_that_share_no_key_are_declined_with_a_reason(
    client: Client, key: str
) -> None:
    await client.declare("/loose")
    apart = [*order_of(key)[:2], {"link": f"{LINES}/{key}0~1", "body": {}}]
    problem = await refused(client, apart, 422)
    assert (problem["errorCode"], problem["line"]) == ("several-slots", 2)
    assert repr(key) in problem["detail"]
    problem = await refused(client, [{"link": "/loose/a", "body": {}}], 422)
    assert "no keys" in problem["detail"]
    assert await there(client, key) == []


async def test_malformed_batches_are_refused(client: Client, key: str) -> None:
    lines = order_of(key)
    link = lines[0]["link"]
    assert "at least one line" in (await refused(client, b"", 400))["detail"]
    assert (await refused(client, [*lines, lines[1]], 400))["line"] == 3
    assert (await refused(client, [*lines, {"link": LINES, "op": "POST", "body": {}}], 400))["line"]
    for member, said in (("key", "k"), ("writer", {"job": "j", "batch": 1})):
        problem = await refused(client, [{"link": link, "body": {}, member: said}], 400)
        assert member in problem["detail"]
    broken = json.dumps(lines[0]).encode() + b'\n{"link": '
    assert (await refused(client, broken, 400))["line"] == 1
    many = [{"link": f"{LINES}/{key}~{n}", "body": {}} for n in range(101)]
    await refused(client, many, 413)
    large = [{"link": each["link"], "body": {"text": "x" * 9000}} for each in many[:60]]
    assert (await refused(client, large, 413))["errorCode"] == "too-large"
    await refused(client, gzip.compress(b" " * (2 << 20)), 413, **{"Content-Encoding": "gzip"})
    said = {"If-Match": "*", "If-None-Match": "*", "Docstore-Quorum": "all", "Docstore-Lease": "a"}
    for name, value in said.items():
        assert name in (await refused(client, lines, 400, **{name: value}))["detail"]
    with pytest.raises(RequestFailed, match="true or false"):
        await client.request("POST", "/core/bulk?atomic=yes", b"{}", NDJSON)
    assert await there(client, key) == []


def lines_that_are_wrong(link: str) -> Iterator[tuple[Any, int]]:
    """Yield malformed lines about a document of the factory, and the status of their batches."""
    for line in (7, None, [], {}, {"link": 7}, {"link": ""}, {"link": "/"}, [{"link": link}]):
        yield line, 400
    for name in ("/../k", "/", "/versions", "/\u0000", "/" + "a" * 1100):
        yield {"link": LINES + name, "body": {}}, 400
    for members in (
        {}, {"body": 7}, {"body": []}, {"op": "GET"}, {"op": "BATCH"}, {"op": ["PUT"]},
        {"op": "PATCH"}, {"ifVersion": -1}, {"ifVersion": 1.5}, {"ifVersion": True},
        {"ifVersion": "1"}, {"mustExist": 1}, {"recreate": None}, {"if": 1},
        {"body": {"documentSelfLink": "/x"}}, {"body": {"documentLeaseLink": "/core/leases/a"}},
        {"body": {"documentExpirationTimeMicros": "soon"}},
    ):  # fmt: skip
        body = {} if members.keys() - {"body", "op"} else members.get("body")
        yield {"link": link, **members, "body": body}, 400
    for elsewhere in ("/core/factories/x", "/core/management", "/metrics", "/core/x:/k"):
        yield {"link": elsewhere, "body": {}}, 422
    for text in (
        b"{", b"\xff", b"\x00", b'{"a": 1}{"a": 1}', b'{"a": 1, "a": 1}', b'{"a": NaN}',
        b'{"a": 1e999}', b'{"a": "\\ud800"}', b'{"a": 18446744073709551616}', b'{"a":' * 99,
    ):  # fmt: skip
        yield b'{"link": "%b", "body": %b}' % (link.encode(), text), 400


async def test_a_line_that_is_wrong_has_nothing_stored(client: Client, key: str) -> None:
    for line, status in lines_that_are_wrong(f"{LINES}/{key}~2"):
        raw = line if isinstance(line, bytes) else json.dumps(line).encode()
        first = json.dumps(order_of(key)[0]).encode()
        assert (await refused(client, first + b"\n" + raw, status))["line"] == 1, raw
    assert await there(client, key) == []


async def test_a_batch_may_have_its_greatest_size_and_be_msgpack(client: Client, key: str) -> None:
    lines = [{"link": f"{LINES}/{key}~{n}", "body": {"text": "x" * 5000}} for n in range(100)]
    packed = b"".join(map(msgpack.packb, lines))
    headers = {"Content-Type": "application/msgpack"}
    _, _, content = await client.request("POST", PATH, packed, headers)
    assert [json.loads(line)["version"] for line in content.splitlines()] == [0] * 100


async def test_a_batch_with_a_key_is_applied_once(client: Client, key: str) -> None:
    first = await client.atomic(order_of(key), key="k1")
    for _ in range(3):
        assert await client.atomic(order_of(key), key="k1") == first
    problem = await refused(client, order_of(key, more=1), 422, **{"Idempotency-Key": "k1"})
    assert problem["errorCode"] == "key-reused"
    assert await there(client, key) == [0, 0, 0]


async def test_a_fence_is_for_all_of_a_batch(client: Client, key: str) -> None:
    await client.put(f"{LINES}/{key}~2", {"count": 0}, fence="locks/a:8")
    problem = await refused(client, order_of(key), 409, Fence="locks/a:7")
    assert (problem["errorCode"], problem["line"]) == ("fenced", 2)
    await client.atomic(order_of(key), fence="locks/a:9")
    assert await there(client, key) == [0, 0, 1]
    with pytest.raises(RequestFailed, match="locks/a"):
        await client.put(f"{ORDERS}/{key}", {}, fence="locks/a:8")


async def test_a_feed_shows_a_batch_as_a_whole(client: Client, key: str) -> None:
    lines = [{"link": f"{LINES}/{key}~{n}", "body": {"count": n}} for n in range(40)]
    page = await client.json("GET", "/core/spark/plan?asOf=latest")
    await client.atomic(lines)
    since = page["cut"]
    for _ in range(2):
        asked = {"prefix": LINES, "since": since, "limit": 7}
        headers = {"Content-Type": "application/json", "Prefer": "wait=10"}
        _, _, content = await client.request(
            "POST", "/core/changes", json.dumps(asked).encode(), headers, only_reads=True
        )
        *changes, ending = map(json.loads, content.splitlines())
        assert [each["documentSelfLink"] for each in changes] == [each["link"] for each in lines]
        since = ending["next"]
        lines = [{"link": f"{ORDERS}/{key}", "body": {}}, {"link": f"{LINES}/{key}~0", "body": {}}]
        await client.atomic(lines)
        del lines[0]


class Writer:
    """Puts its number into three documents of a key, one batch after the other."""

    def __init__(self, urls: list[str], key: str) -> None:
        self._urls, self.key = urls, key
        self.sent = self.acknowledged = 0
        self.is_over = False

    async def run(self) -> None:
        """Write until the test is over; skip a batch of unknown fate."""
        async with Client(self._urls) as client:
            while not self.is_over:
                self.sent += 1
                body = {"of": self.key, "number": self.sent}
                links = [f"{LINES}/{self.key}~{n}" for n in range(3)]
                try:
                    await client.atomic([{"link": link, "body": body} for link in links])
                    self.acknowledged = self.sent
                except ClientError as error:
                    if not is_passing(error):
                        raise


async def seen(client: Client, key: str) -> set[int]:
    """Return the numbers in the documents of a key, all of one cut."""
    async with asyncio.timeout(30):
        while True:
            try:
                found = [each async for each in client.query(LINES, where=f"of = '{key}'")]
            except ClientError as error:
                if not is_passing(error):
                    raise
                await asyncio.sleep(0.05)
            else:
                assert len(found) in (0, 3)
                return {each["number"] for each in found}


@pytest.mark.thorough
async def test_no_part_of_a_batch_is_ever_seen_though_its_owner_is_killed(
    cluster: LocalCluster, client: Client, key: str
) -> None:
    writers = [Writer(cluster.urls, f"{key}-{number}") for number in range(4)]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(writer.run()) for writer in writers]
        for number in range(8):
            writer = writers[number % len(writers)]
            link, before = f"{LINES}/{writer.key}~0", writer.acknowledged
            async with asyncio.timeout(30):
                while writer.acknowledged < before + 20:
                    await asyncio.sleep(0.01)
            assert len(await seen(client, writer.key)) == 1
            owner = await asyncio.to_thread(cluster.owner_of, link)
            await asyncio.to_thread(cluster.kill, owner)
            for each in writers:
                assert len(await seen(client, each.key)) == 1
            await asyncio.to_thread(start_all, cluster)
        for writer in writers:
            writer.is_over = True
        await asyncio.gather(*tasks)
    for writer in writers:
        (number,) = await seen(client, writer.key)
        assert writer.acknowledged <= number <= writer.sent
        for url in cluster.urls:
            async with Client([url]) as one:
                links = [f"{LINES}/{writer.key}~{n}" for n in range(3)]
                assert {(await one.get(link)).value["number"] for link in links} == {number}
