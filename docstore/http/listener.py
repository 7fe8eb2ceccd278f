"""Connections: how many there may be, how long they may be silent, and bytes that are no HTTP.

aiohttp's low-level server parses and writes. What is added here: a cap on connections, together
and from one address; a deadline for the first request; and an answer to malformed requests that
is a problem like any other, counted and not logged, since each would cost a traceback.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from docstore.http.metrics import HttpMetrics
from docstore.http.problems import problem

TOO_MANY = (
    b"HTTP/1.1 503 Service Unavailable\r\n"
    b"Retry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
)

LAST_BYTES_S = 0.5
"""After that, for answers that were made in the last moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of what clients may send, and for how long."""

    body_bytes_max: int = 1 << 20
    """Of a request's body after decompression, and of a document's state."""

    header_line_bytes_max: int = 8190
    """Of the request line, and of each header."""

    headers_max: int = 100

    connections_max: int = 10_000

    connections_per_address_max: int = 1_000

    keepalive_timeout_s: float = 75.0
    """Silence between two requests; more than the usual 60 s of proxies, so that they close."""

    first_request_timeout_s: float = 10.0
    """From the connection to the end of the first request's headers."""

    body_timeout_s: float = 30.0


class Listener(web.Server):
    """Makes one `Connection` for each client that connects."""

    def __init__(
        self,
        handle: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]],
        limits: Limits,
        metrics: HttpMetrics,
    ) -> None:
        super().__init__(handle)
        self._limits = limits
        self._metrics = metrics
        self._addresses: Counter[str] = Counter()
        self._open: dict[RequestHandler, str] = {}
        self._silent: dict[RequestHandler, asyncio.TimerHandle] = {}
        self._is_closing = False

    async def close(self, grace_s: float) -> None:
        """Let requests finish within `grace_s` > 0, then close all connections; take no more."""
        self._is_closing = True
        # A connection whose task has not run yet would not hear that it is to close, and would
        # wait for its first request.
        await asyncio.sleep(0)
        self.pre_shutdown()  # Idle connections need not be waited for.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace_s + LAST_BYTES_S):
                await self.shutdown(grace_s)

    def __call__(self) -> RequestHandler:
        """Return the protocol of a new connection."""
        limits = self._limits
        return Connection(
            self,
            self._metrics,
            loop=asyncio.get_running_loop(),
            access_log=None,
            auto_decompress=False,
            keepalive_timeout=limits.keepalive_timeout_s,
            max_line_size=limits.header_line_bytes_max,
            max_field_size=limits.header_line_bytes_max,
            max_headers=limits.headers_max,
        )

    def connection_made(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        """Count the connection, or refuse it."""
        super().connection_made(handler, transport)
        if self._is_closing:
            transport.close()  # It was accepted before we stopped to listen.
            return
        peer = transport.get_extra_info("peername")
        address = str(peer[0]) if peer else ""
        limits = self._limits
        self._addresses[address] += 1
        self._open[handler] = address
        self._metrics.connections = len(self._open)
        if (
            len(self._open) > limits.connections_max
            or self._addresses[address] > limits.connections_per_address_max
        ):
            self._metrics.connections_refused += 1
            transport.write(TOO_MANY)
            transport.close()
            return
        loop = asyncio.get_running_loop()
        self._silent[handler] = loop.call_later(
            limits.first_request_timeout_s, self._hang_up, handler, transport
        )

    def connection_lost(self, handler: RequestHandler, exc: BaseException | None = None) -> None:
        """Forget the connection."""
        super().connection_lost(handler, exc)
        self.heard(handler)
        address = self._open.pop(handler, None)
        if address is not None:
            self._addresses[address] -= 1
            self._addresses += Counter()  # Drops the addresses that have none left.
            self._metrics.connections = len(self._open)

    def heard(self, handler: RequestHandler) -> None:
        """Note that a connection has sent a request."""
        if self._silent:
            timer = self._silent.pop(handler, None)
            if timer is not None:
                timer.cancel()

    def _hang_up(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        self._silent.pop(handler, None)
        transport.close()


class Connection(RequestHandler):
    """aiohttp's connection, with our words for what is no HTTP."""

    __slots__ = ("_metrics",)

    def __init__(self, manager: Listener, metrics: HttpMetrics, **settings: Any) -> None:
        super().__init__(manager, **settings)
        self._metrics = metrics

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
