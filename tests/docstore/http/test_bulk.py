"""Bulk: each line has one result, in order; a wrong line fails alone."""

import asyncio
import gc
import gzip
import io
import json
from typing import Any
from urllib.parse import urlsplit

import msgpack
import pytest

from docstore.errors import BadRequest, NotFound
from docstore.http.large_bodies import LARGE_BYTES
from docstore.model.service import LEVEL_3
from tests.docstore.http.conftest import Declare, Raw
from tests.docstore.http.lines import NDJSON, Client, bulk, ndjson
from tests.docstore.http.problem import problem_of
from tests.docstore.http.single import SingleNode


async def test_every_line_has_its_result_in_order(client: Client, factory: str) -> None:
    lines = [{"op": "PUT", "link": f"{factory}/{n}", "body": {"n": n}} for n in range(3000)]
    results = await bulk(client, lines)
    assert results == [{"link": f"{factory}/{n}", "status": 201, "version": 0} for n in range(3000)]
    async with client.get(f"{factory}/2999") as response:
        assert (await response.json())["n"] == 2999


async def test_lines_of_one_document_are_applied_in_order(client: Client, factory: str) -> None:
    link = f"{factory}/a"
    results = await bulk(
        client,
        [
            {"op": "POST", "link": link, "body": {"n": 1}},
            {"op": "POST", "link": link, "body": {}},
            {"op": "patch", "link": link, "body": {"m": 2}, "ifVersion": 0},
            {"op": "PATCH", "link": link, "body": {"m": 3}, "ifVersion": 0},
            {"op": "put", "link": link, "body": {"n": 3}},
            {"link": link, "body": {"n": 4}},
            {"op": "DELETE", "link": link, "ifVersion": 3},
            {"op": "DELETE", "link": link},
            {"op": "POST", "link": link, "body": {}},
            {"op": "POST", "link": link, "body": {}, "recreate": True},
        ],
    )
    assert [each["status"] for each in results] == [
        201, 409, 200, 409, 200, 200, 200, 404, 409, 201,
    ]  # fmt: skip
    assert [each.get("version") for each in results] == [0, 0, 1, 1, 2, 3, 4, 4, 4, 5]
    assert results[1]["errorCode"] == "already-exists"
    assert all(each["outcome"] == "not_applied" for each in results if each["status"] >= 400)


async def test_an_array_patches_by_rfc_6902(client: Client, factory: str) -> None:
    link = f"{factory}/a"
    more = [{"op": "add", "path": "/list/-", "value": 2}]
    results = await bulk(
        client,
        [
            {"op": "PUT", "link": link, "body": {"list": [1]}},
            {"op": "PATCH", "link": link, "body": more},
            {"op": "PATCH", "link": link, "body": [{"op": "test", "path": "/list/0", "value": 9}]},
            {"op": "PATCH", "link": link, "body": [{"op": "nonsense"}]},
            {"op": "PUT", "link": link, "body": more},
        ],
    )
    assert [each["status"] for each in results] == [201, 200, 409, 400, 400]
    async with client.get(link) as response:
        assert (await response.json())["list"] == [1, 2]


async def test_a_post_to_a_factory_gets_a_link(client: Client, factory: str) -> None:
    results = await bulk(
        client,
        [
            {"op": "POST", "link": factory, "body": {"n": 1}},
            {"op": "POST", "link": factory, "body": {"documentSelfLink": "named"}},
            {"op": "POST", "link": factory, "body": {"n": 2}, "key": "k"},
            {"op": "POST", "link": factory, "body": {"documentSelfLink": "../x"}},
        ],
    )
    assert [each["status"] for each in results] == [201, 201, 201, 400]
    assert results[0]["link"].startswith(factory + "/")
    assert results[1]["link"] == f"{factory}/named"


