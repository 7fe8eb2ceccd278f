"""A plain PUT or GET of one document: submitted as soon as it is parsed, answered when called back.

Most requests are plain: a document whose factory is known here, a small body that came together
with its head, and headers that ask for nothing that takes more than one step. A task of its own
would cost such a request as much as all else that is done for it here. An unusual one has a task,
in `server.py`. Either way the same guard judges it, the same functions read it and write the
answer, and it ends in the same `Completion`; only the wait for the owner is different.
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
"""Headers of plain requests, as clients write them; with any other one a request is not plain."""
TOKENS = frozenset({"Authorization", "authorization"})
"""One more, where tokens are looked at."""
METHODS = frozenset({"GET", "PUT"})
VERSIONS = (HttpVersion11, HttpVersion10)
SPECIAL = ("/core/", "/health/", "/metrics")
"""Below these nothing is a plain document."""


class PlainConnection(Protocol):
    """The connection of a plain request."""

    def answer(self, request: "FastRequest", reply: Reply) -> None:
        """Write the answer, and go on to the next request."""

    def go_on(self, *, stays: bool) -> None:
        """Be idle again, without an answer. stays: whether the connection stays open."""


class FastRequest:
    """A request on the fast path. It has the interface `headers.RequestHead`."""

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
        """In which the answer is taken, once that is known."""

    def __getitem__(self, key: str | RequestKey[Any]) -> Any:
        """Return what is noted with it."""
        assert key is AUTHORITY
        return self.authority


class FastPath:
    """Serves them."""

    def __init__(
        self,
        documents: DocumentPages,
        origin_check: OriginCheck,
        authority: Callable[[RequestHead], Authority] | None,
        completion: Completion,
        *,
        body_bytes_max: int,
    ) -> None:
        """authority: returns that of a request; None on a node without an access file."""
        self._documents = documents
        self._origin_check = origin_check
        self._authority = authority
        self._headers = PLAIN if authority is None else PLAIN | TOKENS
        self._completion = completion
        self._body_bytes_max = body_bytes_max

    def found_in(
        self, message: RawRequestMessage, payload: StreamReader, size: int, client: PlainConnection
    ) -> FastRequest | None:
        """Return the request if it is a plain one. size: of the bytes that it came in, together."""
        if (
            message.method not in METHODS
            or message.version not in VERSIONS
            or size > LARGE_BYTES
            or not payload.is_eof()
            or len(names := [*message.headers]) < len(message.headers)  # One comes twice.
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
        """Submit it, and answer it as soon as there is an answer."""
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
