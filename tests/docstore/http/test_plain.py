"""Plain requests are served without a task, and nobody can tell.

Whatever a client sends, however it is cut: what is plain gets the very bytes that the other way
gives, in order, and the connection lives and ends as aiohttp's do.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from docstore.http.large import LARGE_BYTES
from docstore.http.plain import PlainRequest, PlainRequests
from docstore.http.server import HttpServer
from docstore.limits import Limits
from docstore.model.operation import Answer
from tests.docstore.http.single import SingleNode

LONG_S, SOON_S = 3600.0, 10.0
PATIENT = Limits(body_timeout_s=LONG_S, first_request_timeout_s=LONG_S, keepalive_timeout_s=LONG_S)
SMALL = Limits(body_bytes_max=200)
UNUSUAL = b"X-Request-Id: unusual\r\n"
"""A header that plain requests do not have."""
CONNECTIONS, CONNECTIONS_SLOW = 200, 2_000


def asked(
    method: str, path: str, *lines: bytes, body: bytes | None = None, media: str | None = None
) -> bytes:
    """Return a request as it goes over the wire."""
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n".encode() + b"".join(lines)
    if body is None:
        return head + b"\r\n"
    head += f"Content-Type: {media or 'application/json'}\r\n".encode()
    return head + b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


CHUNKED = (
    b"PUT /t/a HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
)
PUT, GET = asked("PUT", "/t/a", body=b'{"a":1}'), asked("GET", "/t/a")


class Wire:
    """One connection, on which answers are read one by one."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def answer(self, *, is_head: bool = False) -> bytes:
        """Return the next answer, without what no two answers share. is_head: it has no body."""
        async with asyncio.timeout(SOON_S):
            head = await self.reader.readuntil(b"\r\n\r\n")
            found = re.search(rb"\r\nContent-Length: (\d+)\r\n", head)
            body = await self.reader.readexactly(int(found[1])) if found and not is_head else b""
        return re.sub(rb"Date: [^\r]*\r\n", b"", head) + body

    async def ask(self, request: bytes) -> bytes:
        """Send a request, and return its answer."""
        self.writer.write(request)
        return await self.answer(is_head=request.startswith(b"HEAD"))

    async def is_closed(self) -> bool:
        """Say whether the server has closed, once it has said all."""
        async with asyncio.timeout(SOON_S):
            return await self.reader.read() == b""


class Serving:
    """A server with the factory /t, and how many requests it has found plain."""

    def __init__(self, node: SingleNode, server: HttpServer, port: int) -> None:
        self.node, self.server, self.port = node, server, port

    @property
    def connections(self) -> set[Any]:
        """The connections that it has."""
        assert self.server._listener is not None
        return set(self.server._listener._open)

    @asynccontextmanager
    async def wire(self) -> AsyncIterator[Wire]:
        """Connect."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        with closing(writer):
            yield Wire(reader, writer)


@asynccontextmanager
async def serving(limits: Limits = PATIENT) -> AsyncIterator[Serving]:
    node = SingleNode()
    server = HttpServer(node, limits)
    found = Serving(node, server, await server.start("127.0.0.1", 0))
    async with found.wire() as wire:
        declared = await wire.ask(asked("POST", "/core/factories", body=b'{"path":"/t"}'))
        assert declared.startswith(b"HTTP/1.1 201 ")
    yield found
    await server.stop(0.1)


@pytest.fixture
async def served() -> AsyncIterator[Serving]:
    async with serving() as found:
        yield found


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is served without a task: methods and paths."""
    seen: list[str] = []
    serve = PlainRequests.serve

    def noted(self: PlainRequests, request: PlainRequest) -> None:
        seen.append(f"{request.method} {request.raw_path}")
        serve(self, request)

    monkeypatch.setattr(PlainRequests, "serve", noted)
    return seen


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(SOON_S):
        while not condition():
            await asyncio.sleep(0.001)


# Which are plain


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
    ],
)
async def test_this_is_plain(served: Serving, plain: list[str], request_bytes: bytes) -> None:
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
        b"GET http://localhost/t/a HTTP/1.1\r\nHost: localhost\r\n\r\n",
        CHUNKED,
    ],
)
async def test_this_is_not(served: Serving, plain: list[str], request_bytes: bytes) -> None:
    async with served.wire() as wire:
        await wire.ask(request_bytes)
    assert not plain