WRONG: list[Any] = [
    b"nonsense", b"{", b"[]", b"7", b'{"a":1,"a":2}', b'{"link":"/x/y","body":{"a":NaN}}',
    {}, {"link": 7}, {"link": "x"}, {"link": "/core/../x"}, {"link": ""}, {"link": "/nowhere/x"},
    {"op": "GET", "link": "{f}/x"}, {"op": 7, "link": "{f}/x"}, {"op": "PUT", "link": "{f}/x"},
    {"op": "PUT", "link": "{f}/x", "body": []}, {"op": "PUT", "link": "{f}/x", "body": None},
    {"op": "PUT", "link": "{f}/x", "body": {}, "ifVersion": "1"},
    {"op": "PUT", "link": "{f}/x", "body": {}, "ifVersion": -1},
    {"op": "PUT", "link": "{f}/x", "body": {}, "ifVersion": True},
    {"op": "PUT", "link": "{f}/x", "body": {}, "ifVersion": 5},
    {"op": "PUT", "link": "{f}/x", "body": {}, "key": 7},
    {"op": "PUT", "link": "{f}/x", "body": {}, "key": "k" * 129},
    {"op": "PUT", "link": "{f}/x", "body": {}, "recreate": "yes"},
    {"op": "PUT", "link": "{f}/x", "body": {}, "bogus": 1},
    {"op": "PUT", "link": "{f}/x", "body": {"documentSelfLink": "{f}/y"}},
    {"op": "PUT", "link": "{f}/stats", "body": {}},
    {"op": "PUT", "link": "{f}/x", "body": {"documentExpirationTimeMicros": -1}},
    {"op": "PUT", "link": "{f}/x", "body": {"a": "x" * (1 << 20)}},
    {"op": "PUT", "link": "/core/factories/q", "body": {"path": "/elsewhere"}},
    {"op": "POST", "link": "/core/factories/q", "body": {"path": "/elsewhere"}},
    {"op": "POST", "link": "/core/examples/x", "body": {}},
    {"op": "PUT", "link": "/core/management", "body": {}},
    {"op": "PUT", "link": "/core/streams/t/partitions/0", "body": {}},
    {"op": "DELETE", "link": "/core/streams/t/partitions/0"},
    {"op": "POST", "link": "/core/streams/t/partitions", "body": {}},
    {"op": "PATCH", "link": "/core/streams/t", "body": {"unclean": True}},
]  # fmt: skip


async def test_a_wrong_line_fails_alone(client: Client, factory: str) -> None:
    def here(line: Any) -> bytes:
        raw = line if isinstance(line, bytes) else json.dumps(line).encode()
        return raw.replace(b"{f}", factory.encode())

    good = {"op": "PUT", "link": f"{factory}/good", "body": {}}
    lines = [each for line in WRONG for each in (here(line), good)]
    results = await bulk(client, lines)
    assert len(results) == len(lines)
    for wrong, result in zip(WRONG, results[::2], strict=True):
        assert 400 <= result["status"] < 500, (wrong, result)
        assert result["outcome"] == "not_applied"
        assert result["detail"]
        assert (result["status"] == 405) == (b"/core/streams/" in here(wrong))
        assert isinstance(result["link"], str)
    assert [each["status"] for each in results[1::2]] == [201] + [200] * (len(WRONG) - 1)
    async with client.get(f"{factory}/x") as response:
        await problem_of(response, 404)


async def test_lines_in_a_row_are_submitted_together(
    client: Client, node: SingleNode, factory: str
) -> None:
    good = [{"link": f"{factory}/{n}", "body": {}} for n in range(5)]
    wrong = {"link": f"{factory}/stats", "body": {}}
    results = await bulk(client, [*good[:3], wrong, *good[3:], b""])
    assert [each["status"] for each in results] == [201, 201, 201, 400, 201, 201]
    assert node.batches == [3, 2]


