"""A connection that breaks after the request was sent: what the client may do, and what it says."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from docstore.client import Client, Unanswered, Unreachable
from docstore.node.members.joining import JoinRequests
from docstore.node.members.lookup import OverHttp

ANSWER = b"HTTP/1.1 200 OK\r\nServer: docstore\r\nContent-Length: 2\r\n\r\n{}"


class Node:
    """Takes requests, and answers only from the `good`-th on."""

    def __init__(self, good: int) -> None:
        self.good, self.heard = good, 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        self.heard += 1
        if self.heard >= self.good:
            writer.write(ANSWER)
            await writer.drain()
        writer.close()


@asynccontextmanager
async def serving(node: Node) -> AsyncIterator[str]:
    server = await asyncio.start_server(node.serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


@pytest.mark.parametrize("method", ["PATCH", "POST", "PUT", "DELETE"])
async def test_an_update_whose_answer_is_lost_is_not_sent_again(method: str) -> None:
    """Nor by the library beneath, which holds a PUT and a DELETE for harmless to repeat."""
    node = Node(good=2)
    async with serving(node) as url, Client([url]) as client:
        with pytest.raises(Unanswered, match="may have happened"):
            await client.json(method, "/notes/a", {"n": 1})
    assert node.heard == 1


async def test_a_read_whose_answer_is_lost_is_sent_to_the_next_node() -> None:
    deaf, well = Node(good=100), Node(good=1)
    async with serving(deaf) as one, serving(well) as other, Client([one, other]) as client:
        assert await client.json("GET", "/notes/a") == {}
    assert deaf.heard >= 1
    assert well.heard == 1


async def test_nobody_answers_a_read_anywhere() -> None:
    node = Node(good=100)
    async with serving(node) as url, Client([url]) as client:
        with pytest.raises(Unreachable):
            await client.json("GET", "/notes/a")
    assert node.heard > 1


async def test_a_node_goes_on_asking_to_be_taken_in_when_a_member_dies_over_it() -> None:
    node = Node(good=2)
    taken_in = asyncio.Event()

    def has_group() -> bool:
        if node.heard >= 2:
            taken_in.set()
        return taken_in.is_set()

    async with serving(node) as url:
        joining = JoinRequests(dict, has_group, OverHttp())
        joining.start([url])
        async with asyncio.timeout(20):
            await taken_in.wait()
        await joining.stop()
    assert node.heard >= 2
