"""A plain PUT or GET of one document: submitted when it is parsed, answered by a callback.

Most requests are plain: the factory of the document is known here, a small body arrived together
with its head, and no header asks for more than one step. A task would double the cost of such a
request. All other requests run in tasks (`server.py`). On both ways the same checks apply, the same
functions read the request and write the answer, and `Completion` ends it; only the wait for the
owner differs.
"""

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from aiohttp import StreamReader
from aiohttp.helpers import RequestKey
from aiohttp.http import HttpVersion, HttpVersion10, HttpVersion11, RawRequestMessage
from aiohttp.streams import EMPTY_PAYLOAD
from multidict import CIMultiDictProxy

from docstore.errors import BadRequest
from docstore.http import bodies
from docstore.http.authority import AUTHORITY, EVERYBODY, Authority
from docstore.http.completion import Completion
from docstore.http.documents import DocumentPages, Submitted
from docstore.http.headers import RequestHead
from docstore.http.large import LARGE_BYTES
from docstore.http.origin_check import OriginCheck
from docstore.http.reply import Reply
from docstore.model.operation import Answer
from docstore.model.paths import canonical
from docstore.model.service import Service

_NAMES = (
    "Accept Accept-Encoding Connection Content-Length Content-Type Docstore-Timeout-Ms Fence Host"
    " Idempotency-Key If-Match If-None-Match User-Agent"
).split()
PLAIN = frozenset([*_NAMES, *map(str.lower, _NAMES)])
"""Headers of plain requests, as clients spell them. Any other header makes a request not plain."""
TOKENS = frozenset({"Authorization", "authorization"})
"""Further headers of plain requests, on a node with an access file."""
METHODS = frozenset({"GET", "PUT"})
VERSIONS = (HttpVersion11, HttpVersion10)
SPECIAL = ("/core/", "/health/", "/metrics")
"""Prefixes of paths that are never plain."""


class PlainConnection(Protocol):
    """The connection of a plain request."""

    def answer(self, request: "FastRequest", reply: Reply) -> None:
        """Write the answer, and go on to the next request."""

    def go_on(self, *, stays: bool) -> None:
        """Become idle without an answer. stays: whether the connection stays open."""


class FastRequest:
    """A request on the fast path. It has the interface of `headers.RequestHead`."""

    __slots__ = (
        "authority", "body_exists", "client", "headers", "keep_alive", "link", "media", "method",
        "payload", "raw_path", "service", "since_s", "version",
    )  # fmt: skip

    def __init__(
        self,
        message: RawRequestMessage,
        payload: StreamReader,
        service: Service,
        link: str,
        client: PlainConnection,
    ) -> None:
        self.since_s = time.perf_counter()
        self.method: str = message.method
        self.raw_path: str = message.path
        self.headers: CIMultiDictProxy[str] = message.headers
        self.version: HttpVersion = message.version
        self.keep_alive = not message.should_close
        self.payload = payload
        self.body_exists = payload is not EMPTY_PAYLOAD
        self.service = service
        self.link = link
        self.client = client
        self.authority: Authority = EVERYBODY
        self.media = ""
        """Media type of the answer; "" until it is known."""

    def __getitem__(self, key: str | RequestKey[Any]) -> Any:
        """Return the authority that was stored with the request."""
        assert key is AUTHORITY
        return self.authority


class FastPath:
    """Serves plain requests."""

    def __init__(
        self,
        documents: DocumentPages,
        origin_check: OriginCheck,
        authority: Callable[[RequestHead], Authority] | None,
        completion: Completion,
        *,
        body_bytes_max: int,
    ) -> None:
        """authority: returns the authority of a request; None on a node without an access file."""
        self._documents = documents
        self._origin_check = origin_check
        self._authority = authority
        self._headers = PLAIN if authority is None else PLAIN | TOKENS
        self._completion = completion
        self._body_bytes_max = body_bytes_max

    def found_in(
        self, message: RawRequestMessage, payload: StreamReader, size: int, client: PlainConnection
    ) -> FastRequest | None:
        """Return the request if it is plain. size: of the bytes that arrived with its head."""
        if (
            message.method not in METHODS
            or message.version not in VERSIONS
            or size > LARGE_BYTES
            or not payload.is_eof()
            or len(names := [*message.headers]) < len(message.headers)  # A header is repeated.
            or not self._headers.issuperset(names)
            or "?" in message.path
            or message.path.startswith(SPECIAL)
        ):
            return None
        try:
            link = canonical(message.path)
        except BadRequest:
            return None
        service = self._documents.service_of(link)
        if service is None or (message.method == "PUT" and "PUT" not in service.options.methods):
            return None
        return FastRequest(message, payload, service, link, client)

    def serve(self, request: FastRequest) -> None:
        """Submit a request, and answer it when its answer arrives."""
        try:
            answer, request.media = self._submitted(request)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is answered
            self._end(request, self._completion.refused(request, error))
            return
        if answer.done():
            self._answered(request, answer)
        else:
            answer.add_done_callback(partial(self._answered, request))

    def _submitted(self, request: FastRequest) -> Submitted:
        self._origin_check.check(request)
        if self._authority is not None:
            request.authority = self._authority(request)
            request.authority.insist(request.method, request.link)
        body = bodies.fitting(request, request.payload.read_nowait(), self._body_bytes_max)
        if request.method == "GET":
            return self._documents.get(request, request.link, request.service)
        return self._documents.put(request, request.link, request.service, body)

    def _answered(self, request: FastRequest, answer: "asyncio.Future[Answer]") -> None:
        if answer.cancelled():  # This node stops.
            request.client.go_on(stays=False)
            return
        try:
            reply = self._documents.reply(request, answer.result(), request.service, request.media)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is answered
            reply = self._completion.refused(request, error)
        else:
            if reply.status == 500:
                self._completion.note_error(request, None)
        self._end(request, reply)

    def _end(self, request: FastRequest, reply: Reply) -> None:
        self._completion.done(request, reply, request.since_s)
        request.client.answer(request, reply)
