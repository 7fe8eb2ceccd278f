"""A stopping server waits for its running requests, and not for idle connections."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager, closing
from typing import Any

import aiohttp
import pytest
from aiohttp.web_protocol import RequestHandler

from docstore.http.listener import Listener
from docstore.http.server import HttpServer
from docstore.model.limits import Limits
from tests.docstore.http.single import SingleNode
from tests.docstore.http.wires import Wire, until

LONG_S, SOON_S = 3600.0, 10.0
"""A grace longer than any test, and a deadline for events that must not wait for it."""
PATIENT = Limits(body_timeout_s=LONG_S, first_request_timeout_s=LONG_S, keepalive_timeout_s=LONG_S)


async def started(node: SingleNode) -> tuple[HttpServer, int]:
    server = HttpServer(node, PATIENT)
    return server, await server.start("127.0.0.1", 0)


async def soon(what: Awaitable[Any]) -> Any:
    return await asyncio.wait_for(what, SOON_S)


async def test_idle_connections_are_not_waited_for() -> None:
    server, port = await started(SingleNode())
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
    await reader.readuntil(b"\r\n\r\n")
    with closing(writer):
        await soon(server.stop(LONG_S))


async def test_a_connection_made_during_the_stop_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server, port = await started(SingleNode())
    stopped: asyncio.Future[asyncio.Task[None]] = asyncio.get_running_loop().create_future()
    made = Listener.connection_made

    def stop_first(
        listener: Listener, handler: RequestHandler, transport: asyncio.Transport
    ) -> None:
        made(listener, handler, transport)
        # This task runs before the task of the connection, which does not exist yet.
        stopped.set_result(asyncio.create_task(server.stop(LONG_S)))

    monkeypatch.setattr(Listener, "connection_made", stop_first)
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    with closing(writer):
        await soon(await stopped)


async def test_a_connection_made_after_the_stop_is_closed() -> None:
    server, port = await started(SingleNode())
    listener = server._listener
    assert listener is not None
    await server.stop(LONG_S)
    # As if it had been accepted before the stop.
    late = await asyncio.get_running_loop().create_server(listener, "127.0.0.1", 0)
    async with late:
        port = late.sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        with closing(writer):
            assert await soon(reader.read()) == b""


async def test_a_running_request_is_answered(node: SingleNode) -> None:
    server, port = await started(node)
    asked: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    node.waits.append(asked)
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
        request = asyncio.create_task(_status(session))
        while node.waits:
            await asyncio.sleep(0)
        stopping = asyncio.create_task(server.stop(LONG_S))
        await asyncio.sleep(0)
        asked.set_result(None)
        assert await soon(request) == 201
        await soon(stopping)


async def _status(session: aiohttp.ClientSession) -> int:
    async with session.post("/core/factories", json={"path": "/late"}) as response:
        return response.status


BODY = b'{"path":"/crossing"}'
HEAD = (
    b"POST /core/factories HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Content-Length: %d\r\n\r\n" % len(BODY)
)
LIVE = b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"


@asynccontextmanager
async def connected(server: HttpServer, port: int) -> AsyncIterator[Wire]:
    """Connect, and get one answer, so that the connection is established."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    with closing(writer):
        wire = Wire(reader, writer)
        await wire.ask(LIVE)
        yield wire


async def test_a_request_whose_body_crosses_the_stop_is_answered() -> None:
    server, port = await started(SingleNode())
    async with connected(server, port) as wire:
        wire.writer.write(HEAD + BODY[:3])
        (connection,) = server._listener._open  # type: ignore[union-attr]
        await until(lambda: connection._request_count == 2)
        stopping = asyncio.create_task(server.stop(LONG_S))
        for _ in range(5):
            await asyncio.sleep(0)
        wire.writer.write(BODY[3:])
        answer = await wire.answer()
        assert answer.startswith(b"HTTP/1.1 201 ")
        assert b"\r\nConnection: close\r\n" in answer
        await soon(stopping)


