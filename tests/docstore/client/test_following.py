"""Followers of changes while all nodes are down for a while."""

import asyncio
from contextlib import aclosing

import orjson
import pytest

from docstore.client import Client, Unreachable, requests

BODY = b'{"complete": true, "rows": 0, "next": "%d"}\n'
HEAD = (
    b"HTTP/1.1 200 OK\r\nServer: docstore\r\nConnection: close\r\n"
    b"Content-Type: application/x-ndjson\r\n"
    b"Content-Length: %d\r\n\r\n"
)


class Node:
    """Returns no changes, and records the requested positions."""

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


async def test_a_follower_continues_when_the_nodes_are_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
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


EVENTS = b"HTTP/1.1 200 OK\r\nServer: docstore\r\nContent-Type: text/event-stream\r\n\r\n"


def event(link: str) -> bytes:
    line = {
        "documentSelfLink": link, "documentVersion": 0, "documentUpdateAction": "PUT",
        "documentUpdateTimeMicros": 1, "deleted": False, "body": {"text": "\n\n"},
    }  # fmt: skip
    return b"event: change\ndata: %b\n\n" % orjson.dumps(line)


class Pushing(Node):
    """Pushes a part of the feed to each client, cuts the next part short, and disconnects."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        size = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
        self.heard.append(orjson.loads(await reader.readexactly(size))["since"].encode())
        begins = int(self.heard[-1]) if self.heard[-1].isdigit() else 0
        changes = [event(f"/notes/{number}") for number in range(begins, begins + 3)]
        writer.write(EVENTS + b"retry: 1000\n: quiet\nid: %d\n\n" % begins)
        for byte in b"".join(changes[:2]) + b"event: position\ndata: 2\nid: %d\n\n" % (begins + 2):
            writer.write(bytes([byte]))
            await writer.drain()
        writer.write(changes[2])
        writer.close()


async def test_a_pushed_feed_continues_at_the_next_node_after_the_last_position() -> None:
    node = Pushing()
    async with await asyncio.start_server(node.serve, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with (
            Client([url, "http://127.0.0.1:1"]) as client,
            aclosing(client.follow("/notes")) as following,
        ):
            found = [await anext(following) for _ in range(6)]
    assert [each.link for each in found] == [f"/notes/{number}" for number in range(6)]
    assert [each.position for each in found] == ["0", "2", "2", "4", "4", "6"]
    assert node.heard == [b"latest", b"2", b"4"]


async def test_a_follower_fails_at_once_if_no_node_answers_at_first() -> None:
    async with Client(["http://127.0.0.1:1"]) as client:
        with pytest.raises(Unreachable):
            await anext(aiter(client.changes("/notes")))
        with pytest.raises(Unreachable):
            await anext(client.follow("/notes"))
