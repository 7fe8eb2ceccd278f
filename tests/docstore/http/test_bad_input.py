"""Bad inputs and their required answers: never a 500, a hang or a traceback."""

import contextlib
import gzip
import io
import json
import math
import re
import time
import zlib
from typing import Any

import aiohttp
import msgpack
import pytest

from tests.docstore.http.conftest import Raw
from tests.docstore.http.problem import LEAKS, problem_of
from tests.docstore.http.single import SingleNode

Client = aiohttp.ClientSession
JSON = {"Content-Type": "application/json"}
BODY_MAX = 1 << 20


def status_of(answer: bytes) -> int:
    """Check that a raw answer leaks no internals; return its status."""
    found = re.match(rb"HTTP/1\.1 (\d{3}) ", answer)
    assert found, answer[:200]
    text = answer.decode("utf-8", "replace")
    assert not any(leak in text for leak in LEAKS), text
    return int(found[1])


GET = b"GET /core/examples HTTP/1.1\r\nHost: localhost\r\n"
PUT = b"PUT /core/examples/x HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"

MALFORMED = {
    "no Host": b"GET /core/examples HTTP/1.1\r\n\r\n",
    "garbage": bytes(range(256)) + b"\r\n\r\n",
    "TLS hello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\xaa" * 200 + b"\r\n\r\n",
    "request line of 9 KB": b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "header of 9 KB": GET + b"X: " + b"a" * 9000 + b"\r\n\r\n",
    "40 KB of headers": GET + b"".join(b"X%d: %b\r\n" % (n, b"a" * 800) for n in range(50)),
    "200 headers": GET + b"".join(b"X%d: 1\r\n" % n for n in range(200)) + b"\r\n",
    "5000 headers": GET + b"".join(b"X%d: 1\r\n" % n for n in range(5000)) + b"\r\n",
    "length and chunks": PUT + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two lengths": PUT + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}x",
    "length -1": PUT + b"Content-Length: -1\r\n\r\n{}",
    "length +5": PUT + b"Content-Length: +5\r\n\r\n{}   ",
    "length 0x2": PUT + b"Content-Length: 0x2\r\n\r\n{}",
    "bad chunk size": PUT + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
    "only gzip as transfer": PUT + b"Transfer-Encoding: gzip\r\n\r\n{}",
    "gzip and chunks": PUT + b"Transfer-Encoding: gzip, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    "an empty coding": PUT + b"Transfer-Encoding:\r\nContent-Length: 2\r\n\r\n{}",
    "chunks in HTTP/1.0": PUT.replace(b"1.1", b"1.0")
    + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    "no version": b"GET /core/examples\r\n\r\n",
    "no version, and a Host": b"GET /core/examples\r\nHost: localhost\r\n\r\n",
    "HTTP/2.0": b"GET /core/examples HTTP/2.0\r\nHost: localhost\r\n\r\n",
    "72 KB of headers at once": GET
    + b"".join(b"X%d: %b\r\n" % (n, b"a" * 8000) for n in range(9))
    + b"\r\n",
    "72 KB behind a request": GET
    + b"\r\n"
    + GET
    + b"".join(b"X%d: %b\r\n" % (n, b"a" * 8000) for n in range(9))
    + b"\r\n",
    "obs-fold": GET + b"X: a\r\n b\r\n\r\n",
    "space before colon": GET + b"X : a\r\n\r\n",
    "NUL in a value": GET + b"X: a\x00b\r\n\r\n",
    "CR in a value": GET + b"X: a\rb\r\n\r\n",
    "only LF": b"GET /core/examples HTTP/1.1\nHost: localhost\n\n",
    "HTTP/2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "HTTP/9.9": b"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n",
    "method with @": b"G@T / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "method of 5 KB": b"A" * 5000 + b" / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "no target": b"GET HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "raw bytes in the path": b"GET /core/\xff\xfe HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "raw UTF-8 in the path": "GET /core/ä HTTP/1.1\r\nHost: localhost\r\n\r\n".encode(),
}


