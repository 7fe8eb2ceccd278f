"""The private parts of aiohttp that the HTTP server relies on.

`Reply` replaces a response of aiohttp's, and `Connection` reads its parser's queue. A failure
here shows a change of aiohttp: check docstore/http/reply.py and connection.py before you raise
the bound in pyproject.toml.
"""

import ast
import asyncio
import inspect
import sys
from typing import Any

import pytest
from aiohttp import web
from aiohttp.http import HttpRequestParser, StreamWriter
from aiohttp.web_protocol import RequestHandler, _ErrInfo
from pytest_aiohttp.plugin import AiohttpClient, AiohttpRawServer

from docstore.http import listener
from docstore.http.connection import Connection
from docstore.http.fast_path import FastPath
from docstore.http.listener import Listener
from docstore.http.metrics import HttpMetrics
from docstore.http.reply import Reply, closing_bytes, streamed
from docstore.http.server import HttpServer
from docstore.model.limits import Limits
from docstore.model.recognising import is_named
from tests.docstore.http.single import SingleNode
from tests.source import ROOT

QUEUE = {
    "_close", "_current_request", "_force_close", "_keepalive_handle",
    "_loop", "_manager", "_messages", "_next_keepalive_close_time", "_parser",
    "_reading_paused", "_request_count", "_task_handler", "_upgraded", "_waiter",
}  # fmt: skip
"""Attributes of the parser's queue and its waiter that `Connection` reads or writes."""

ASKED = {"keep_alive", "prepare", "write_eof"}
"""All attributes that aiohttp reads of a response that a handler returned."""

PIECES = (b"GET / HTTP/1.1\r\n", b"Host: h\r\n\r\n", b"PUT / HTTP/1.1\r\nConte")
"""A head in two pieces, and the start of another one."""

PARAMETERS = {
    RequestHandler.__init__: "manager loop access_log auto_decompress keepalive_timeout"
    " max_field_size max_headers max_line_size",
    RequestHandler.connection_made: "transport",
    RequestHandler.connection_lost: "exc",
    RequestHandler.data_received: "data",
    RequestHandler.eof_received: "",
    RequestHandler.close: "",
    RequestHandler.finish_response: "request resp start_time",
    RequestHandler._process_keepalive: "",
    _ErrInfo: "status exc message",
    RequestHandler.force_close: "",
    RequestHandler.resume_reading: "resume_parser",
    RequestHandler.start: "",
    RequestHandler.handle_error: "request status exc message",
    web.Server.__init__: "handler",
    web.Server.__call__: "",
    web.Server.connection_made: "handler transport",
    web.Server.connection_lost: "handler exc",
    web.Server.shutdown: "timeout",
    HttpRequestParser.message_consumed: "",
    StreamWriter.drain: "",
    StreamWriter.write: "chunk drain",
}
"""Overridden or called method -> the parameters that docstore passes or takes."""


async def plain(request: web.BaseRequest) -> Reply:
    return Reply(200, b"here")


def plain_requests() -> FastPath:
    return HttpServer(SingleNode(), Limits())._fast_path


@pytest.mark.parametrize("called", PARAMETERS, ids=lambda called: called.__qualname__)
def test_aiohttp_takes_the_parameters_that_docstore_passes(called: Any) -> None:
    assert set(PARAMETERS[called].split()) <= set(inspect.signature(called).parameters)


def test_the_connection_uses_exactly_these_attributes_of_the_queue() -> None:
    tree = ast.parse((ROOT / "docstore/http/connection.py").read_text("utf-8"))
    (ours,) = (n for n in ast.walk(tree) if isinstance(n, ast.ClassDef) and n.name == "Connection")
    seen = {n.attr for n in ast.walk(ours) if isinstance(n, ast.Attribute) and _is_self(n.value)}
    private = {name for name in seen if name.startswith("_")}
    assert private - set(Connection.__slots__) - vars(Connection).keys() == QUEUE


def test_no_slot_of_the_connection_is_one_of_aiohttp() -> None:
    theirs = {name for base in RequestHandler.__mro__ for name in getattr(base, "__slots__", ())}
    assert set(dir(RequestHandler)) >= QUEUE
    assert not theirs & set(Connection.__slots__)


