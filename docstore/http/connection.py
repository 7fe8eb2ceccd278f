"""One connection: aiohttp's, a shorter way for plain requests, and a bound for whole heads.

aiohttp parses and queues. What malformed bytes are told is a problem like any other, counted and
not logged, since each would cost a traceback.
"""

import asyncio
from collections.abc import Callable
from typing import Any, cast

from aiohttp import StreamReader, web
from aiohttp.http import RawRequestMessage, StreamWriter
from aiohttp.web_protocol import RequestHandler

from docstore.http.metrics import HttpMetrics
from docstore.http.plain import PlainRequest, PlainRequests
from docstore.http.problems import problem
from docstore.http.reply import Reply, closing_bytes
from docstore.http.unacknowledged import acknowledged
from docstore.http.unread import Mark


class Connection(RequestHandler):
    """aiohttp's connection, which serves plain requests while aiohttp's task sleeps.

    The task waits on `_waiter` for a message. It is woken for what is not plain; for what is, the
    waiter is kept from it, so that to aiohttp the connection looks as busy as it is: more messages
    are queued, it is not closed for its silence, and a shutdown waits for its task.
    """

    __slots__ = (
        "_body", "_head_bytes", "_head_bytes_max", "_heard", "_kept", "_metrics", "_plain",
        "_wire",
    )  # fmt: skip

    def __init__(
        self,
        manager: web.Server,
        plain: PlainRequests,
        heard: Callable[[RequestHandler], None],
        metrics: HttpMetrics,
        head_bytes_max: int,
        **settings: Any,
    ) -> None:
        """heard: told of each request, or what should have been one."""
        super().__init__(manager, **settings)
        self._plain = plain
        self._heard = heard
        self._metrics = metrics
        self._head_bytes_max = head_bytes_max
        self._head_bytes = 0
        self._body: StreamReader | None = None
        self._kept: asyncio.Future[None] | None = None
        self._wire: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep what aiohttp forgets when it closes, which waits until all has been read."""
        self._wire = cast(asyncio.Transport, transport)
        super().connection_made(transport)

    def mark(self) -> Mark | None:
        """Return how far the client has come in sending and in reading; None if it has read all."""
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
        """Hang up at once, whatever is unread."""
        if self._wire is not None:
            self._wire.abort()

    async def start(self) -> None:
        """Serve until it is closed; nothing, if that was before this task's first turn."""
        if self._manager is not None:
            await super().start()

    def data_received(self, data: bytes) -> None:
        """Parse; refuse a head that has grown too large before it is complete.

        The parser bounds each line and their number, and would keep the product of both.
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
            self._head_bytes = 0
            if waiter is not None and not waiter.done() and not self._takes_plain(len(data)):
                waiter.set_result(None)
        elif is_of_head:
            self._head_bytes += len(data)
            if self._head_bytes > self._head_bytes_max:
                self._refuse_head()

    def resume_reading(self, resume_parser: bool = True) -> None:
        """Read on, if reading was stopped: aiohttp asks after each body that has been taken."""
        if self._reading_paused:
            super().resume_reading(resume_parser)

    def _takes_plain(self, size: int) -> bool:
        """Serve the message that came to an idle connection, if it is alone and plain."""
        message, payload = self._messages[0]
        if len(self._messages) > 1 or not isinstance(message, RawRequestMessage):
            return False
        request = self._plain.found_in(message, payload, size, self)
        if request is None:
            return False
        self._messages.clear()
        if self._parser is not None:
            self._parser.message_consumed()
        self._kept, self._waiter = self._waiter, None
        self._plain.serve(request)
        return True

    def answer(self, request: PlainRequest, reply: Reply) -> None:
        """Write the answer to the plain request that is served, and go on to the next one."""
        if self.transport is not None and reply.send(self.transport, request):
            self._loop.create_task(self._go_on_when_read(reply))
        else:
            self._go_on(stays=reply.keep_alive)

    def give_up(self) -> None:
        """Hang up without an answer to the plain request that is served."""
        self._go_on(stays=False)

    async def _go_on_when_read(self, reply: Reply) -> None:
        try:
            await StreamWriter(self, self._loop).drain()
        finally:
            self._go_on(stays=reply.keep_alive)

    def _go_on(self, *, stays: bool) -> None:
        """Be idle again, as aiohttp is after an answer; hang up unless the connection stays."""
        waiter, self._kept = self._kept, None
        self._waiter = waiter
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

    def _refuse_head(self) -> None:
        self._metrics.malformed += 1
        if self._current_request is None and not self._messages and self.transport is not None:
            detail = f"a request line and its headers have at most {self._head_bytes_max} bytes"
            refusal = problem(431, "malformed", detail, instance="/", closes=True)
            self.transport.write(closing_bytes(refusal))
        self.force_close()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Return the answer to bytes that the parser refused; the connection is closed after it."""
        if isinstance(exc, ConnectionError):
            raise exc  # The client has gone, or its answer was begun and cannot be finished.
        self._metrics.malformed += 1
        detail = "the request is not well-formed HTTP, or longer than its limits"
        return problem(status, "malformed", detail, instance="/", closes=True)
