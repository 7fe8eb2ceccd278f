"""One connection: aiohttp's, with a bound for whole heads, and our words for what is no HTTP.

aiohttp parses, queues and writes. What malformed bytes are told is a problem like any other,
counted and not logged, since each would cost a traceback.
"""

from typing import Any

from aiohttp import StreamReader, web
from aiohttp.web_protocol import RequestHandler

from docstore.http.metrics import HttpMetrics
from docstore.http.problems import problem
from docstore.http.reply import closing_bytes


class Connection(RequestHandler):
    """aiohttp's connection, with a bound for whole heads, and our words for what is no HTTP."""

    __slots__ = ("_body", "_head_bytes", "_head_bytes_max", "_metrics")

    def __init__(
        self, manager: web.Server, metrics: HttpMetrics, head_bytes_max: int, **settings: Any
    ) -> None:
        super().__init__(manager, **settings)
        self._metrics = metrics
        self._head_bytes_max = head_bytes_max
        self._head_bytes = 0
        self._body: StreamReader | None = None

    def data_received(self, data: bytes) -> None:
        """Parse; refuse a head that has grown too large before it is complete.

        The parser bounds each line and their number, and would keep the product of both.
        """
        known, body = self._request_count, self._body
        is_of_head = body is None or body.is_eof()
        super().data_received(data)
        if self._request_count != known:
            self._body = self._messages[-1][1]
            self._head_bytes = 0
        elif is_of_head:
            self._head_bytes += len(data)
            if self._head_bytes > self._head_bytes_max:
                self._refuse_head()

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
