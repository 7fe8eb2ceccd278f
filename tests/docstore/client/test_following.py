"""Whoever follows changes, while all nodes are away for a while."""

import asyncio

import pytest

from docstore.client import Client, Unreachable, requests

BODY = b'{"complete": true, "rows": 0, "next": "%d"}\n'
HEAD = (
    b"HTTP/1.1 200 OK\r\nServer: docstore\r\nConnection: close\r\n"
    b"Content-Type: application/x-ndjson\r\n"
    b"Content-Length: %d\r\n\r\n"
)


class Node:
    """Shows that nothing has changed, and notes from where on it was asked."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        size = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
        asked = await reader.readexactly(size)
        self.heard.append(asked.partition(b'"since":"')[2].partition(b'"')[0])
        body = BODY % len(self.heard)
        writer.write(HEAD % len(body) + body)
        writer.close()


async def test_it_goes_on_where_it_was_when_they_are_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "ATTEMPTS", 1)
    node = Node()
    server = await asyncio.start_server(node.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with Client([f"http://127.0.0.1:{port}"]) as client:
        changes = aiter(client.changes("/notes", since="earliest", wait_s=1))
        assert (await anext(changes)).next == "1"
        server.close()
        following = asyncio.ensure_future(anext(changes))
        done, _ = await asyncio.wait({following}, timeout=0.5)
        assert not done
        async with await asyncio.start_server(node.serve, "127.0.0.1", port):
            async with asyncio.timeout(10):
                assert (await following).next == "2"
    assert node.heard == [b"earliest", b"1"]


async def test_it_says_at_once_that_nobody_is_there_to_begin_with() -> None:
    async with Client(["http://127.0.0.1:1"]) as client:
        with pytest.raises(Unreachable):
            await anext(aiter(client.changes("/notes")))
