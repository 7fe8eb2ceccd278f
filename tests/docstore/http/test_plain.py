"""Plain requests are served without a task, with the same bytes as by a task.

The bytes are equal for any request, however it is cut. `test_plain_connections.py` tests the
connections.
"""

import asyncio
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from docstore.http.large_bodies import LARGE_BYTES
from docstore.model import json
from docstore.model.limits import Limits
from docstore.model.operation import Answer, Operation
from docstore.services.leases import LeasePhase, LeaseState
from tests.docstore.http.wires import (
    CHUNKED,
    GET,
    PUT,
    SOON_S,
    UNUSUAL,
    Serving,
    Wire,
    asked,
    serving,
)

SMALL = Limits(body_bytes_max=200)

# Plain requests and others


@pytest.mark.parametrize(
    "request_bytes",
    [
        PUT,
        GET,
        PUT.replace(b"Host", b"host").replace(b"Content-Type", b"content-type"),
        asked("GET", "/t/a", b"Accept: */*\r\nAccept-Encoding: gzip\r\nUser-Agent: x\r\n"),
        asked("PUT", "/t/a", b'If-Match: "1.0"\r\nDocstore-Timeout-Ms: 99\r\n', body=b"{}"),
        asked("PUT", "/t/a", b"Idempotency-Key: k\r\nFence: a:1\r\n", body=b"{}"),
        asked("GET", "/t/%C3%A9"),
        asked("GET", "/t/a").replace(b"1.1", b"1.0"),
        asked("PUT", "/t/a", body=b""),
        asked("PATCH", "/core/locks/a", body=b"{}"),
        asked("PATCH", "/core/elections/a%20b", b"Idempotency-Key: k\r\n", body=b"{}"),
    ],
)
async def test_these_requests_are_plain(
    served: Serving, plain: list[str], request_bytes: bytes
) -> None:
    async with served.wire() as wire:
        await wire.ask(request_bytes)
    assert len(plain) == 1


@pytest.mark.parametrize(
    "request_bytes",
    [
        asked("GET", "/t/a", UNUSUAL),
        asked("GET", "/t/a", b"traceparent: 00-" + b"1" * 32 + b"-" + b"1" * 16 + b"-00\r\n"),
        asked("GET", "/t/a", b"Docstore-Consistency: stale\r\n"),
        asked("PUT", "/t/a", b"Docstore-Lease: x\r\n", body=b"{}"),
        asked("PUT", "/t/a", b"Content-Encoding: identity\r\n", body=b"{}"),
        asked("PUT", "/t/a", b"Expect: 100-continue\r\n", body=b"{}"),
        asked("GET", "/t/a?documentVersion=0"),
        asked("GET", "/t/a/versions"),
        asked("GET", "/t"),
        asked("GET", "/nothing/here"),
        asked("GET", "/t//a"),
        asked("GET", "/core/management"),
        asked("GET", "/core/factories/t"),
        asked("GET", "/health/live"),
        asked("HEAD", "/t/a"),
        asked("DELETE", "/t/a"),
        asked("POST", "/t", body=b"{}"),
        asked("PATCH", "/t/a", body=b"{}"),
        asked("PATCH", "/core/locks/a", b"Prefer: wait=1\r\n", body=b"{}"),
        asked("PATCH", "/core/locks/a", b"Fence: a:1\r\n", body=b"{}"),
        asked("PATCH", "/core/locks/stats", body=b"{}"),
        asked("PATCH", "/core/locks/a/b", body=b"{}"),
        asked("PATCH", "/core/leases/a", body=b"{}"),
        asked("PATCH", "/core/locks", body=b"{}"),
        asked("GET", "/core/locks/a"),
        b"GET http://localhost/t/a HTTP/1.1\r\nHost: localhost\r\n\r\n",
        CHUNKED,
    ],
)
async def test_these_requests_are_not_plain(
    served: Serving, plain: list[str], request_bytes: bytes
) -> None:
    async with served.wire() as wire:
        await wire.ask(request_bytes)
    assert not plain


async def test_a_large_body_that_arrives_at_once_is_not_plain(
    served: Serving, plain: list[str]
) -> None:
    async with served.wire() as wire:
        await wire.ask(PUT)
        (connection,) = served.connections
        connection.data_received(asked("PUT", "/t/a", body=b'{"a":"%b"}' % (b"x" * LARGE_BYTES)))
        assert (await wire.answer()).startswith(b"HTTP/1.1 200 ")
    assert plain == ["PUT /t/a"]