async def test_nor_is_a_large_body_that_came_at_once(served: Serving, plain: list[str]) -> None:
    async with served.wire() as wire:
        await wire.ask(PUT)
        (connection,) = served.connections
        connection.data_received(asked("PUT", "/t/a", body=b'{"a":"%b"}' % (b"x" * LARGE_BYTES)))
        assert (await wire.answer()).startswith(b"HTTP/1.1 200 ")
    assert plain == ["PUT /t/a"]


async def test_what_may_only_be_read_is_not_plain(
    served: Serving, plain: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    service = served.node.registry.service_at("/t")
    assert service is not None
    monkeypatch.setattr(service, "options", replace(service.options, read_only=True))
    async with served.wire() as wire:
        assert (await wire.ask(PUT)).startswith(b"HTTP/1.1 405 ")
    assert not plain


async def test_a_foreign_host_is_refused(served: Serving, plain: list[str]) -> None:
    async with served.wire() as wire:
        refused = await wire.ask(GET.replace(b"localhost", b"elsewhere.example"))
    assert refused.startswith(b"HTTP/1.1 421 ")
    assert plain == ["GET /t/a"]


async def test_a_plain_request_makes_no_task(served: Serving) -> None:
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


# Nobody can tell

PATHS = st.sampled_from(
    "/t/a /t/b /t/a%20b /t/%C3%A9 /t/%zz /t//a /t/.. /t/a/ /t /t/stats /t/a/versions /t/~x /t/a?b"
    " /u/a / * /t/%2F /t/a#b /core/factories/t /core/nothing /T/a /t/\x7f".split()
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


async def _all_of(wire: Wire, request: bytes) -> bytes:
    """Return all that is said until the server closes; it is asked to after the request."""
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


async def test_what_fails_in_us_is_a_problem_that_is_counted(served: Serving) -> None:
    async with served.wire() as wire:
        await wire.ask(PUT)
        served.node.fails = True
        first, second = await wire.ask(GET), await wire.ask(asked("GET", "/t/a", UNUSUAL))
    assert first == second
    assert first.startswith(b"HTTP/1.1 500 ")
    assert b"passwd" not in first
    assert served.server.metrics.internal_errors == 2


async def test_so_is_what_fails_at_its_owner(served: Serving) -> None:
    broken = Answer(500, "internal", "the author's handler failed")
    served.node.answers += [broken, broken]
    async with served.wire() as wire:
        first, second = await wire.ask(GET), await wire.ask(asked("GET", "/t/a", UNUSUAL))
    assert first == second
    assert first.startswith(b"HTTP/1.1 500 ")
    assert served.server.metrics.internal_errors == 2


# However it is cut


@pytest.mark.parametrize(
    "request_bytes", [asked("PUT", "/t/a", b'If-Match: "9.9"\r\n', body=b'{"a":2}'), GET]
)
async def test_cut_anywhere_it_is_the_same_request(served: Serving, request_bytes: bytes) -> None:
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


async def test_a_burst_is_answered_in_order(served: Serving, plain: list[str]) -> None:
    links = [f"/t/{number}" for number in range(150)]
    burst = [asked("PUT", link, body=b'{"n":"%b"}' % link.encode()) for link in links]
    burst += [asked("GET", link, UNUSUAL if at % 3 else b"") for at, link in enumerate(links)]
    async with served.wire() as wire:
        wire.writer.write(b"".join(burst))
        for link in links + links:
            answer = await wire.answer()
            assert answer.startswith(b"HTTP/1.1 20")
            assert answer.count(b'"n":"%b"' % link.encode()) == 1


async def test_what_comes_while_one_is_served_waits_for_its_turn(
    served: Serving, plain: list[str]
) -> None:
    async with served.wire() as wire:
        await wire.ask(PUT)
        held: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        served.node.waits.append(held)
        wire.writer.write(asked("PUT", "/t/slow", body=b"{}") + GET[:20])
        await until(lambda: not served.node.waits)
        wire.writer.write(GET[20:] + GET + PUT)
        (connection,) = [each for each in served.connections if each._kept is not None]
        await until(lambda: len(connection._messages) == 3)
        held.set_result(None)
        assert b'"documentSelfLink":"/t/slow"' in await wire.answer()
        for _ in range(3):
            assert b'"documentSelfLink":"/t/a"' in await wire.answer()
    assert plain == ["PUT /t/a", "PUT /t/slow"]


# How the connection lives, and ends


async def test_the_server_waits_for_it_when_it_stops() -> None:
    async with serving() as served, served.wire() as wire:
        await wire.ask(PUT)
        held: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        served.node.waits.append(held)
        wire.writer.write(GET)
        await until(lambda: not served.node.waits)
        stopping = asyncio.create_task(served.server.stop(LONG_S))
        await asyncio.sleep(0.01)
        assert not stopping.done()
        held.set_result(None)
        assert (await wire.answer()).startswith(b"HTTP/1.1 200 ")
        assert await wire.is_closed()
        await asyncio.wait_for(stopping, SOON_S)


async def test_it_is_not_waited_for_longer_than_said() -> None:
    async with serving() as served, served.wire() as wire:
        await wire.ask(PUT)
        held: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        served.node.waits.append(held)
        wire.writer.write(GET)
        await until(lambda: not served.node.waits)
        await asyncio.wait_for(served.server.stop(0.05), SOON_S)
        held.set_result(None)  # Nobody is there to hear it.
        assert await wire.is_closed()


async def test_a_node_that_stops_without_an_answer_hangs_up(
    served: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served.wire() as wire:
        await wire.ask(PUT)
        never: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        monkeypatch.setattr(served.node, "submit", lambda operation, timeout_s: never)
        wire.writer.write(GET)
        await until(lambda: any(each._kept is not None for each in served.connections))
        never.cancel()
        assert await wire.is_closed()


async def test_a_client_that_has_gone_is_counted_and_forgotten(served: Serving) -> None:
    held: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    served.node.waits.append(held)
    async with served.wire() as wire:
        wire.writer.write(PUT)
        await until(lambda: not served.node.waits)
    (connection,) = served.connections
    task = connection._task_handler
    await until(lambda: not served.connections)
    assert served.server.metrics._requests["PUT", 201] == 0
    held.set_result(None)
    await until(lambda: served.server.metrics._requests["PUT", 201] == 1)
    await until(task.done)


async def test_silence_while_it_is_served_closes_nothing() -> None:
    brief = Limits(keepalive_timeout_s=0.05, first_request_timeout_s=LONG_S)
    async with serving(brief) as served, served.wire() as wire:
        held: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        served.node.waits.append(held)
        wire.writer.write(PUT)
        (connection,) = served.connections
        await until(lambda: connection._kept is not None and connection._keepalive_handle is None)
        held.set_result(None)
        assert (await wire.answer()).startswith(b"HTTP/1.1 201 ")
        assert await wire.is_closed()  # Its silence after that does.


async def test_who_is_sent_away_is_told_so(served: Serving) -> None:
    async with served.wire() as wire:
        await wire.ask(PUT)
        served.server.send_away()
        assert b"\r\nConnection: close\r\n" in await wire.ask(GET)
        assert await wire.is_closed()


@pytest.mark.parametrize("line", [b"Connection: close\r\n", b""])
async def test_who_wants_no_more_is_closed(served: Serving, line: bytes) -> None:
    request = asked("GET", "/t/a", line)
    async with served.wire() as wire:
        answer = await wire.ask(request if line else request.replace(b"1.1", b"1.0"))
        assert b"\r\nConnection: close\r\n" in answer
        assert await wire.is_closed()


async def test_a_client_that_does_not_read_is_not_served_on(served: Serving) -> None:
    big = b'{"a":"' + b"x" * 60_000 + b'"}'
    asking, served_so_far = 400, served.server.metrics._requests
    async with served.wire() as wire:
        await wire.ask(asked("PUT", "/t/big", body=big))
        (connection,) = served.connections
        sent = 0
        async with asyncio.timeout(SOON_S):
            while not connection._messages:
                assert sent < asking
                if served_so_far["GET", 200] == sent:  # One at a time, so that each is plain.
                    sent += 1
                    wire.writer.write(asked("GET", "/t/big"))
                await asyncio.sleep(0.001)
        assert connection.writing_paused
        for _ in range(sent):
            assert len(await wire.answer()) > len(big)
        assert (await wire.ask(PUT)).startswith(b"HTTP/1.1 201 ")


async def many(served: Serving, connections: int) -> None:
    async def one(number: int) -> None:
        link = f"/t/{number}"
        async with served.wire() as wire:
            for _ in range(3):
                await wire.ask(asked("PUT", link, body=b'{"n":%d}' % number))
                answer = await wire.ask(asked("GET", link))
                assert b'"n":%d,' % number in answer

    await asyncio.gather(*[one(number) for number in range(connections)])
    await until(lambda: not served.connections)


async def test_many_connections(served: Serving) -> None:
    await many(served, CONNECTIONS)


@pytest.mark.slow
async def test_very_many_connections() -> None:
    wide = Limits(connections_per_address_max=CONNECTIONS_SLOW)
    async with serving(wide) as served:
        await many(served, CONNECTIONS_SLOW)
