"""Connections of clients that do not read their answers are aborted, for each kind of answer."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from dataclasses import replace

import pytest
from aiohttp import web

from docstore.http.connection import Connection
from docstore.http.listener import Listener
from docstore.http.long_poll import TooManyWait, waiting
from docstore.http.metrics import HttpMetrics
from docstore.http.reply import Reply, streamed
from docstore.http.server import HttpServer
from docstore.http.slow_readers import LOOKS, Mark, SlowReaders
from docstore.model.limits import Limits
from tests.docstore.http.single import SingleNode
from tests.docstore.http.wires import GET, PATIENT, UNUSUAL, asked, serving, until

BRIEF = replace(PATIENT, send_timeout_s=0.1)
LARGE = 900_000
Handle = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class Client:
    """A connection with the marks of a test."""

    def __init__(self, *marks: Mark | None) -> None:
        self.marks, self.is_cut = list(marks), False

    def mark(self) -> Mark | None:
        return self.marks.pop(0)

    def abort(self) -> None:
        self.is_cut = True


def test_a_client_without_progress_for_the_whole_span_is_aborted() -> None:
    client, unread = Client(*[(1, 0, 5)] * (LOOKS + 1)), SlowReaders()
    for _ in range(LOOKS):
        assert unread.look([client]) == 0
    assert not client.is_cut
    assert unread.look([client]) == 1
    assert client.is_cut


def test_a_slow_client_and_one_that_read_everything_are_kept() -> None:
    still: list[Mark | None] = [(1, 0, 5)] * LOOKS
    slow, fast = Client(*still, (1, 0, 6), *still), Client(*still, None, *still, (1, 0, 5))
    unread = SlowReaders()
    for _ in range(2 * LOOKS + 1):
        assert unread.look([slow, fast]) == 0


@asynccontextmanager
async def deaf(port: int) -> AsyncIterator[socket.socket]:
    """Connect with a small receive buffer."""
    with closing(socket.socket()) as caller:
        caller.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        caller.setblocking(False)
        await asyncio.get_running_loop().sock_connect(caller, ("127.0.0.1", port))
        yield caller


@pytest.mark.parametrize("line", [b"", UNUSUAL])
async def test_unread_plain_answers_abort_the_connection(line: bytes) -> None:
    async with serving(BRIEF) as served:
        async with served.wire() as wire:
            await wire.ask(asked("PUT", "/t/a", body=b'{"a":"%b"}' % (b"a" * LARGE)))
        await until(lambda: not served.connections)
        async with deaf(served.port) as caller:
            await asyncio.get_running_loop().sock_sendall(caller, asked("GET", "/t/a", line) * 20)
            await until(lambda: served.server.metrics.send_timeouts == 1)
            await until(lambda: not served.connections)


async def test_unread_answers_abort_an_orderly_close() -> None:
    """Once, an orderly close waited for ever until the client read the last answer."""
    async with serving(replace(BRIEF, keepalive_timeout_s=0.05)) as served:
        async with served.wire() as wire:
            await wire.ask(asked("PUT", "/t/a", body=b'{"a":"%b"}' % (b"a" * LARGE)))
        await until(lambda: not served.connections)
        async with deaf(served.port) as caller:
            last = asked("GET", "/t/a", b"Connection: close\r\n")
            await asyncio.get_running_loop().sock_sendall(caller, GET * 20 + last)
            await until(lambda: served.server.metrics.send_timeouts == 1)
            await until(lambda: not served.connections)


async def test_requests_after_the_last_one_do_not_lose_its_answer() -> None:
    """A socket closed with unread input is reset, and its client would lose the answer."""
    last = asked("GET", "/t/a", b"Connection: close\r\n")
    async with serving(PATIENT) as served, served.wire() as wire:
        wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
        wire.writer.write(last)
        await until(lambda: not served.connections)
        for _ in range(50):
            wire.writer.write(GET * 100)
            await asyncio.sleep(0.001)
        wire.writer.transport.resume_reading()  # type: ignore[attr-defined]
        assert (await wire.answer()).startswith(b"HTTP/1.1 404 ")
        assert await wire.is_closed()


async def test_a_refused_connection_that_already_sent_gets_its_answer() -> None:
    async with serving(replace(PATIENT, connections_max=1)) as served:
        await until(lambda: not served.connections)
        async with served.wire() as first:
            await first.ask(GET)
            for _ in range(20):
                with closing(socket.create_connection(("127.0.0.1", served.port))) as late:
                    late.sendall(asked("PUT", "/t/a", body=b"{}"))
                    late.setblocking(False)
                    answer = await asyncio.get_running_loop().sock_recv(late, 1 << 16)
                    assert answer.startswith(b"HTTP/1.1 503 ")


async def test_a_lingering_socket_is_closed_after_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("docstore.http.slow_readers.LINGER_S", 0.05)
    async with serving(PATIENT) as served, served.wire() as wire:
        await wire.ask(asked("GET", "/t/a", b"Connection: close\r\n"))
        assert served.server._listener is not None
        await until(lambda: not served.server._listener._lingering)  # type: ignore[union-attr]


@asynccontextmanager
async def listening(handle: Handle, limits: Limits) -> AsyncIterator[tuple[Listener, int]]:
    metrics = HttpMetrics()
    listener = Listener(handle, HttpServer(SingleNode(), limits)._fast_path, limits, metrics)
    server = await asyncio.get_running_loop().create_server(listener, "127.0.0.1", 0)
    async with server:
        yield listener, server.sockets[0].getsockname()[1]
        await listener.close(0.1)


async def test_an_unread_stream_is_aborted() -> None:
    ended = asyncio.Event()

    async def stream(request: web.BaseRequest) -> web.StreamResponse:
        response = streamed("text/event-stream")
        await response.prepare(request)
        try:
            while True:
                await response.write(b"data: %b\n\n" % (b"a" * 10_000))
        finally:
            ended.set()

    async with listening(stream, BRIEF) as (listener, port), deaf(port) as caller:
        await asyncio.get_running_loop().sock_sendall(caller, GET)
        async with asyncio.timeout(10):
            await ended.wait()
        assert listener._metrics.send_timeouts == 1


async def test_a_client_that_still_sends_its_request_makes_progress() -> None:
    """A client may read the results of a long bulk request after it has sent the whole request."""
    going_on = asyncio.Event()

    async def results(request: web.BaseRequest) -> web.StreamResponse:
        response = streamed("application/x-ndjson")
        await response.prepare(request)
        await request.writer.write(b"a" * 20_000_000, drain=False)  # type: ignore[call-arg]
        await request.read()
        await going_on.wait()
        return Reply(200)

    async with listening(results, PATIENT) as (listener, port), deaf(port) as caller:
        send = asyncio.get_running_loop().sock_sendall
        await send(caller, asked("PUT", "/t/a", body=b"{}")[:-2])
        await until(lambda: any(each.mark() for each in listener._open))
        (connection,) = listener._open
        assert isinstance(connection, Connection)
        for number, piece in enumerate((b"{", b"}"), 1):
            await send(caller, piece)
            await until(lambda: sent(connection) == number)  # noqa: B023 - at once
        going_on.set()


def sent(connection: Connection) -> int:
    """Return the progress of the request body of a client with unread answers."""
    mark = connection.mark()
    assert mark is not None
    return mark[1]


async def test_waiting_requests_are_bounded_and_end_with_their_connections(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("docstore.http.long_poll.WAITING_MAX", 2)
    ended: list[str] = []

    async def wait(request: web.BaseRequest) -> web.StreamResponse:
        try:
            with waiting(request):
                await asyncio.Event().wait()
        except TooManyWait as error:
            return Reply(error.status)
        finally:
            ended.append(request.raw_path)
        return Reply(200)

    async with listening(wait, PATIENT) as (listener, port):
        held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
        for number, (_, writer) in enumerate(held):
            writer.write(asked("GET", f"/{number}"))
            await until(lambda: listener._metrics.waiting == min(2, number + 1))  # noqa: B023
        assert (await held[2][0].readline()).startswith(b"HTTP/1.1 503 ")
        for _, writer in held:
            writer.close()
        await until(lambda: sorted(ended) == ["/0", "/1", "/2"])
        assert listener._metrics.waiting == 0


async def test_a_request_of_a_disconnected_client_does_not_wait() -> None:
    has_gone = asyncio.Event()
    began: list[str] = []
    ended: list[str] = []

    async def wait(request: web.BaseRequest) -> web.StreamResponse:
        began.append(request.raw_path)
        await has_gone.wait()
        try:
            with waiting(request):
                await asyncio.Event().wait()
        finally:
            ended.append(request.raw_path)
        return Reply(200)

    async with listening(wait, PATIENT) as (listener, port):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(asked("GET", "/0"))
        await until(lambda: began == ["/0"])
        writer.close()
        await until(lambda: not listener._open)
        has_gone.set()
        await until(lambda: ended == ["/0"])
        assert listener._metrics.waiting == 0