async def test_a_write_to_a_read_only_service_is_not_plain(
    served: Serving, plain: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    service = served.node.registry.service_at("/t")
    assert service is not None
    monkeypatch.setattr(service, "options", replace(service.options, methods=()))
    async with served.wire() as wire:
        assert (await wire.ask(PUT)).startswith(b"HTTP/1.1 405 ")
    assert not plain


async def test_a_foreign_host_is_refused(served: Serving, plain: list[str]) -> None:
    async with served.wire() as wire:
        refused = await wire.ask(GET.replace(b"localhost", b"elsewhere.example"))
    assert refused.startswith(b"HTTP/1.1 421 ")
    assert plain == ["GET /t/a"]


async def test_a_plain_request_starts_no_task(served: Serving) -> None:
    made: list[str] = []
    loop = asyncio.get_running_loop()

    def note(loop: asyncio.AbstractEventLoop, work: Any, **more: Any) -> "asyncio.Task[Any]":
        made.append(work.__qualname__)
        return asyncio.Task(work, loop=loop, **more)

    async with served.wire() as wire:
        await wire.ask(PUT)
        loop.set_task_factory(note)
        for request in (PUT, GET, asked("PUT", "/t/b", body=b'{"c":1}')):
            assert b" 200 OK\r\n" in await wire.ask(request) or request is not PUT
        plainly = list(made)
        await wire.ask(asked("GET", "/t/a", UNUSUAL))
        loop.set_task_factory(None)
    assert plainly == []
    assert any("_handle_request" in name for name in made)


# The same bytes

PATHS = st.sampled_from(
    "/t/a /t/b /t/a%20b /t/%C3%A9 /t/%zz /t//a /t/.. /t/a/ /t /t/template /t/a/versions /t/~x"
    " /t/a?b /u/a / * /t/%2F /t/a#b /core/factories/t /core/nothing /T/a /t/\x7f".split()
) | st.sampled_from(["/t/" + "x" * 1100, "/t" + "/x" * 40])
LINES = st.lists(
    st.sampled_from(
        [
            b"Accept: application/json\r\n",
            b"Accept: application/msgpack\r\n",
            b"Accept: text/html\r\n",
            b"Accept: */*;q=7\r\n",
            b"Connection: close\r\n",
            b"Connection: keep-alive\r\n",
            b"Content-Type: application/msgpack\r\n",
            b"Docstore-Timeout-Ms: 0\r\n",
            b"Docstore-Timeout-Ms: 250\r\n",
            b"Fence: a:7\r\n",
            b"Fence: a\r\n",
            b"Host: elsewhere.example\r\n",
            b"Idempotency-Key: one\r\n",
            b"Idempotency-Key:\r\n",
            b'If-Match: "1.0"\r\n',
            b"If-Match: *\r\n",
            b"If-Match: 1\r\n",
            b'If-None-Match: "1.0", "1.1"\r\n',
            b"If-None-Match: *\r\n",
            b"Accept-Encoding: gzip\r\nUser-Agent: anybody\r\n",
        ]
    ),
    max_size=3,
)
BODIES = st.one_of(
    st.none(),
    st.sampled_from(
        [
            b"",
            b"{}",
            b" {} ",
            b"[]",
            b"{",
            b'{"a":1,"a":2}',
            b'{"a":NaN}',
            b"\x80",
            b"\x81\xa1a\x01",
            b'{"documentSelfLink":"/t/b"}',
            b'{"documentSelfLink":"a","x":1}',
            b'{"documentVersion":1}',
            b'{"documentVersion":-0}',
            b'{"document\\u004bind":"x"}',
            b'{"documentLeaseLink":"/core/leases/x"}',
            b'{"documentLeaseLink":7}',
            b'{"document\\u004ceaseLink":"/core/leases/x"}',
            b'{"documentExpirationTimeMicros":-1}',
            b'{"a":"' + b"x" * 200 + b'"}',
        ]
    ),
    st.integers(0, 3).map(lambda n: b'{"n":%d}' % n),
)
REQUESTS = st.builds(
    lambda method, path, lines, body: (method, path, tuple(lines), body),
    st.sampled_from(["GET", "PUT", "PUT", "HEAD", "DELETE"]), PATHS, LINES, BODIES,
)  # fmt: skip


@given(st.lists(REQUESTS, min_size=1, max_size=8))
@settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck))
async def test_both_ways_give_the_same_bytes(requests: list[Any]) -> None:
    async with serving(SMALL) as one, serving(SMALL) as other:
        for method, path, lines, body in requests:
            async with one.wire() as plainly, other.wire() as by_a_task:
                first = await _all_of(plainly, asked(method, path, *lines, body=body))
                second = await _all_of(by_a_task, asked(method, path, *lines, UNUSUAL, body=body))
                assert first == second
        assert one.server.metrics._requests == other.server.metrics._requests


LEASE, ENDED = "/core/leases/a~1", "/core/leases/a~2"
NAMES = st.sampled_from(["", "me", "you", 7])
LINKS = st.sampled_from([LEASE, "a~1", ENDED, "a~3", "other", "/t/a", None])
TURNS = st.sampled_from(
    ["/core/locks/a", "/core/locks/a%7E", "/core/elections/a", "/core/locks/a?b", "/core/locks/%zz"]
)
KINDS = "Acquire Release Campaign Resign Transfer Proclaim Gone Promote"
TURN_BODIES = st.fixed_dictionaries(
    {"kind": st.sampled_from([f"{kind}Request" for kind in KINDS.split()] + ["", 1])},
    optional={
        "candidate": NAMES, "lease": LINKS, "token": st.integers(-1, 6), "to": NAMES,
        "number": st.integers(0, 3), "value": st.sampled_from(["x" * 5_000, {"a": 1}]),
    },
).map(json.dump) | BODIES  # fmt: skip


