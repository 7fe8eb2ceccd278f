"""Nodes that accept a request or a connection and do not answer, and nodes that leave.

The tests check which node the client tries next, and whether it sends an update again.
"""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, suppress
from typing import Any

import aiohttp
import pytest

from docstore.client import Client, Unanswered, Unreachable, requests

ANSWER = b"HTTP/1.1 200 OK\r\nServer: docstore\r\nContent-Length: 2\r\n%b\r\n{}"
LONG_S = 300.0


class Node:
    """Answers requests without a body, or takes one and is silent until the test is over.

    is_leaving: it closes the connection after its answer.
    """

    def __init__(self, *, is_silent: bool = False, is_leaving: bool = False) -> None:
        self.is_silent, self.is_leaving, self.heard = is_silent, is_leaving, 0
        self.is_over = asyncio.Event()
        self.tasks: list[asyncio.Task[None]] = []

    def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.tasks.append(asyncio.create_task(self._serve(reader, writer)))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError):
            while not self.is_over.is_set():
                await reader.readuntil(b"\r\n\r\n")
                self.heard += 1
                if self.is_silent:
                    await self.is_over.wait()
                else:
                    writer.write(ANSWER % (b"Connection: close\r\n" if self.is_leaving else b""))
                if self.is_leaving:
                    break
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


@asynccontextmanager
async def serving(*nodes: Node) -> AsyncIterator[list[str]]:
    servers = [await asyncio.start_server(node.connected, "127.0.0.1", 0) for node in nodes]
    try:
        yield [f"http://127.0.0.1:{each.sockets[0].getsockname()[1]}" for each in servers]
    finally:
        for node, server in zip(nodes, servers, strict=True):
            node.is_over.set()
            server.close()
            await asyncio.gather(*node.tasks)


@pytest.fixture
def silent() -> Node:
    return Node(is_silent=True)


@pytest.fixture
def well() -> Node:
    return Node()


async def test_a_read_continues_at_the_next_node(
    silent: Node, well: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once, the client waited for thirty seconds, and then tried the silent node again."""
    monkeypatch.setattr(requests, "ANSWER_S", 1.0)
    async with serving(silent, well) as urls, Client(urls, timeout_s=LONG_S) as client:
        assert await client.json("GET", "/notes/a") == {}
        assert await client.json("GET", "/notes/a") == {}
    assert (silent.heard, well.heard) == (1, 2)


async def test_a_node_may_be_silent_for_the_requested_wait(
    silent: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "ANSWER_S", 0.1)
    async with serving(silent) as urls, Client(urls, timeout_s=LONG_S) as client:
        asking = asyncio.create_task(client.request("GET", "/core/changes", wait_s=LONG_S))
        done, _ = await asyncio.wait({asking}, timeout=0.5)
        asking.cancel()
    assert not done
    assert silent.heard == 1


async def test_a_read_is_retried_within_its_timeout_only(silent: Node) -> None:
    async with serving(silent) as urls, Client(urls, timeout_s=0.2) as client:
        with pytest.raises(Unreachable, match=r"no node answers: .*: no answer in time"):
            await client.json("GET", "/notes/a")
    assert silent.heard < 3


async def test_another_node_is_tried_first_after_an_unanswered_update(
    silent: Node, well: Node
) -> None:
    async with serving(silent, well) as urls, Client(urls, timeout_s=0.2) as client:
        with pytest.raises(Unanswered, match="may have happened"):
            await client.json("PUT", "/notes/a", {})
        assert await client.json("PUT", "/notes/a", {}) == {}
    assert (silent.heard, well.heard) == (1, 1)


async def test_an_update_without_a_connection_is_sent_to_the_next_node(
    well: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine without power refuses no connection. Once, the update was reported as in doubt."""
    monkeypatch.setattr(requests, "CONNECT_S", 0.1)
    with ExitStack() as stack:
        dead = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(8):  # The backlog is full after them.
            caller = stack.enter_context(socket.socket())
            caller.setblocking(False)
            caller.connect_ex(dead.getsockname())
        url = f"http://127.0.0.1:{dead.getsockname()[1]}"
        async with serving(well) as urls, Client([url, *urls], timeout_s=LONG_S) as client:
            assert await client.json("PUT", "/notes/a", {}) == {}
    assert well.heard == 1


async def test_a_refused_connection_is_reported_without_tls() -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    async with Client([f"http://127.0.0.1:{port}"], timeout_s=0.5) as client:
        with pytest.raises(Unreachable, match=rf"connect to host 127.0.0.1:{port} \[Connect call"):
            await client.json("GET", "/notes/a")


async def test_a_node_that_sends_its_clients_away_is_not_tried_again(well: Node) -> None:
    leaving = Node(is_leaving=True)
    async with serving(leaving, well) as urls, Client(urls) as client:
        for _ in range(3):
            assert await client.json("DELETE", "/notes/a") == {}
    assert (leaving.heard, well.heard) == (1, 2)


async def test_an_update_is_resent_if_its_connection_closed_before_the_write(
    well: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stopping node may close an idle connection just before the client uses it."""
    write_bytes, closed = aiohttp.ClientRequest.write_bytes, []

    async def written(request: Any, writer: Any, connection: Any, *more: Any) -> None:
        if not closed:
            closed.append(connection)
            connection.transport.close()
        await write_bytes(request, writer, connection, *more)

    monkeypatch.setattr(aiohttp.ClientRequest, "write_bytes", written)
    async with serving(well) as urls, Client(urls) as client:
        status, _, _ = await client.request("PUT", "/notes/a", b"\r\n\r\n", requests.JSON)
    assert status == 200
    assert len(closed) == 1
