"""Large bodies are parsed in a thread, one at a time, with the same answers as small ones."""

import asyncio
import io
import json
import threading
from functools import partial
from typing import Any

import aiohttp
import msgpack
import pytest

from docstore.errors import BadRequest, Unavailable
from docstore.http import bodies
from docstore.http.large_bodies import LARGE_BYTES, WAITING_BYTES_MAX, LargeBodies
from docstore.model.service import LEVEL_3
from tests.docstore.http.conftest import Declare
from tests.docstore.http.problem import problem_of

Client = aiohttp.ClientSession
JSON = {"Content-Type": "application/json"}
NDJSON = {"Content-Type": "application/x-ndjson"}
MSGPACK = {"Content-Type": "application/msgpack"}
TEXT = "x" * LARGE_BYTES
STRANGE = b'{"a":[' + b'{"b":1},' * 100_000 + b'1],"c":"\\u003a"}'
"""The check that no key is repeated takes a tenth of a second."""


def pack_json(value: Any) -> bytes:
    return json.dumps(value).encode()


async def sent(client: Client, method: str, url: str, body: bytes, **headers: str) -> int:
    data = io.BytesIO(body)
    async with client.request(method, url, data=data, headers=JSON | headers) as response:
        await response.read()
        return response.status


async def test_other_requests_are_served_while_a_large_body_is_parsed(
    client: Client, factory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await sent(client, "PUT", f"{factory}/a", b"{}") == 201
    is_read, is_heard = threading.Event(), threading.Event()
    written = bodies.written

    def slowly(*arguments: Any, **named: Any) -> bodies.WrittenBody:
        is_read.set()
        assert is_heard.wait(10), "no other request was served"
        return written(*arguments, **named)

    monkeypatch.setattr(bodies, "written", slowly)
    large = asyncio.create_task(sent(client, "PUT", f"{factory}/b", pack_json({"text": TEXT})))
    while not is_read.is_set():
        await asyncio.sleep(0)
    assert await sent(client, "GET", f"{factory}/a", b"") == 200
    is_heard.set()
    assert await large == 201


@pytest.mark.parametrize("media", [JSON, MSGPACK], ids=["json", "msgpack"])
async def test_large_bodies_are_answered_as_small_ones(
    client: Client, declare: Declare, media: dict[str, str]
) -> None:
    factory = await declare(options=[*LEVEL_3, "STRICT_UPDATE_CHECKING"])
    pack = msgpack.packb if media is MSGPACK else pack_json
    state = {"text": TEXT, "documentSelfLink": "a"}
    assert await sent(client, "POST", factory, pack(state), **media) == 201
    for version, status in ((7, 409), (0, 200)):
        patch = pack({"more": TEXT, "documentVersion": version})
        assert await sent(client, "PATCH", f"{factory}/a", patch, **media) == status
    put = pack({"text": TEXT, "documentVersion": 1})
    assert await sent(client, "PUT", f"{factory}/a", put, **media) == 200
    async with client.get(f"{factory}/a") as response:
        page = await response.json()
        assert (page["documentVersion"], page["text"], "more" in page) == (2, TEXT, False)
    wrong = {"text": TEXT, "documentSelfLink": "b"}
    assert await sent(client, "PUT", f"{factory}/a", pack(wrong), **media) == 400
    assert await sent(client, "PUT", f"{factory}/a", pack(TEXT), **media) == 400


async def test_large_lines_are_answered_as_small_ones(client: Client, factory: str) -> None:
    lines = [{"link": f"{factory}/a", "body": {"text": TEXT}}] * 2
    patch = [{"op": "add", "path": "/more", "value": TEXT}]
    lines += [{"op": "PATCH", "link": f"{factory}/a", "body": patch}, {"x": TEXT}]  # type: ignore[list-item]
    body = b"\n".join(json.dumps(line).encode() for line in lines)
    async with client.post("/core/bulk", data=io.BytesIO(body), headers=NDJSON) as response:
        results = [json.loads(line) for line in (await response.text()).splitlines()]
    assert [each["status"] for each in results] == [201, 200, 200, 400]


async def test_a_body_that_waits_past_its_deadline_is_503(client: Client, factory: str) -> None:
    hasty = {"Docstore-Timeout-Ms": "1"}
    data = io.BytesIO(STRANGE)
    async with client.put(f"{factory}/a", data=data, headers=JSON | hasty) as response:
        await problem_of(response, 503)
    assert await sent(client, "GET", f"{factory}/a", b"") == 404


async def test_bodies_are_parsed_one_at_a_time_and_waiting_is_bounded() -> None:
    large, running, most = LargeBodies(), 0, WAITING_BYTES_MAX // 8
    gate = asyncio.Event()
    loop = asyncio.get_running_loop()

    def work(number: int) -> int:
        nonlocal running
        running += 1
        assert running == 1
        asyncio.run_coroutine_threadsafe(gate.wait(), loop).result(10)
        running -= 1
        if number == 3:
            raise BadRequest("no")
        return number

    tasks = [asyncio.create_task(large.read(most, 10.0, partial(work, n))) for n in range(8)]
    while running == 0:
        await asyncio.sleep(0)
    with pytest.raises(Unavailable):
        await large.read(1, 10.0, partial(work, 9))
    tasks[5].cancel()
    gate.set()
    made = await asyncio.gather(*tasks, return_exceptions=True)
    numbers = [each[0] for each in made if isinstance(each, tuple)]
    assert numbers == [0, 1, 2, 4, 6, 7]
    assert isinstance(made[3], BadRequest)
    assert (await large.read(most * 8, 10.0, lambda: "room again"))[0] == "room again"