@pytest.mark.parametrize("data", MALFORMED.values(), ids=MALFORMED.keys())
async def test_malformed_http_is_refused_and_the_connection_closed(raw: Raw, data: bytes) -> None:
    answer = await raw(data)
    last = answer.rpartition(b"HTTP/1.1 ")[2]
    assert status_of(b"HTTP/1.1 " + last) in (400, 414, 431, 505)
    assert b"application/problem+json" in last
    assert b"Connection: close" in last, "so that nothing is smuggled"


async def test_a_header_may_be_as_long_as_a_token_of_the_group(raw: Raw, node: SingleNode) -> None:
    end = b"\r\nConnection: close\r\n\r\n"
    node.slots_count = 65_536
    for kilobytes, statuses in ((250, {200}), (260, {400, 431})):
        long = b"Last-Event-ID: " + b"a" * 1024 * kilobytes
        assert status_of(await raw(GET + long + end)) in statuses
    url = b"GET /core/examples?after=" + b"a" * 1024 * 250 + b" HTTP/1.1\r\nHost: localhost\r\n"
    two = url + b"Last-Event-ID: " + b"a" * 1024 * 250
    assert status_of(await raw(two + end)) == 200, (
        "a stream that started with a token and continues"
    )
    three = b"".join(b"X%d: %b\r\n" % (n, b"a" * 1024 * 250) for n in range(3))
    assert status_of(await raw(GET + three)) == 431


async def test_an_absolute_target_must_name_the_node(raw: Raw) -> None:
    foreign = b"GET http://evil.example/core/management HTTP/1.1\r\nHost: localhost\r\n"
    assert status_of(await raw(foreign + b"Connection: close\r\n\r\n")) == 421
    ours = b"GET http://localhost/core/management HTTP/1.1\r\nHost: localhost\r\n"
    assert status_of(await raw(ours + b"Connection: close\r\n\r\n")) == 200


async def test_unusual_targets_get_their_status(raw: Raw) -> None:
    end = b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    assert status_of(await raw(b"OPTIONS *" + end)) == 204
    assert status_of(await raw(b"GET *" + end)) == 400
    assert status_of(await raw(b"CONNECT x:443" + end)) == 405
    assert status_of(await raw(b"GET x" + end)) in (400, 421)


@pytest.mark.parametrize(
    "path",
    [
        "/a/../../etc/passwd", "/core/%2e%2e/x", "//core", "/core//x", "/a/./b", "/core/examples/",
        "/a%2fb", "/a%5cb", "/a%00", "/a%0d%0aX:1", "/a%zz", "/a%ff", "/a%", "/a\\b",
        "/core/examples/" + "a" * 1100, "/a" * 33, "/a%cc%88", "/a%7f", "/a%c2%85",
    ],
)  # fmt: skip
async def test_paths_that_are_not_canonical_are_400(raw: Raw, path: str) -> None:
    for verb in (b"GET ", b"PUT "):
        answer = await raw(
            verb + path.encode() + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        )
        assert status_of(answer) == 400


async def send(client: Client, data: Any, status: int, **headers: str) -> dict[str, Any]:
    data = io.BytesIO(data) if isinstance(data, bytes) else data
    async with client.put("/core/examples/x", data=data, headers=JSON | headers) as response:
        return await problem_of(response, status)


@pytest.mark.parametrize(
    "body",
    [
        b"", b" ", b"{", b'{"name":"x"} x', b'\xef\xbb\xbf{"name":"x"}', b"[" * 65, b"[" * 100_000,
        b'{"a":' * 1000, b'{"a":NaN}', b'{"a":-Infinity}', b'{"a":1e999}',
        b'{"a":' + b"1" * 10_000 + b"}", b'{"a":9223372036854775808}', b'{"a":1,"a":2}',
        b'{"a":"\\ud800"}', b'{"a":"\xff"}', '{"a":1}'.encode("utf-16"), b'{"a":"\\uD83D"}',
        b"[]", b'"x"', b"null", b"7", b"true",
        b'{"name":"x","documentVersion":"7"}', b'{"name":"x","documentVersion":-1}',
        b'{"name":"x","documentVersion":1.5}', b'{"name":"x","documentVersion":true}',
        b'{"name":"x","documentVersion":9223372036854775808}', b'{"name":"x","documentVersion":-0}',
        b'{"name":"x","documentSelfLink":"/core/examples/y"}',
        b'{"name":"x","documentSelfLink":"../x"}', b'{"name":"x","documentSelfLink":7}',
        b'{"name":"x","documentExpirationTimeMicros":"soon"}',
        b'{"name":"x","documentExpirationTimeMicros":-1}',
        b'{"name":"x","\\u0064ocumentVersion":"7"}',
    ],
)  # fmt: skip
async def test_malformed_bodies_are_400(client: Client, factory: str, body: bytes) -> None:
    began = time.process_time()
    for link in ("/core/examples/x", f"{factory}/x"):
        async with client.put(link, data=body, headers=JSON) as response:
            status = 404 if link.startswith("/core") and b"selfLink" in body else 400
            await problem_of(response, status)
    assert time.process_time() - began < 0.5


