"""The open connections, with limits for idle, silent and unread ones.

aiohttp's low-level server keeps them. `connection.py` has the protocol of one connection.
"""

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from docstore.http.admission import Admission, refusal
from docstore.http.connection import Connection
from docstore.http.fast_path import FastPath
from docstore.http.metrics import HttpMetrics
from docstore.http.problems import problem
from docstore.http.reply import closing_bytes
from docstore.http.slow_readers import LOOKS, Lingering, SlowReaders
from docstore.model.limits import Limits
from docstore.runtime.tls.accepting import Entrance, RejectedConnections

SAY_HTTPS = "this port speaks TLS: its URLs begin with https://"
POLL_S = 0.01
LAST_BYTES_S = 0.5
"""Seconds after the grace period in which clients can read answers of its last moment."""


class Listener(web.Server):
    """Makes one `Connection` for each client that connects."""

    def __init__(
        self,
        handle: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]],
        fast_path: FastPath,
        limits: Limits,
        metrics: HttpMetrics,
        token_bytes: Callable[[], int] = lambda: 0,
    ) -> None:
        """token_bytes: returns the length of a position's token, a minimum for the header limit."""
        super().__init__(handle)
        self._fast_path = fast_path
        self._limits = limits
        self._token_bytes = token_bytes
        self._metrics = metrics
        self._admission = Admission(limits)
        self._open: dict[Connection, str] = {}
        self._slow_readers = SlowReaders()
        self._silent: dict[RequestHandler, asyncio.TimerHandle] = {}
        self._lingering = Lingering()
        self._is_leaving = self._is_closing = self._is_closed = False
        self._look()

    def leave(self) -> None:
        """Close each connection after its next answer, so that its client uses another node."""
        self._is_leaving = True
        for each in self._open:
            each.leave()

    async def close(self, grace_s: float) -> None:
        """Let requests finish within `grace_s` > 0, then close all connections; accept no more."""
        self._is_closing = self._is_leaving = True
        # A connection whose task has not run yet would miss the close and wait for its first
        # request.
        await asyncio.sleep(0)
        for each in tuple(self._open):
            each.close()  # Idle connections close at once.
        await self._emptied(grace_s)
        for each in tuple(self._open):
            each.give_up_body()
        await self._emptied(LAST_BYTES_S)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_BYTES_S):
                await self.shutdown(POLL_S)
        self._is_closed = True
        self._lingering.close()
        self._looking.cancel()

    async def _emptied(self, patience_s: float) -> None:
        """Wait until all connections are closed, or the time is over."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                while self._open:  # noqa: ASYNC110 - once
                    await asyncio.sleep(POLL_S)

    def __call__(self) -> RequestHandler:
        """Return the protocol of a new connection."""
        limits = self._limits
        line_bytes = max(limits.header_line_bytes_max, self._token_bytes())
        return Connection(
            self,
            self._fast_path,
            self._heard,
            self._metrics,
            limits.head_bytes_max + 2 * (line_bytes - limits.header_line_bytes_max),
            loop=asyncio.get_running_loop(),
            access_log=None,
            auto_decompress=False,
            keepalive_timeout=limits.keepalive_timeout_s,
            max_line_size=line_bytes,
            max_field_size=line_bytes,
            max_headers=limits.headers_max,
        )

    def entrance(self, context: Callable[[], ssl.SSLContext]) -> Entrance:
        """Return the entrance with TLS; an unfinished handshake counts as a connection."""
        said = problem(400, "malformed", SAY_HTTPS, instance="/", closes=True)
        return Entrance(
            context=context, protocol=self,
            failed=RejectedConnections("listen", self._metrics.note_failed_handshake).tell,
            enter=self._enter, leave=self._admission.leave,
            patience_s=self._limits.first_request_timeout_s, plain=closing_bytes(said),
        )  # fmt: skip

    def _enter(self, address: str) -> str:
        why_not = self._admission.enter(address)
        self._metrics.connections_refused += bool(why_not)
        return why_not

    def _look(self) -> None:
        """Abort connections whose clients make no progress; repeat."""
        self._metrics.send_timeouts += self._slow_readers.look(self._open)
        pause_s = self._limits.send_timeout_s / LOOKS
        self._looking = asyncio.get_running_loop().call_later(pause_s, self._look)

    def connection_made(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        """Count the connection, or refuse it."""
        super().connection_made(handler, transport)
        assert isinstance(handler, Connection)
        if self._is_closed:
            transport.close()
            return
        peer = transport.get_extra_info("peername")
        address = str(peer[0]) if peer else ""
        self._open[handler] = address
        self._metrics.connections = len(self._open)
        why_not = ""
        if transport.get_extra_info("ssl_object"):  # `entrance` admitted it earlier.
            self._admission.count(address)
        else:
            why_not = self._enter(address)
        if why_not:
            transport.write(refusal(why_not))
            handler.force_close()
            return
        if self._is_leaving:
            handler.leave()
        if self._is_closing:  # The connection was accepted before the listener closed.
            handler.close()
            return
        self._wait_for(handler, LOOKS)

    def _wait_for(self, handler: Connection, looks: int) -> None:
        """Check up to `looks` times whether a first request has arrived: a busy node reads late."""
        after_s = self._limits.first_request_timeout_s / LOOKS
        loop = asyncio.get_running_loop()
        self._silent[handler] = loop.call_later(after_s, self._hang_up, handler, looks - 1)

    def connection_lost(self, handler: RequestHandler, exc: BaseException | None = None) -> None:
        super().connection_lost(handler, exc)
        self._heard(handler)
        assert isinstance(handler, Connection)
        address = self._open.pop(handler, None)
        if address is not None:
            self._admission.leave(address)
            self._metrics.connections = len(self._open)
        if handler.twin is not None:
            if self._is_closed:
                handler.twin.close()
            else:
                self._lingering.take(handler.twin)

    def _heard(self, handler: RequestHandler) -> None:
        """Note that a connection has sent a request."""
        if self._silent:
            timer = self._silent.pop(handler, None)
            if timer is not None:
                timer.cancel()

    def _hang_up(self, handler: Connection, looks: int) -> None:
        """Close a silent connection after the last check."""
        del self._silent[handler]
        if looks or handler.is_sending():
            self._wait_for(handler, max(1, looks))
        else:
            handler.force_close()
