"""One connection: aiohttp's, a shorter way for plain requests, and a limit for whole heads.

aiohttp parses and queues. The node answers malformed bytes with a problem, and counts but does not
log them, since each log entry would cost a traceback.
"""

import asyncio
import os
import socket
from collections.abc import Callable
from typing import Any, cast

from aiohttp import StreamReader, web
from aiohttp.hdrs import TRANSFER_ENCODING
from aiohttp.http import HttpVersion11, RawRequestMessage, StreamWriter
from aiohttp.web_protocol import RequestHandler, _ErrInfo

from docstore.errors import BadRequest, TooSlow
from docstore.http.fast_path import VERSIONS, FastPath, FastRequest
from docstore.http.metrics import HttpMetrics
from docstore.http.problems import problem
from docstore.http.reply import Reply, closing_bytes
from docstore.http.slow_readers import Mark
from docstore.http.unacknowledged import Socket, acknowledged, has_unread

LOOK_AGAIN_S = 0.1
STOPPING = (503, "stopping", "this node stops: ask another one")


class Connection(RequestHandler):
    """aiohttp's connection, which serves plain requests while aiohttp's task sleeps.

    The task waits on `_waiter` for a message. A request that is not plain wakes the task. For a
    plain one the waiter is hidden, so that aiohttp treats the connection as busy: it queues further
    messages, does not close the connection as idle, and at a shutdown waits for the task.

    The connection closes after it has answered all requests whose heads were read. It never closes
    with a reset, by which the client would lose the last answer: `Lingering` takes its socket.
    """

    __slots__ = (
        "_answered_count",
        "_body",
        "_fast_path",
        "_has_ended",
        "_head_bytes",
        "_head_bytes_max",
        "_heard",
        "_kept",
        "_leaves",
        "_socket",
        "_stops",
        "_wire",
        "metrics",
        "twin",
        "waits",
    )  # fmt: skip

    def __init__(
        self,
        manager: web.Server,
        fast_path: FastPath,
        heard: Callable[[RequestHandler], None],
        metrics: HttpMetrics,
        head_bytes_max: int,
        **settings: Any,
    ) -> None:
        """heard: called after each request, or malformed bytes in place of one."""
        super().__init__(manager, **settings)
        self._fast_path = fast_path
        self._heard = heard
        self.metrics = metrics
        self._head_bytes_max = head_bytes_max
        self._head_bytes = 0
        self._body: StreamReader | None = None
        self._kept: asyncio.Future[None] | None = None
        self._wire: asyncio.Transport | None = None
        self._answered_count = 0
        self._has_ended = self._leaves = self._stops = False
        self.waits = False
        """Whether the present request only waits for news, and ends if its client disconnects."""
        self.twin: socket.socket | None = None
        """A duplicate of the socket, from which to read after the transport has closed its own."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport: aiohttp drops it on close, before all bytes are sent."""
        self._wire = cast(asyncio.Transport, transport)
        self._socket: Socket = transport.get_extra_info("socket")
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Cancel a request that waits for news, or whose task has not run yet."""
        self._has_ended = True
        # `super()` clears what aiohttp's task needs to build a request: a task that is woken but
        # has not run yet would fail.
        is_woken = self._waiter is not None and self._waiter.done()
        if (self.waits or is_woken) and self._task_handler is not None:
            self._task_handler.cancel()
        super().connection_lost(exc)

    def eof_received(self) -> None:
        """Note that the client sends no more, so that no unread bytes of it can follow."""
        self._has_ended = True

    def leave(self) -> None:
        """Close after all received requests are answered; the last answer announces it."""
        self._leaves = True

    def close(self) -> None:
        """Close; at once if no request is unanswered and none is arriving."""
        self._leaves = self._stops = True
        if self._answered_count == self._request_count and not self.is_sending():
            if self._head_bytes:
                self._refuse_head(*STOPPING)
            self.force_close()

    def force_close(self) -> None:
        """Close, even with unanswered requests, after the written bytes are sent."""
        self._hold()
        super().force_close()

    def give_up_body(self) -> None:
        """Fail the read of a body that has not arrived: its request is answered 408."""
        request = self._current_request
        if request is not None and not request.content.is_eof():
            late = TooSlow("this node stops, and the body had not arrived")
            request.content.set_exception(late)

    def is_sending(self) -> bool:
        """Say whether the client has sent bytes that are not read yet: a busy node reads late."""
        return self._may_send() and has_unread(self._socket)

    def _may_send(self) -> bool:
        return self._wire is not None and not self._has_ended and not self._force_close

    def _hold(self) -> None:
        """Duplicate the socket, so that it can be read after the transport has closed its own."""
        if self.twin is None and self._may_send():
            try:
                held = os.dup(self._socket.fileno())
            except OSError:  # The socket is closed, or there is no free descriptor.
                return
            self.twin = socket.socket(fileno=held)

    def _process_keepalive(self) -> None:
        """Close an idle connection, unless bytes of a request have arrived."""
        if self.is_sending():
            self._keepalive_handle = self._loop.call_later(LOOK_AGAIN_S, self._process_keepalive)
        else:
            super()._process_keepalive()

    def mark(self) -> Mark | None:
        """Return the client's progress in sending and reading; None if it has read all answers."""
        if self._wire is None:
            return None
        unread, acked = self._wire.get_write_buffer_size(), None
        if self._wire.get_extra_info("ssl_object") is not None:
            acked = acknowledged(self._wire.get_extra_info("socket"))
        if not unread and acked is None:
            return None
        request = self._current_request
        written = request.writer.output_size if request is not None else 0
        sent = self._body.total_bytes if self._body is not None else 0
        return self._request_count, sent, written - unread, acked or 0

    def abort(self) -> None:
        """Close at once, even with unread answers."""
        if self._wire is not None:
            self._has_ended = True
            if self.twin is not None:
                self.twin.close()
                self.twin = None
            self._wire.abort()

    async def start(self) -> None:
        """Serve until the connection closes; do nothing if it closed before this task first ran."""
        if self._manager is not None:
            await super().start()

    def data_received(self, data: bytes) -> None:
        """Parse bytes; refuse a head that exceeds its limit before it is complete.

        The parser limits the length of a line and the number of lines, but not the size of the
        whole.
        """
        known, body = self._request_count, self._body
        is_of_head = body is None or body.is_eof()
        waiter, self._waiter = self._waiter, None
        try:
            super().data_received(data)
        finally:
            self._waiter = waiter
        if self._request_count != known:
            self._heard(self)
            self._body = self._messages[-1][1]
            size, self._head_bytes = self._head_bytes + len(data), 0
            is_idle = waiter is not None and not waiter.done()
            if is_idle and self._takes_plain(size):
                return
            self._judge(self._request_count - known)
            if is_idle and waiter is not None:
                waiter.set_result(None)
        elif is_of_head and data:
            self._head_bytes += len(data)
            if self._head_bytes > self._head_bytes_max:
                self._refuse_head(431, "malformed", _too_long(self._head_bytes_max))
            elif self._stops and self._answered_count == self._request_count:
                self._refuse_head(*STOPPING)

    def _judge(self, count: int) -> None:
        """Refuse those of the last `count` messages that another server might parse differently."""
        for at in range(len(self._messages) - count, len(self._messages)):
            message, payload = self._messages[at]
            if not isinstance(message, RawRequestMessage):
                continue
            if why := refusal_of(message, self._head_bytes_max):
                status, detail = why
                self._messages[at] = _ErrInfo(status, BadRequest(detail), detail), payload
            elif message.upgrade and not self._upgraded:
                # An upgrade that aiohttp does not know: it has dropped the bytes that follow.
                self._messages[at] = message._replace(should_close=True), payload

    def resume_reading(self, resume_parser: bool = True) -> None:
        """Resume reading if it was paused: aiohttp calls this after each body."""
        if self._reading_paused:
            super().resume_reading(resume_parser)

    def _takes_plain(self, size: int) -> bool:
        """Serve a message on an idle connection if it is alone and plain; return whether it was."""
        message, payload = self._messages[0]
        if len(self._messages) > 1 or not isinstance(message, RawRequestMessage):
            return False
        request = self._fast_path.found_in(message, payload, size, self)
        if request is None or (
            size > self._head_bytes_max and refusal_of(message, self._head_bytes_max)
        ):
            return False
        self._messages.clear()
        if self._parser is not None:
            self._parser.message_consumed()
        self._kept, self._waiter = self._waiter, None
        self._fast_path.serve(request)
        return True

    def answer(self, request: FastRequest, reply: Reply) -> None:
        """Write the answer to the present plain request, and continue with the next request."""
        if self._leaves and not self._messages:
            reply.close_after()
        if self.transport is not None and reply.send(self.transport, request):
            self._loop.create_task(self._go_on_when_read(reply))
        else:
            self.go_on(stays=reply.keep_alive)

    async def _go_on_when_read(self, reply: Reply) -> None:
        try:
            await StreamWriter(self, self._loop).drain()
        finally:
            self.go_on(stays=reply.keep_alive)

    def go_on(self, *, stays: bool) -> None:
        """Become idle again, as aiohttp does after an answer; close unless the connection stays."""
        waiter, self._kept = self._kept, None
        self._waiter = waiter
        self._answered_count += 1
        if not stays or self._close or self._force_close or waiter is None:
            self.force_close()
        elif self._messages:
            waiter.set_result(None)
        else:
            self._next_keepalive_close_time = self._loop.time() + self.keepalive_timeout
            if self._keepalive_handle is None:
                self._keepalive_handle = self._loop.call_at(
                    self._next_keepalive_close_time, self._process_keepalive
                )

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Write an answer; the last one before the connection closes says `Connection: close`."""
        if self._leaves and not self._messages and isinstance(resp, Reply):
            resp.close_after()
        known = self._request_count
        finished = await super().finish_response(request, resp, start_time)
        # aiohttp parses requests after an upgrade only here.
        self._judge(self._request_count - known)
        self._answered_count += 1
        if not resp.keep_alive or (self._leaves and not self._messages):
            self._close = True
            self._hold()
        return finished

    def _refuse_head(self, status: int, code: str, detail: str) -> None:
        self.metrics.malformed += status < 500
        if self._current_request is None and not self._messages and self.transport is not None:
            refusal = problem(status, code, detail, instance="/", closes=True)
            self.transport.write(closing_bytes(refusal))
        self.force_close()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Return the answer to bytes that the parser refused; the connection closes after it."""
        if isinstance(exc, ConnectionError):
            # The client has disconnected, or its answer was begun and cannot be finished.
            raise exc
        self.metrics.malformed += 1
        detail = "the request is not well-formed HTTP, or longer than its limits"
        if isinstance(exc, BadRequest):  # `_judge` has refused the head.
            detail = str(exc)
        return problem(status, "malformed", detail, instance="/", closes=True)


def refusal_of(message: RawRequestMessage, bytes_max: int) -> tuple[int, str] | None:
    """Return the status and the detail that refuse a parsed head; None if it is acceptable."""
    if message.version not in VERSIONS:
        return 400, "a request line must end in HTTP/1.1, or HTTP/1.0"
    coding = message.headers.getall(TRANSFER_ENCODING, ())
    is_known = [each.lower() for each in coding] == ["chunked"]
    if coding and not (is_known and message.version == HttpVersion11):
        return 400, "Transfer-Encoding must be chunked, in HTTP/1.1, and nothing else"
    size = len(message.method) + len(message.path) + len(" HTTP/1.1\r\n\r\n ")
    size += sum(len(name) + len(value) + 4 for name, value in message.raw_headers)
    return (431, _too_long(bytes_max)) if size > bytes_max else None


def _too_long(bytes_max: int) -> str:
    return f"the request line and the headers together must have at most {bytes_max} bytes"
