"""Headers, lines and bodies that a bulk request refuses."""

import asyncio
import gzip
import io
import json
from collections.abc import AsyncIterator

import msgpack
import pytest

from tests.docstore.http.lines import NDJSON, Client, bulk
from tests.docstore.http.problem import problem_of

MSGPACK = {"Content-Type": "application/msgpack"}


@pytest.mark.parametrize(
    ("name", "said", "instead"),
    [("Idempotency-Key", "k", "key"), ("If-Match", '"1.0"', "ifVersion and mustExist"),
     ("If-None-Match", "*", "POST"), ("Docstore-Quorum", "all", "quorum")],
)  # fmt: skip
async def test_headers_about_one_document_are_refused(
    client: Client, factory: str, name: str, said: str, instead: str
) -> None:
    line = json.dumps({"link": f"{factory}/a", "body": {}}).encode()
    async with client.post("/core/bulk", data=line, headers=NDJSON | {name: said}) as response:
        detail = (await problem_of(response, 400))["detail"]
    assert name in detail
    assert instead in detail.partition(":")[2]
    async with client.get(f"{factory}/a") as response:
        assert response.status == 404


async def test_a_failed_condition_of_a_line_is_named(client: Client, factory: str) -> None:
    link = f"{factory}/a"
    must, made, old = await bulk(
        client,
        [
            {"op": "PUT", "link": link, "body": {}, "mustExist": True},
            {"op": "PUT", "link": link, "body": {}},
            {"op": "PUT", "link": link, "body": {}, "ifVersion": 7},
        ],
    )
    assert [must["status"], made["status"], old["status"]] == [412, 201, 409]
    assert "mustExist" in must["detail"]
    assert "ifVersion" in old["detail"]


async def test_a_line_creates_no_document_at_the_path_of_a_factory(
    client: Client, factory: str
) -> None:
    inner = f"{factory}/inner"
    async with client.post("/core/factories", json={"path": inner}) as response:
        assert response.status == 201
    results = await bulk(
        client,
        [
            {"op": "POST", "link": factory, "body": {"documentSelfLink": "inner"}},
            *[{"op": op, "link": inner, "body": {}} for op in ("PUT", "PATCH", "DELETE")],
            {"op": "POST", "link": inner, "body": {"documentSelfLink": "a"}},
        ],
    )
    assert [each["status"] for each in results] == [409, 405, 405, 405, 201]
    assert all("is a factory" in each["detail"] for each in results[:4])
    async with client.get(factory) as response:
        assert (await response.json())["documentLinks"] == []


ENDLESS: dict[str, tuple[dict[str, str], bytes, int]] = {
    "JSON": (NDJSON, b'{"a":"' + b"x" * (20 << 20), 413),
    "gzip": (NDJSON | {"Content-Encoding": "gzip"}, gzip.compress(b"x" * (20 << 20)), 413),
    "msgpack": (MSGPACK, b"\xdd\x00\x1f\xff\xff" + (b"\xd9\x7f" + b"x" * 127) * 100_000, 413),
    "no gzip": (NDJSON | {"Content-Encoding": "gzip"}, b"x" * 1000, 400),
    "cut off": (MSGPACK, b"\x81\xa1a", 400),
}


@pytest.mark.parametrize(("headers", "body", "status"), ENDLESS.values(), ids=ENDLESS.keys())
async def test_a_body_without_one_whole_line_is_refused_as_a_whole(
    client: Client, headers: dict[str, str], body: bytes, status: int
) -> None:
    async with client.post("/core/bulk", data=io.BytesIO(body), headers=headers) as response:
        await problem_of(response, status)


async def test_an_invalid_value_does_not_end_the_stream(client: Client, factory: str) -> None:
    line = msgpack.packb({"link": f"{factory}/a", "body": {}})
    wrong = msgpack.packb({"link": f"{factory}/a", "body": float("inf")})

    async def objects() -> AsyncIterator[bytes]:
        yield wrong
        await answered.wait()
        yield line

    answered = asyncio.Event()
    async with client.post("/core/bulk", data=objects(), headers=MSGPACK) as response:
        assert json.loads(await response.content.readline())["status"] == 400
        answered.set()
        assert json.loads(await response.content.readline())["status"] == 201