@given(st.lists(st.tuples(TURNS, LINES.map(tuple), TURN_BODIES), min_size=1, max_size=8))
@settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck))
async def test_both_ways_to_a_lock_give_the_same_bytes(requests: list[Any]) -> None:
    async with serving(SMALL) as one, serving(SMALL) as other:
        for served in (one, other):
            await _grant(served)
        for path, lines, body in requests:
            async with one.wire() as plainly, other.wire() as by_a_task:
                first = await _all_of(plainly, asked("PATCH", path, *lines, body=body))
                second = await _all_of(by_a_task, asked("PATCH", path, *lines, UNUSUAL, body=body))
                assert first == second
        assert one.server.metrics._requests == other.server.metrics._requests


async def _grant(served: Serving) -> None:
    """Create two leases, one of them ended."""
    for link, phase in ((LEASE, LeasePhase.ALIVE), (ENDED, LeasePhase.ENDED)):
        state = json.dump(LeaseState(ttl_ms=1000, phase=phase).state())
        made = Operation(verb="PUT", link=link, body=state, creates=True)
        await served.node.submit(made, 1)


async def test_a_lock_is_taken_and_released_as_plain_requests(
    served: Serving, plain: list[str]
) -> None:
    await _grant(served)
    asks = [
        (b"Acquire", b'"lease":"a~1"', b" 200 ", b'"won":true'),
        (b"Release", b'"token":1', b" 200 ", b'"holder":null'),
        (b"Acquire", b'"lease":"a~2"', b" 410 ", b"lease-ended"),
    ]
    async with served.wire() as wire:
        for kind, named, status, said in asks:
            body = b'{"kind":"%bRequest","candidate":"me",%b}' % (kind, named)
            answer = await wire.ask(asked("PATCH", "/core/locks/a", body=body))
            assert status in answer
            assert said in answer
    assert len(plain) == len(asks)


async def _all_of(wire: Wire, request: bytes) -> bytes:
    """Send a request, then one that closes the connection; return all answers."""
    try:
        first = await wire.ask(request)
    except asyncio.IncompleteReadError as error:
        return error.partial
    wire.writer.write(asked("GET", "/health/live", b"Connection: close\r\n"))
    async with asyncio.timeout(SOON_S):
        rest = await wire.reader.read()
    return first + re.sub(rb"Date: [^\r]*\r\n", b"", rest)


@pytest.mark.parametrize(
    "body", [b'{"documentLeaseLink":"/core/leases/x"}', b'{"document\\u004ceaseLink":"x"}']
)
async def test_a_lease_in_the_body_is_seen(served: Serving, plain: list[str], body: bytes) -> None:
    async with served.wire() as wire:
        first = await wire.ask(asked("PUT", "/t/l", body=body))
        second = await wire.ask(asked("PUT", "/t/l", UNUSUAL, body=body))
    assert first == second
    assert not first.startswith(b"HTTP/1.1 20")
    assert plain == ["PUT /t/l"]


async def test_an_internal_error_is_a_problem_response_and_is_counted(served: Serving) -> None:
    async with served.wire() as wire:
        await wire.ask(PUT)
        served.node.fails = True
        first, second = await wire.ask(GET), await wire.ask(asked("GET", "/t/a", UNUSUAL))
    assert first == second
    assert first.startswith(b"HTTP/1.1 500 ")
    assert b"passwd" not in first
    assert served.server.metrics.internal_errors == 2


async def test_an_internal_error_of_the_owner_is_counted_alike(served: Serving) -> None:
    broken = Answer(500, "internal", "the author's handler failed")
    served.node.answers += [broken, broken]
    async with served.wire() as wire:
        first, second = await wire.ask(GET), await wire.ask(asked("GET", "/t/a", UNUSUAL))
    assert first == second
    assert first.startswith(b"HTTP/1.1 500 ")
    assert served.server.metrics.internal_errors == 2


# Requests that are cut


@pytest.mark.parametrize(
    "request_bytes", [asked("PUT", "/t/a", b'If-Match: "9.9"\r\n', body=b'{"a":2}'), GET]
)
async def test_a_request_cut_anywhere_gets_the_same_answer(
    served: Serving, request_bytes: bytes
) -> None:
    async with served.wire() as wire:
        await wire.ask(PUT)
        whole = await wire.ask(request_bytes)
        for cut in range(1, len(request_bytes)):
            wire.writer.write(request_bytes[:cut])
            await wire.writer.drain()
            await asyncio.sleep(0)
            wire.writer.write(request_bytes[cut:])
            assert await wire.answer() == whole
        for byte in request_bytes:
            wire.writer.write(bytes([byte]))
            await asyncio.sleep(0)
        assert await wire.answer() == whole
