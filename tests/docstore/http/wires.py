"""Requests as bytes, on persistent connections to a server in this process."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from typing import Any

from docstore.http.server import HttpServer
from docstore.model.limits import Limits
from tests.docstore.http.single import SingleNode

LONG_S, SOON_S = 3600.0, 10.0
PATIENT = Limits(body_timeout_s=LONG_S, first_request_timeout_s=LONG_S, keepalive_timeout_s=LONG_S)
UNUSUAL = b"X-Request-Id: unusual\r\n"
"""A header that plain requests do not have."""


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
        """Return the next answer without its date. is_head: it has no body."""
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
        """Say whether the server closes the connection without more bytes."""
        async with asyncio.timeout(SOON_S):
            return await self.reader.read() == b""


class Serving:
    """A server with the factory /t."""

    def __init__(self, node: SingleNode, server: HttpServer, port: int) -> None:
        self.node, self.server, self.port = node, server, port

    @property
    def connections(self) -> set[Any]:
        """The open connections of the server."""
        assert self.server._listener is not None
        return set(self.server._listener._open)

    @asynccontextmanager
    async def wire(self) -> AsyncIterator[Wire]:
        """Open a connection."""
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


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(SOON_S):
        while not condition():
            await asyncio.sleep(0.001)