async def test_a_line_does_not_wait_for_later_lines(
    client: Client, node: SingleNode, factory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    submitted_before = []

    async def find_service(path: str, timeout_s: float) -> None:
        submitted_before.append((path, list(node.batches)))

    monkeypatch.setattr(node, "find_service", find_service)
    large = "x" * LARGE_BYTES
    results = await bulk(
        client,
        [
            {"link": f"{factory}/1", "body": {}},
            {"link": "/nowhere/1", "body": {}},
            {"link": "/nowhere/2", "body": {}},
            {"link": f"{factory}/2", "body": {}},
            {"link": f"{factory}/3", "body": {"text": large}},
            {"link": f"{factory}/4", "body": {"text": large}},
        ],
    )
    assert [each["status"] for each in results] == [201, 404, 404, 201, 201, 201]
    assert submitted_before == [("/nowhere", [1])]  # Looked up once, after the lines before it.
    assert node.batches == [1, 1, 1, 1]


OTHER_BODIES = {
    "a megabyte of msgpack numbers": ("application/msgpack", bytes(1 << 20)),
    "JSON sent as msgpack": ("application/msgpack", b'{"link":"/a/b","body":{}}\n' * 30_000),
    "text": ("application/x-ndjson", b"one,two\n" * 100_000),
    "indented JSON": ("application/x-ndjson", b'{\n"a":\n1,\n' * 100_000),
    "documents that are no operations": ("application/x-ndjson", b'{"name":"x"}\n' * 100_000),
    "values": ("application/json", b"1\n" * 500_000),
}


@pytest.mark.parametrize(("media", "body"), OTHER_BODIES.values(), ids=OTHER_BODIES.keys())
async def test_a_body_of_another_format_is_one_problem(
    client: Client, media: str, body: bytes
) -> None:
    headers = {"Content-Type": media}
    async with client.post("/core/bulk", data=io.BytesIO(body), headers=headers) as response:
        problem = await problem_of(response, 400)
    assert "10 lines in a row" in problem["detail"]


async def test_a_stream_that_changes_its_format_ends_there(client: Client, factory: str) -> None:
    good = json.dumps({"link": f"{factory}/a", "body": {}}).encode()
    results = await bulk(client, [good, *[b"{"] * 9, good, *[b"{"] * 9, good, *[b"{"] * 500, good])
    statuses = [each["status"] for each in results]
    assert statuses == [201, *[400] * 9, 200, *[400] * 9, 200, *[400] * 11]
    assert "the rest was not read" in results[-1]["detail"]
    assert "the rest was not read" not in results[-2]["detail"]
    packed = msgpack.packb({"link": f"{factory}/a", "body": {}})
    headers = {"Content-Type": "application/msgpack"}
    data = io.BytesIO(packed + bytes(100_000))
    async with client.post("/core/bulk", data=data, headers=headers) as response:
        results = [json.loads(line) for line in (await response.text()).splitlines()]
    assert [each["status"] for each in results] == [200, *[400] * 11]


async def test_empty_lines_and_bodies_have_no_result(client: Client, factory: str) -> None:
    line = json.dumps({"link": f"{factory}/a", "body": {}}).encode()
    assert len(await bulk(client, [b"", line, b"  ", line + b"\r", b""])) == 2
    assert await bulk(client, []) == []


async def test_an_endless_line_ends_the_stream_after_the_results_before_it(
    client: Client, factory: str
) -> None:
    line = json.dumps({"link": f"{factory}/a", "body": {}}).encode()
    results = await bulk(client, [line, b'{"a":"' + b"x" * (3 << 20)])
    assert [each["status"] for each in results] == [201, 413]


@pytest.mark.parametrize("kind", ["application/x-ndjson", "application/msgpack"])
async def test_a_line_and_a_put_accept_the_same_depth(
    client: Client, factory: str, kind: str
) -> None:
    deep: Any = {}
    for _ in range(63):
        deep = {"a": deep}
    found = []
    for body in (deep, {"a": deep}):
        async with client.put(f"{factory}/put", json=body) as response:
            found.append(response.status)
        line = {"link": f"{factory}/line", "body": body}
        data = msgpack.packb(line) if "msgpack" in kind else json.dumps(line)
        headers = {"Content-Type": kind}
        async with client.post("/core/bulk", data=data, headers=headers) as response:
            found.append(json.loads(await response.text())["status"])
    assert found == [201, 201, 400, 400]


async def test_a_msgpack_stream_is_read_like_lines(client: Client, factory: str) -> None:
    lines = [{"op": "PUT", "link": f"{factory}/{n}", "body": {"n": n}} for n in range(100)]
    packed = b"".join(msgpack.packb(line) for line in [*lines, 7, {"link": f"{factory}/x"}])
    headers = {"Content-Type": "application/msgpack"}
    async with client.post("/core/bulk", data=packed, headers=headers) as response:
        results = [json.loads(line) for line in (await response.text()).splitlines()]
    assert [each["status"] for each in results] == [201] * 100 + [400, 400]
    for tail in (b"\xc1", b"\x81\xa1a", b"\x91" * 5000, b"\xdf\xff\xff\xff\xff"):
        data = msgpack.packb(lines[0]) + tail
        async with client.post("/core/bulk", data=data, headers=headers) as response:
            results = [json.loads(line) for line in (await response.text()).splitlines()]
        assert [each["status"] for each in results] == [200, 400], tail[:9]


async def test_a_compressed_stream_is_read(client: Client, factory: str) -> None:
    lines = ndjson({"link": f"{factory}/{n}", "body": {"n": n}} for n in range(2000)).getvalue()
    packed = gzip.compress(lines)
    headers = NDJSON | {"Content-Encoding": "gzip"}
    async with client.post("/core/bulk", data=packed, headers=headers) as response:
        assert len((await response.text()).splitlines()) == 2000
    async with client.post("/core/bulk", data=packed[:-20], headers=headers) as response:
        results = (await response.text()).splitlines()
        assert json.loads(results[-1])["status"] == 400


async def test_an_empty_atomic_batch_and_another_media_type_are_refused(client: Client) -> None:
    async with client.post("/core/bulk?atomic=true", data=b"", headers=NDJSON) as response:
        await problem_of(response, 400)
    headers = {"Content-Type": "text/csv"}
    async with client.post("/core/bulk", data=b"", headers=headers) as response:
        await problem_of(response, 415)


async def test_a_factory_may_require_preconditions_of_lines(
    client: Client, declare: Declare
) -> None:
    factory = await declare(requiresPrecondition=True)
    results = await bulk(
        client,
        [
            {"op": "POST", "link": f"{factory}/a", "body": {}},
            {"op": "PUT", "link": f"{factory}/a", "body": {}},
            {"op": "PUT", "link": f"{factory}/a", "body": {}, "ifVersion": 0},
        ],
    )
    assert [each["status"] for each in results] == [201, 428, 200]


async def test_lines_need_a_version_with_strict_update_checking(
    client: Client, declare: Declare
) -> None:
    factory = await declare(options=[*LEVEL_3, "STRICT_UPDATE_CHECKING"])
    link = f"{factory}/a"
    lines: list[dict[str, Any]] = [
        {"op": "PUT", "link": link, "body": {}},
        {"op": "PUT", "link": link, "body": {}},
        {"op": "PUT", "link": link, "body": {}, "mustExist": True},
        {"op": "PATCH", "link": link, "body": {"n": 1}},
        {"op": "DELETE", "link": link},
        {"op": "PATCH", "link": link, "body": {"n": 1, "documentVersion": 7}},
        {"op": "PATCH", "link": link, "body": {"n": 1, "documentVersion": 0}},
        {"op": "PATCH", "link": link, "body": [], "ifVersion": 1},
        {"op": "DELETE", "link": link, "ifVersion": 2},
        {"op": "POST", "link": link, "body": {}, "recreate": True},
    ]
    statuses = [each["status"] for each in await bulk(client, lines)]
    assert statuses == [201, 428, 428, 428, 428, 409, 200, 200, 200, 201]


async def test_results_come_while_lines_are_still_sent(client: Client, factory: str) -> None:
    first_result = asyncio.Event()

    async def lines() -> Any:
        yield json.dumps({"link": f"{factory}/1", "body": {}}).encode() + b"\n"
        async with asyncio.timeout(5):
            await first_result.wait()
        yield json.dumps({"link": f"{factory}/2", "body": {}}).encode() + b"\n"

    async with client.post("/core/bulk", data=lines(), headers=NDJSON) as response:
        async for line in response.content:
            assert json.loads(line)["status"] == 201
            first_result.set()


async def test_a_client_that_sends_everything_before_it_reads_is_served(
    base_url: str, factory: str
) -> None:
    line = json.dumps({"link": f"{factory}/same", "body": {}}).encode() + b"\n"
    count = 60_000
    parts = urlsplit(base_url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port, limit=1024)
    head = "POST /core/bulk HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n"
    writer.write(f"{head}Content-Length: {count * len(line)}\r\n\r\n".encode())
    async with asyncio.timeout(60):
        for _ in range(count // 1000):
            writer.write(line * 1000)
            await writer.drain()
        answer = b""
        while not answer.endswith(b"\r\n0\r\n\r\n"):
            answer = answer[-100:] + await reader.read(1 << 20)
    writer.close()


async def test_errors_are_freed_without_a_garbage_collection(
    client: Client, node: SingleNode
) -> None:
    gc.disable()
    try:
        results = await bulk(client, [{"link": "/nowhere/1", "body": {}}, b"{"])
        kept = [each for each in gc.get_objects() if isinstance(each, NotFound | BadRequest)]
    finally:
        gc.enable()
    assert [each["status"] for each in results] == [404, 400]
    assert kept == []


async def test_silence_in_a_stream_is_a_408_result(raw: Raw, node: Any) -> None:
    head = b"POST /core/bulk HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n"
    answer = await raw(head + b"Content-Length: 100\r\n\r\n{")
    assert b'"status":408' in answer


@pytest.mark.parametrize("where", ["between", "inside"])
async def test_a_client_that_disconnects_affects_no_other(
    base_url: str, client: Client, factory: str, where: str
) -> None:
    parts = urlsplit(base_url)
    _, writer = await asyncio.open_connection(parts.hostname, parts.port)
    line = json.dumps({"link": f"{factory}/gone", "body": {}}).encode() + b"\n"
    head = b"POST /core/bulk HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n"
    writer.write(head + b"Content-Length: 100000\r\n\r\n" + line)
    if where == "inside":
        writer.write(b'{"link":')
    await writer.drain()
    async with asyncio.timeout(5):
        while True:
            async with client.get(f"{factory}/gone") as response:
                if response.status == 200:
                    break
            await asyncio.sleep(0.01)
    writer.transport.abort()
    assert len(await bulk(client, [line.strip()])) == 1
