"""Staged parts on a node's disk: stored whole, applied on request, deleted after a day."""

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from docstore.http import staged_files as staging
from docstore.http.server import HttpServer
from docstore.http.staged_files import KEPT_S, Staging
from tests.docstore.http.conftest import FAST, Declare
from tests.docstore.http.problem import problem_of
from tests.docstore.http.single import SingleNode

NDJSON = {"Content-Type": "application/x-ndjson"}
PATH = "/core/spark/staging"


@pytest.fixture
async def base_url(node: SingleNode, tmp_path: Path) -> AsyncIterator[str]:
    server = HttpServer(node, FAST, Staging(tmp_path / "staging"))
    yield f"http://127.0.0.1:{await server.start('127.0.0.1', 0)}"
    await server.stop(0.1)


def lines(path: str, count: int) -> bytes:
    each = ({"op": "PUT", "link": f"{path}/{n}", "body": {"n": n}} for n in range(count))
    return b"".join(json.dumps(line).encode() + b"\n" for line in each)


async def keep(client: aiohttp.ClientSession, url: str, body: Any) -> int:
    async with client.put(url, data=body, headers=NDJSON) as response:
        await response.read()
        return response.status


def names_in(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


async def waiting(client: aiohttp.ClientSession) -> list[dict[str, Any]]:
    async with client.get(PATH) as response:
        found: list[dict[str, Any]] = (await response.json())["parts"]
        return found


async def test_a_part_is_applied_repeatedly_until_deleted(
    client: aiohttp.ClientSession, declare: Declare
) -> None:
    path = await declare()
    url = f"{PATH}/my%2Fjob/part-1"
    assert await keep(client, url, lines(path, 2500)) == 201
    [part] = await waiting(client)
    assert (part["job"], part["part"]) == ("my/job", "part-1")
    async with client.get(f"{path}/7") as response:
        assert response.status == 404
    for version in (0, 1):
        async with client.post(url) as response:
            answers = [json.loads(line) for line in (await response.read()).splitlines()]
        assert [each["version"] for each in answers] == [version] * 2500
        assert [each["link"] for each in answers] == [f"{path}/{n}" for n in range(2500)]
    for removed in (True, False):
        async with client.delete(url) as response:
            assert await response.json() == {"removed": removed}
    assert await waiting(client) == []
    async with client.post(url) as response:
        assert response.status == 404


@pytest.mark.parametrize(
    ("name", "status"),
    [("job", 404), ("job/", 404), ("job/a.b", 400), ("job/..%2Fx", 400), ("a%2F..%2F..%2Fb/x", 201),
     ("x" * 300 + "/p", 400)],
)  # fmt: skip
async def test_names_of_parts_are_validated(
    client: aiohttp.ClientSession, tmp_path: Path, name: str, status: int
) -> None:
    assert await keep(client, f"{PATH}/{name}", b"{}\n") == status
    assert names_in(tmp_path) <= {"staging"}


async def test_an_interrupted_part_leaves_no_file(
    client: aiohttp.ClientSession, tmp_path: Path
) -> None:
    async def slow() -> AsyncIterator[bytes]:
        yield b"{}\n" * 1_000_000
        await asyncio.Event().wait()

    assert await keep(client, f"{PATH}/job/late", slow()) == 408
    assert await waiting(client) == []
    assert names_in(tmp_path / "staging" / "job-job") == set()


async def test_concurrent_uploads_of_a_part_keep_one_of_them_whole(
    client: aiohttp.ClientSession, declare: Declare, tmp_path: Path
) -> None:
    path = await declare()
    url = f"{PATH}/job/p"
    sent = [lines(f"{path}/{n}", 300 + n) for n in range(12)]
    statuses = await asyncio.gather(*(keep(client, url, body) for body in sent))
    assert statuses == [201] * len(sent)
    assert names_in(tmp_path / "staging" / "job-job") == {"p.ndjson"}
    assert (tmp_path / "staging" / "job-job" / "p.ndjson").read_bytes() in sent


async def test_concurrent_requests_for_a_part_cause_no_internal_error(
    client: aiohttp.ClientSession,
) -> None:
    url = f"{PATH}/job/p"

    async def again(method: str, path: str, allowed: set[int]) -> set[int]:
        found = set()
        for _ in range(60):
            body = {"data": b"\n", "headers": NDJSON} if method == "PUT" else {}
            async with client.request(method, path, **body) as response:  # type: ignore[arg-type]
                await response.read()
                found.add(response.status)
        return found - allowed

    done = [again("PUT", url, {201}), again("POST", url, {200, 404}), again("GET", PATH, {200})]
    done += [again(method, url, {200, 201}) for method in ("DELETE", "DELETE", "PUT", "PUT")]
    assert await asyncio.gather(*done) == [set()] * len(done)


async def test_a_part_is_refused_if_the_disk_has_too_little_room(
    client: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(staging, "ROOM_BYTES", 1 << 60)
    async with client.put(f"{PATH}/job/p", data=b"{}\n", headers=NDJSON) as response:
        assert (response.status, (await response.json())["errorCode"]) == (503, "disk-full")
    assert names_in(tmp_path / "staging" / "job-job") == set()


async def test_a_part_without_requests_for_a_day_is_deleted(
    client: aiohttp.ClientSession, tmp_path: Path
) -> None:
    for part in ("old", "asked"):
        assert await keep(client, f"{PATH}/job/{part}", b"") == 201
        long_ago = time.time() - KEPT_S - 60
        os.utime(tmp_path / "staging" / "job-job" / f"{part}.ndjson", (long_ago, long_ago))
    async with client.post(f"{PATH}/job/asked") as response:
        assert (response.status, await response.read()) == (200, b"")
    assert await keep(client, f"{PATH}/job/new", b"") == 201
    assert {each["part"] for each in await waiting(client)} == {"asked", "new"}


async def test_other_methods_and_media_types_are_refused(client: aiohttp.ClientSession) -> None:
    async with client.patch(f"{PATH}/job/p") as response:
        assert response.status == 405
    async with client.post(PATH) as response:
        assert response.status == 405
    async with client.put(
        f"{PATH}/job/p", data=b"a,b", headers={"Content-Type": "text/csv"}
    ) as response:
        assert response.status == 415
    zipped = {**NDJSON, "Content-Encoding": "gzip"}
    async with client.put(f"{PATH}/job/p", data=b"x", headers=zipped) as response:
        assert response.status == 400
    for url in (PATH, f"{PATH}/job/p"):
        async with client.options(url) as response:
            assert (response.status, bool(response.headers["Allow"])) == (204, True)


@pytest.mark.parametrize("method", ["PUT", "POST"])
async def test_headers_about_one_document_are_refused(
    client: aiohttp.ClientSession, declare: Declare, method: str
) -> None:
    body, url = lines(await declare(), 1), f"{PATH}/job/p"
    assert await keep(client, url, body) == 201
    said = NDJSON | {"Idempotency-Key": "k"}
    async with client.request(method, url, data=body, headers=said) as response:
        assert "a line has its key" in (await problem_of(response, 400))["detail"]