async def test_no_attribute_of_the_listener_is_one_of_aiohttp() -> None:
    ours = (
        vars(Listener(plain, plain_requests(), Limits(), HttpMetrics())).keys()
        - vars(web.Server(plain)).keys()
    )
    assert {"_limits", "_token_bytes", "_metrics", "_admission", "_open", "_silent"} <= ours
    assert not ours & set(dir(web.Server))


def test_all_answers_name_the_server() -> None:
    """Clients recognise a node by it (`docstore/model/recognising.py`)."""
    pages = {path.name: path.read_text("utf-8") for path in (ROOT / "docstore/http").glob("*.py")}
    made = {name for name, text in pages.items() if "StreamResponse(" in text}
    assert made == {"reply.py"}
    assert is_named(streamed("text/plain").headers)
    assert b"\r\nServer: docstore\r\n" in closing_bytes(Reply(200))


async def test_aiohttp_reads_no_other_attribute_of_a_reply(
    aiohttp_raw_server: AiohttpRawServer, aiohttp_client: AiohttpClient
) -> None:
    asked = set()

    class Watched(Reply):
        def __getattribute__(self, name: str) -> Any:
            if sys._getframe(1).f_globals["__name__"].startswith("aiohttp."):
                asked.add(name)
            return super().__getattribute__(name)

    async def watched(request: web.BaseRequest) -> Reply:
        return Watched(200, b"here")

    server = await aiohttp_raw_server(watched, access_log=None)
    client = await aiohttp_client(server)
    for _ in range(2):  # On one connection.
        async with client.get("/") as answer:
            assert (answer.status, await answer.read()) == (200, b"here")
    assert {name for name in asked if not name.startswith("__")} == ASKED


async def test_the_output_size_is_zero_until_a_chunk_is_written(
    aiohttp_raw_server: AiohttpRawServer, aiohttp_client: AiohttpClient
) -> None:
    sent: list[int] = []

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        sent.append(request.writer.output_size)
        begun = web.StreamResponse()
        await begun.prepare(request)
        await request.writer.write(b"here", drain=False)  # type: ignore[call-arg]
        sent.append(request.writer.output_size)
        return begun

    client = await aiohttp_client(await aiohttp_raw_server(handle))
    async with client.get("/") as answer:
        assert await answer.read() == b"here"
    assert sent[0] == 0 < sent[1]


async def test_a_request_is_queued_and_counted_as_soon_as_its_head_is_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[tuple[int, int, bool, bool]] = []

    class Watched(Connection):
        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            at_end = bool(self._messages) and self._messages[-1][1].is_eof()
            seen.append(
                (self._request_count, len(self._messages), at_end, self._current_request is None)
            )

    monkeypatch.setattr(listener, "Connection", Watched)
    serving = Listener(plain, plain_requests(), Limits(), HttpMetrics())
    socket = await asyncio.get_running_loop().create_server(serving, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*socket.sockets[0].getsockname()[:2])
    async with asyncio.timeout(10):
        for number, piece in enumerate(PIECES, 1):
            writer.write(piece)
            while len(seen) < number:
                await asyncio.sleep(0.001)
            if seen[-1][1]:
                assert (await reader.readuntil(b"here")).startswith(b"HTTP/1.1 200 OK\r\n")
        writer.close()
        socket.close()
        await serving.close(0.1)
    assert seen == [(0, 0, False, True), (1, 1, True, True), (1, 0, False, True)]


async def test_a_body_that_paused_reading_is_read_to_its_end() -> None:
    sent = b"x" * (4 << 20)
    seen: list[bool] = []

    async def late(request: web.BaseRequest) -> Reply:
        async with asyncio.timeout(10):
            while not request.protocol._reading_paused:
                await asyncio.sleep(0.001)
            seen.append(await request.content.read() == sent)
        return Reply(200)

    serving = Listener(late, plain_requests(), Limits(), HttpMetrics())
    socket = await asyncio.get_running_loop().create_server(serving, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*socket.sockets[0].getsockname()[:2])
    writer.write(b"PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n%b" % (len(sent), sent))
    async with asyncio.timeout(10):
        assert (await reader.readuntil(b"\r\n")) == b"HTTP/1.1 200 OK\r\n"
    writer.close()
    socket.close()
    await serving.close(0.1)
    assert seen == [True]


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"
