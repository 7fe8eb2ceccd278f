"""A whole answer, written in one piece: status line, a few headers, body.

aiohttp's own responses are made for frameworks: a header map, cookies, compression, hooks. A
request costs about 15 us less without them, more than everything else that the node does with it.
Only this module knows which methods the listener calls on a response: `prepare`, `write_eof` and
`keep_alive`.
"""

import asyncio
import time
from collections.abc import Mapping
from contextvars import ContextVar
from email.utils import formatdate
from http import HTTPStatus
from typing import Protocol

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http import HttpVersion

from docstore import SERVER

_STATUS_LINES = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus
}
_WITHOUT_BODY = frozenset({204, 304})
_LARGE_BYTES = 1 << 16

SHARED: ContextVar[Mapping[str, str]] = ContextVar("SHARED")
"""Headers that let a page of an allowed origin read the answer; set for its request's task."""

_common_lines = b""
_common_second = -1


def header_lines(headers: Mapping[str, str]) -> bytes:
    """Return headers as they go over the wire; no value may break out of its line."""
    lines = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
    assert lines.count("\n") == len(headers) == lines.count("\r")
    return lines.encode("utf-8", "surrogateescape")


class AnsweredRequest(Protocol):
    """The parts of a request on which the form of an answer depends."""

    @property
    def method(self) -> str:
        """Return the method, in capitals."""

    @property
    def version(self) -> HttpVersion:
        """Return the version of HTTP that the client speaks."""

    @property
    def keep_alive(self) -> bool:
        """Say whether the client wants to keep the connection open after this answer."""


class Reply(web.StreamResponse):
    """A complete answer. aiohttp's base class is for types only: its `__init__` is not called."""

    def __init__(
        self, status: int, body: bytes = b"", head: bytes = b"", *, closes: bool = False
    ) -> None:
        self.code = status
        self.body = body
        self.head = head
        """Header lines apart from those of the connection, each with its line end."""
        self._alive = not closes

    def close_after(self) -> None:
        self._alive = False

    @property
    def status(self) -> int:
        return self.code

    @property
    def keep_alive(self) -> bool:
        """Whether the connection stays open; valid after the answer is written."""
        return self._alive

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        """Write everything; wait only for a client that reads too slowly."""
        transport = request.transport
        if transport is None:
            raise ConnectionResetError("the client has disconnected")
        if self.send(transport, request):
            await request.writer.drain()
        return None

    def send(self, transport: asyncio.WriteTransport, request: AnsweredRequest) -> bool:
        """Write everything; return whether the unread bytes exceed the transport's limit."""
        head = self.head
        self._alive = self._alive and request.keep_alive
        if not self._alive:
            head += b"Connection: close\r\n"
        elif request.version.minor == 0:
            head += b"Connection: keep-alive\r\n"
        body = self.body
        if self.code not in _WITHOUT_BODY:
            head += b"Content-Length: %d\r\n" % len(body)
        if request.method == "HEAD":
            body = b""
        transport.write(b"%b%b%b\r\n%b" % (_STATUS_LINES[self.code], _common(), head, body))
        return len(body) > _LARGE_BYTES or transport.get_write_buffer_size() > _LARGE_BYTES

    async def write_eof(self, data: bytes = b"") -> None:
        """Do nothing: `prepare` has written everything."""


def closing_bytes(reply: Reply) -> bytes:
    """Return an answer that closes the connection, for bytes that are not a request."""
    return b"%b%bConnection: close\r\nContent-Length: %d\r\n%b\r\n%b" % (
        _STATUS_LINES[reply.code], _common(), len(reply.body), reply.head, reply.body,
    )  # fmt: skip


def streamed(media: str) -> web.StreamResponse:
    """Return an answer of a media type that is written piece by piece."""
    shared = SHARED.get({})
    return web.StreamResponse(headers={"Content-Type": media, "Server": SERVER, **shared})


def _common() -> bytes:
    """Return the headers of all answers, rebuilt when the second changes.

    They also follow a clock that is set back.
    """
    global _common_lines, _common_second  # noqa: PLW0603 - one clock for the process
    second = int(time.time())
    if second != _common_second:
        date = formatdate(second, usegmt=True)
        _common_lines = f"Server: {SERVER}\r\nDate: {date}\r\n".encode()
        _common_second = second
    return _common_lines