async def test_oversize_bodies_are_413(client: Client, raw: Raw) -> None:
    large = b'{"name":"' + b"x" * BODY_MAX + b'"}'
    await send(client, large, 413)

    async def in_chunks() -> Any:
        for at in range(0, len(large), 65536):
            yield large[at : at + 65536]

    # The node may also close the connection while the client still sends.
    with contextlib.suppress(aiohttp.ClientConnectionError):
        await send(client, in_chunks(), 413)
    lied = PUT + b"Content-Length: 99999999999\r\n\r\n{"
    assert status_of(await raw(lied)) == 413


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_compressed_bodies_are_decoded_and_bounded(
    client: Client, factory: str, encoding: str
) -> None:
    pack = gzip.compress if encoding == "gzip" else zlib.compress
    headers = JSON | {"Content-Encoding": encoding}
    good = pack(b'{"n":1}')
    async with client.put(f"{factory}/z", data=good, headers=headers) as response:
        assert (await response.json())["n"] == 1
    for bad in (
        b"this is not compressed",
        good[:-1],
        good[:12],
        good + b"x",
        pack(b""),
        b"\x1f\x8b" + b"\0" * 50,
    ):
        async with client.put(f"{factory}/z", data=bad, headers=headers) as response:
            await problem_of(response, 400)
    bomb = pack(b" " * (200 << 20))
    began = time.process_time()
    async with client.put(f"{factory}/z", data=bomb, headers=headers) as response:
        await problem_of(response, 413)
    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Content-Encoding": "br"}, 415), ({"Content-Encoding": "gzip, gzip"}, 415),
        ({"Content-Encoding": "x"}, 415), ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/xml"}, 415), ({"Content-Type": ""}, 415),
        ({"Content-Type": "application/json; charset=utf-16"}, 415),
        ({"Content-Type": "application/json-patch+json"}, 415),
        ({"Accept": "text/html"}, 406), ({"Accept": "application/json;q=x"}, 400),
        ({"Docstore-Quorum": "0"}, 400), ({"Docstore-Quorum": "-1"}, 400),
        ({"Docstore-Quorum": "x"}, 400), ({"Docstore-Quorum": "200"}, 400),
        ({"Docstore-Quorum": "1.5"}, 400), ({"Docstore-Quorum": ""}, 400),
        ({"Docstore-Timeout-Ms": "0"}, 400), ({"Docstore-Timeout-Ms": "60001"}, 400),
        ({"Docstore-Timeout-Ms": "-5"}, 400), ({"Docstore-Timeout-Ms": "soon"}, 400),
        ({"Docstore-Timeout-Ms": "000000000000000000000001"}, 400),
        ({"Idempotency-Key": "k" * 129}, 400), ({"Idempotency-Key": ""}, 400),
        ({"Docstore-Internal-Forwarded": "1"}, 400), ({"X-Xenon-Forwarded": "1"}, 400),
        ({"Docstore-Forwarded": "n2"}, 400), ({"Docstore-Replication": "1"}, 400),
        ({"Pragma": "xn-from-replication"}, 400), ({"Pragma": "xn-force-index-update"}, 400),
    ],
)  # fmt: skip
async def test_invalid_headers_are_refused(
    client: Client, factory: str, headers: dict[str, str], status: int
) -> None:
    link = f"{factory}/h"
    async with client.put(link, data=b"{}", headers=JSON | headers) as response:
        await problem_of(response, status)
    async with client.get(link) as response:
        await problem_of(response, 404)


