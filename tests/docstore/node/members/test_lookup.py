"""Look-ups of another member's ports: answers that are accepted, and members that are asked."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from docstore.model.address import Address
from docstore.node.members.lookup import Located, Lookup, OverHttp

ADDRESSES = {"http": "http://h:1", "peer": "h:2", "gossip": "[::1]:3"}
LOCATED = Located(Address("h", 2), Address("::1", 3))


@asynccontextmanager
async def answering(*pages: Any) -> AsyncIterator[Address]:
    """Answer these pages over HTTP, one a connection, and the last of them for ever."""
    left = list(pages)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        body = json.dumps(left.pop(0) if len(left) > 1 else left[0]).encode()
        writer.write(b"HTTP/1.1 200 OK\r\nServer: docstore\r\n")
        writer.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield Address(*server.sockets[0].getsockname())


async def test_only_a_valid_answer_of_the_wanted_node_is_accepted() -> None:
    located: asyncio.Queue[tuple[str, Located]] = asyncio.Queue()
    lookup = Lookup(lambda *found: located.put_nowait(found), OverHttp())
    wrong = (
        {"id": "n9", "addresses": ADDRESSES},  # Another node has the address now.
        {"id": "n2", "addresses": ADDRESSES | {"peer": 7}},
        {"id": "n2", "addresses": ADDRESSES | {"gossip": "nowhere"}},
        ["n2"],
    )
    async with answering(*wrong, {"id": "n2", "addresses": ADDRESSES}) as address:
        lookup.look_for({"n2": address})
        async with asyncio.timeout(10):
            assert await located.get() == ("n2", LOCATED)
        await lookup.stop()
    assert located.empty()


async def test_a_moved_member_is_asked_at_its_new_address_and_a_departed_one_is_not() -> None:
    located: asyncio.Queue[tuple[str, Located]] = asyncio.Queue()
    lookup = Lookup(lambda *found: located.put_nowait(found), OverHttp())
    page = {"id": "n2", "addresses": ADDRESSES}
    other = {"id": "n2", "addresses": ADDRESSES | {"peer": "h:4"}}
    async with answering(page) as here, answering(other) as there, asyncio.timeout(10):
        lookup.look_for({"n2": here})
        assert await located.get() == ("n2", LOCATED)
        lookup.look_for({"n2": here, "n3": here})  # A located member is not asked again.
        lookup.look_for({"n2": there})
        assert await located.get() == ("n2", LOCATED._replace(peer=Address("h", 4)))
        lookup.look_for({})
        lookup.look_for({"n2": here})  # It came back.
        assert await located.get() == ("n2", LOCATED)
        await lookup.stop()
        tasks = asyncio.all_tasks()
        lookup.look_for({"n2": there})  # The group may change while the node stops.
        assert asyncio.all_tasks() <= tasks
    assert located.empty()