async def test_a_request_without_its_whole_body_is_408() -> None:
    server, port = await started(SingleNode())
    async with connected(server, port) as wire:
        wire.writer.write(HEAD + BODY[:3])
        (connection,) = server._listener._open  # type: ignore[union-attr]
        await until(lambda: connection._request_count == 2)
        await soon(server.stop(0.05))
        assert (await wire.answer()).startswith(b"HTTP/1.1 408 ")


async def test_pipelined_requests_are_answered_before_the_stop(node: SingleNode) -> None:
    server, port = await started(node)
    async with connected(server, port) as wire:
        held: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        node.waits.append(held)
        wire.writer.write(HEAD + BODY + LIVE * 3)
        await until(lambda: not node.waits)
        server.send_away()
        stopping = asyncio.create_task(server.stop(LONG_S))
        await asyncio.sleep(0)
        held.set_result(None)
        answers = [await wire.answer() for _ in range(4)]
        assert [each[9:12] for each in answers] == [b"201", b"200", b"200", b"200"]
        assert [b"\r\nConnection: close\r\n" in each for each in answers] == [False] * 3 + [True]
        await soon(stopping)


async def test_a_request_head_in_two_parts_is_answered_until_the_stop() -> None:
    server, port = await started(SingleNode())
    async with connected(server, port) as left, connected(server, port) as wire:
        server.send_away()
        for each in (left, wire):
            each.writer.write(LIVE[:20])
        connections = server._listener._open  # type: ignore[union-attr]
        await until(lambda: [each._head_bytes for each in connections] == [20, 20])
        wire.writer.write(LIVE[20:])
        assert (await wire.answer()).startswith(b"HTTP/1.1 200 ")
        await soon(server.stop(LONG_S))
        assert (await left.answer()).startswith(b"HTTP/1.1 503 ")


async def test_unread_requests_are_answered_before_the_stop() -> None:
    server, port = await started(SingleNode())
    async with connected(server, port) as wire:
        (connection,) = server._listener._open  # type: ignore[union-attr]
        connection._wire.pause_reading()  # type: ignore[attr-defined]
        wire.writer.write(LIVE)
        await until(connection.is_sending)
        stopping = asyncio.create_task(server.stop(LONG_S))
        await until(lambda: connection._leaves)
        connection._wire.resume_reading()  # type: ignore[attr-defined]
        assert (await wire.answer()).startswith(b"HTTP/1.1 200 ")
        await soon(stopping)


async def test_an_endless_body_is_waited_for_no_longer_than_the_limit() -> None:
    server, port = await started(SingleNode())
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    with closing(writer):
        head = b"POST /core/factories HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n{"
        writer.write(head)
        while server.metrics.connections == 0:
            await asyncio.sleep(0)
        await soon(server.stop(0.1))


async def test_a_shared_port_is_served_by_all_nodes_and_closed_first() -> None:
    servers = [HttpServer(SingleNode(), PATIENT) for _ in range(2)]
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    for server in servers:
        await server.start("127.0.0.1", 0)
        await server.share("127.0.0.1", port)
    with pytest.raises(ConnectionRefusedError):  # No server listens yet.
        await asyncio.open_connection("127.0.0.1", port)
    for server in servers:
        await server.serve_shared()
    first, second = servers
    await soon(_until_all_have_some(servers, port))
    first.send_away()
    known = second.metrics.connections
    for _ in range(20):
        await _status_at(port)
    assert first.metrics.connections == 0
    second.send_away()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)
    assert known == 0
    for server in servers:
        await soon(server.stop(LONG_S))


async def _until_all_have_some(servers: list[HttpServer], port: int) -> None:
    while not all(server.metrics._requests["GET", 200] for server in servers):
        await _status_at(port)
    while any(server.metrics.connections for server in servers):
        await asyncio.sleep(0)


async def _status_at(port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    with closing(writer):
        writer.write(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 200 ")