@pytest.mark.parametrize(
    "headers",
    [
        {"Pragma": "no-cache"}, {"Docstore-Quorum": "all"}, {"Docstore-Quorum": "ALL"},
        {"Content-Type": 'application/json; charset="UTF-8"'}, {"Docstore-Timeout-Ms": "60000"},
        {"Idempotency-Key": "k" * 128}, {"Content-Encoding": "identity"}, {"Accept": ""},
    ],
)  # fmt: skip
async def test_valid_headers_are_accepted(
    client: Client, factory: str, headers: dict[str, str]
) -> None:
    async with client.put(f"{factory}/h", data=b"{}", headers=JSON | headers) as response:
        assert response.status == 201, await response.text()


@pytest.mark.parametrize(
    "headers",
    [
        {"Docstore-Consistency": "foo"}, {"Docstore-Consistency": ""},
        {"Docstore-Min-Version": "-1"}, {"Docstore-Min-Version": "x"},
        {"Docstore-Consistency": "stale", "Docstore-Min-Version": "1.5"},
    ],
)  # fmt: skip
async def test_reads_with_invalid_headers_are_refused(
    client: Client, factory: str, headers: dict[str, str]
) -> None:
    async with client.get(f"{factory}/x", headers=headers) as response:
        await problem_of(response, 400)


async def test_an_expectation_is_answered(client: Client, factory: str, raw: Raw) -> None:
    async with client.get(factory, headers={"Expect": "nonsense"}) as response:
        await problem_of(response, 417)
    head = f"PUT {factory}/e HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    waiting = f"{head}Content-Length: 2\r\nExpect: 100-continue\r\n\r\n".encode()
    assert (await raw(waiting, silence_s=0.15)).startswith(b"HTTP/1.1 100 Continue\r\n\r\n")
    async with client.put(f"{factory}/e", json={}, expect100=True) as response:
        assert response.status == 201


@pytest.mark.parametrize(
    "packed",
    [
        b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xdb\xff\xff\xff\xffx", b"\xc1",
        b"\x91" * 100_000, b"\x81\xa1a" * 100 + b"\xc0", b"\x81\x01\x02", b"\x81\xa1a\xc4\x01x",
        b"\x81\xa1a\xd4\x01x", b"\x81\xa1a\xd6\xff\x00\x00\x00\x00", b"\x80\x80", b"\x81\xa1a",
        b"\x81\xa1a\xa1\xff", b"\x81\xa1a\xcf" + b"\xff" * 8, b"\x90", b"\xc0", b"",
        b"\x82\xa1a\x01\xa1a\x02", msgpack.packb({"a": math.nan}), msgpack.packb({"a": math.inf}),
        b"\x81\xa1a" + b"\xdc\xff\xff" + b"\x80" * 65535, msgpack.packb({"a": "\0"}),
    ],
)  # fmt: skip
async def test_invalid_msgpack_is_refused(client: Client, factory: str, packed: bytes) -> None:
    headers = {"Content-Type": "application/msgpack"}
    async with client.put(f"{factory}/m", data=packed, headers=headers) as response:
        if packed.startswith(b"\x81\xa1a\xdc"):
            assert response.status == 201, "many empty objects are valid"
        else:
            await problem_of(response, 400)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ({"a": b"bytes"}, "no byte string is taken"),
        ({"a": msgpack.Timestamp(1)}, "no extension type is taken"),
        ({1: "a"}, "the name of a member is not a text"),
    ],
)
async def test_msgpack_beyond_json_is_refused_with_its_reason(
    client: Client, factory: str, value: Any, why: str
) -> None:
    headers = {"Content-Type": "application/msgpack"}
    async with client.post(factory, data=msgpack.packb(value), headers=headers) as response:
        assert why in (await problem_of(response, 400))["detail"]


async def test_u0000_in_a_text_is_refused_with_advice(client: Client, factory: str) -> None:
    for method in ("PUT", "PATCH"):
        change = client.request(method, f"{factory}/n", json={"v": ["a\0b"]})
        async with change as response:
            assert "base64" in (await problem_of(response, 400))["detail"]
    line = {"link": f"{factory}/n", "body": {"v": "a\0b"}}
    async with client.post("/core/bulk", json=line) as response:
        assert (await response.json(content_type=None))["status"] == 400
    async with client.get(f"{factory}?$filter=v%20eq%20'a%00b'") as response:
        assert "at 7" in (await problem_of(response, 400))["detail"]


async def test_invalid_queries_of_listings_are_refused(client: Client, factory: str) -> None:
    bad = (
        "$limit=-1", "$limit=0", "$limit=1000000000", "$limit=abc", "$top=0", "$limit=",
        "$filter=a%20eq", "$orderby=a%20b", "$select=a%20b", "$skip=3", "$skiptoken=x",
        "$filter=", "$orderby=", "$select=", "asOf=", "$filter=%20",
    )  # fmt: skip
    for query in bad:
        async with client.get(f"{factory}?{query}") as response:
            await problem_of(response, 400)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 400), ({"path": 7}, 400), ({"path": "orders"}, 400), ({"path": "/core/x"}, 400),
        ({"path": "/mgmt"}, 400), ({"path": "/a/../b"}, 400), ({"path": "/a%2fb"}, 400),
        ({"path": "/x/stats"}, 400), ({"path": "/a:b"}, 400), ({"path": "/" + "x" * 2000}, 400),
        ({"path": "/x", "bogus": 1}, 400), ({"path": "/x", "options": "ALL"}, 400),
        ({"path": "/x", "options": ["NONSENSE"]}, 400), ({"path": "/x", "options": [1]}, 400),
        ({"path": "/x", "options": ["PERSISTENCE"]}, 422), ({"path": "/x", "options": []}, 422),
        ({"path": "/x", "schema": []}, 400), ({"path": "/x", "schema": {"type": "nonsense"}}, 400),
        ({"path": "/x", "schema": {"$ref": "http://evil/x"}}, 400),
        ({"path": "/x", "schema": {"$ref": "file:///etc/passwd"}}, 400),
        ({"path": "/x", "schema": {"properties": {"a": {"pattern": "(a+)+$"}}}}, 400),
        ({"path": "/x", "schema": {"properties": {"a": {"pattern": "("}}}}, 400),
        ({"path": "/x", "kind": 7}, 400), ({"path": "/x", "kind": "a\nb"}, 400),
        ({"path": "/x", "putCreates": "yes"}, 400), ({"path": "/x", "nodeSelector": "1x"}, 422),
        ({"path": "/x", "defaultExpirationSeconds": "60"}, 400),
        ({"path": "/x", "retention": {"versions": 0}}, 400), ({"path": "/x", "indexes": "a"}, 400),
        ({"path": "/x", "retention": {"versions": True}}, 400),
        ({"path": "/x", "retention": {"versions": 1_000_001}}, 400),
        ({"path": "/x", "retention": {"versions": 9, "days": 1}}, 400),
        ({"path": "/x", "retention": None}, 400), ({"path": "/x", "retention": 9}, 400),
        ({"path": "/x", "documentSelfLink": "/core/factories/y"}, 400),
    ],
)  # fmt: skip
async def test_invalid_declarations_are_refused(client: Client, body: Any, status: int) -> None:
    async with client.post("/core/factories", json=body) as response:
        await problem_of(response, status)
    async with client.get("/x") as response:
        await problem_of(response, 404)


# Time and numbers


async def test_a_body_that_does_not_arrive_is_408(raw: Raw, node: SingleNode) -> None:
    answer = await raw(PUT + b"Content-Length: 10\r\n\r\n{")
    assert status_of(answer) == 408
    assert b"Connection: close" in answer


@pytest.mark.parametrize("data", [b"", b"GET / HT", GET])
async def test_a_connection_without_a_request_is_closed(
    raw: Raw, node: SingleNode, data: bytes
) -> None:
    began = time.monotonic()
    assert await raw(data, silence_s=30) == b""
    assert 0.2 < time.monotonic() - began < 15


async def test_an_internal_error_is_a_500_without_details(client: Client, node: SingleNode) -> None:
    node.fails = True
    async with client.get("/core/examples/x") as response:
        body = await problem_of(response, 500)
    assert body["errorCode"] == "internal"
    assert "passwd" not in json.dumps(body)
