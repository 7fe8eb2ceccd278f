"""A plain request: submitted when it is parsed, answered by a callback.

Most requests are plain: a PUT or GET of one document whose factory is known here, a POST of records
to a known topic, or a PATCH of a lock or an election. The small body arrived together with its
head, and no header asks for more than one step. A task would double the cost of such a request; a
PATCH of a lock, which may ask the group several times, has a small one. All other requests run in
tasks (`server.py`). On both ways the same checks apply, the same functions read the request and
write the answer, and `Completion` ends it; only the wait for the outcome differs.
"""

import asyncio
import re
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
from docstore.http.documents import DocumentPages
from docstore.http.headers import RequestHead
from docstore.http.large_bodies import LARGE_BYTES
from docstore.http.origin_check import OriginCheck
from docstore.http.produce import ProducePages, Submitted
from docstore.http.reply import Reply
from docstore.http.used_headers import PRODUCER
from docstore.model.operation import Answer
from docstore.model.paths import canonical
from docstore.model.service import Service
from docstore.services.leases import TURNS
from docstore.streams.replica_set import PARTITIONS, STREAMS
from docstore.streams.topic import Topic

_NAMES = (
    "Accept Accept-Encoding Connection Content-Length Content-Type Docstore-Timeout-Ms Host"
    " User-Agent"
).split()
_OF_DOCUMENTS = "Fence Idempotency-Key If-Match If-None-Match".split()


def _spelled(*names: str) -> frozenset[str]:
    return frozenset([*names, *map(str.lower, names)])


PLAIN = _spelled(*_NAMES, *_OF_DOCUMENTS)
"""Headers of plain requests, as clients spell them. Any other header makes a request not plain."""
PLAIN_OF_RECORDS = _spelled(*_NAMES, PRODUCER)
"""Headers of plain requests with records."""
PLAIN_OF_TURNS = PLAIN - _spelled("Fence")
"""Headers of a plain PATCH of a lock or an election."""
TOKENS = _spelled("Authorization")
"""Further headers of plain requests, on a node with an access file."""
METHODS = frozenset({"GET", "PUT", "POST", "PATCH"})
VERSIONS = (HttpVersion11, HttpVersion10)
SPECIAL = ("/core/", "/health/", "/metrics")
"""Prefixes of paths at which no plain request is for a document."""
TURN_PATHS = tuple(f"{path}/" for path in TURNS)

_RECORDS = re.compile(
    rf"{STREAMS}/([A-Za-z0-9_][A-Za-z0-9._-]*)(?:/{PARTITIONS}/(0|[1-9][0-9]{{0,8}}))?/records\Z"
)


class PlainConnection(Protocol):
    """The connection of a plain request."""

    def answer(self, request: "FastRequest", reply: Reply) -> None:
        """Write the answer, and go on to the next request."""

    def go_on(self, *, stays: bool) -> None:
        """Become idle without an answer. stays: whether the connection stays open."""


class TurnPages(Protocol):
    """The pages of locks and elections; see `elections.py`."""

    async def patch(self, request: RequestHead, link: str, body: bytes) -> Reply:
        """Answer a request to a queue."""


class FastHead:
    """The head of a request on the fast path. It has the interface of `headers.RequestHead`."""

    __slots__ = (
        "authority", "body_exists", "client", "headers", "keep_alive", "link", "method", "payload",
        "raw_path", "since_s", "version",
    )  # fmt: skip

    def __init__(
        self, message: RawRequestMessage, payload: StreamReader, link: str, client: PlainConnection
    ) -> None:
        self.since_s = time.perf_counter()
        self.method: str = message.method
        self.raw_path: str = message.path
        self.headers: CIMultiDictProxy[str] = message.headers
        self.version: HttpVersion = message.version
        self.keep_alive = not message.should_close
        self.payload = payload
        self.body_exists = payload is not EMPTY_PAYLOAD
        self.link = link
        self.client = client
        self.authority: Authority = EVERYBODY

    def __getitem__(self, key: str | RequestKey[Any]) -> Any:
        """Return the authority that was stored with the request."""
        assert key is AUTHORITY
        return self.authority


class FastDocument(FastHead):
    """A PUT or GET of a document."""

    __slots__ = ("media", "pages", "service")
    pages: DocumentPages
    service: Service
    media: str
    """Media type of the answer."""

    def submit(self, body: bytes) -> "asyncio.Future[Answer]":
        if self.method == "GET":
            answer, self.media = self.pages.get(self, self.link, self.service)
        else:
            answer, self.media = self.pages.put(self, self.link, self.service, body)
        return answer

    def reply(self, outcome: Answer) -> Reply:
        return self.pages.reply(self, outcome, self.service, self.media)


class FastRecords(FastHead):
    """A POST of records."""

    __slots__ = ("pages", "partition", "submitted", "topic")
    pages: ProducePages
    topic: Topic
    partition: int | None
    submitted: Submitted

    def submit(self, body: bytes) -> "asyncio.Future[Any]":
        self.submitted = self.pages.submit(self, self.topic, self.partition, body)
        return self.submitted.outcome

    def reply(self, outcome: Any) -> Reply | None:
        """Return the reply for the outcome of each partition; None if one is missing."""
        return self.pages.reply(self, self.submitted, outcome)

    async def missing(self) -> Reply:
        """Raise the error for a partition without a document."""
        return await self.pages.missing(self.submitted)


class FastTurn(FastHead):
    """A PATCH of a lock or an election."""

    __slots__ = ("body", "pages")
    pages: TurnPages
    body: bytes
    """For the audit log."""

    def submit(self, body: bytes) -> "asyncio.Future[Reply]":
        """Begin to answer the request."""
        self.body = body
        return asyncio.get_running_loop().create_task(self.pages.patch(self, self.link, body))

    def reply(self, outcome: Reply) -> Reply:
        return outcome


FastRequest = FastDocument | FastRecords | FastTurn


class FastPath:
    """Serves plain requests."""

    def __init__(
        self,
        documents: DocumentPages,
        producing: ProducePages,
        elections: TurnPages,
        origin_check: OriginCheck,
        authority: Callable[[RequestHead], Authority] | None,
        completion: Completion,
        *,
        body_bytes_max: int,
    ) -> None:
        """authority: returns the authority of a request; None on a node without an access file."""
        self._documents = documents
        self._producing = producing
        self._elections = elections
        self._origin_check = origin_check
        self._authority = authority
        tokens = TOKENS if authority is not None else frozenset()
        self._of_documents, self._of_records = PLAIN | tokens, PLAIN_OF_RECORDS | tokens
        self._of_turns = PLAIN_OF_TURNS | tokens
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
            or "?" in message.path
        ):
            return None
        if message.method == "POST":
            if not self._of_records.issuperset(names):
                return None
            return self._records(message, payload, client)
        if message.method == "PATCH":
            if not self._of_turns.issuperset(names):
                return None
            return self._turn(message, payload, client)
        if not self._of_documents.issuperset(names) or message.path.startswith(SPECIAL):
            return None
        return self._document(message, payload, client)

    def _document(
        self, message: RawRequestMessage, payload: StreamReader, client: PlainConnection
    ) -> FastDocument | None:
        try:
            link = canonical(message.path)
        except BadRequest:
            return None
        service = self._documents.service_of(link)
        if service is None or (message.method == "PUT" and "PUT" not in service.options.methods):
            return None
        request = FastDocument(message, payload, link, client)
        request.pages, request.service = self._documents, service
        return request

    def _turn(
        self, message: RawRequestMessage, payload: StreamReader, client: PlainConnection
    ) -> FastTurn | None:
        if not message.path.startswith(TURN_PATHS):
            return None
        try:
            link = canonical(message.path)
        except BadRequest:
            return None
        if self._documents.service_of(link) is None:
            return None
        request = FastTurn(message, payload, link, client)
        request.pages = self._elections
        return request

    def _records(
        self, message: RawRequestMessage, payload: StreamReader, client: PlainConnection
    ) -> FastRecords | None:
        found = _RECORDS.match(message.path)
        if found is None:
            return None
        partition = int(found[2]) if found[2] else None
        topic = self._producing.known_topic(found[1], partition)
        if topic is None:
            return None
        request = FastRecords(message, payload, message.path, client)
        request.pages, request.topic, request.partition = self._producing, topic, partition
        return request

    def serve(self, request: FastRequest) -> None:
        """Submit a request, and answer it when its outcome arrives."""
        try:
            self._origin_check.check(request)
            if self._authority is not None:
                request.authority = self._authority(request)
                request.authority.insist(request.method, request.link)
            body = request.payload.read_nowait()
            if not isinstance(request, FastRecords):  # Records have a limit of their own.
                body = bodies.fitting(request, body, self._body_bytes_max)
            outcome = request.submit(body)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is answered
            self._end(request, self._completion.refused(request, error))
            return
        if outcome.done():
            self._answered(request, outcome)
        else:
            outcome.add_done_callback(partial(self._answered, request))

    def _answered(self, request: FastRequest, outcome: "asyncio.Future[Any]") -> None:
        if outcome.cancelled():  # This node stops.
            request.client.go_on(stays=False)
            return
        try:
            reply = request.reply(outcome.result())
        except Exception as error:  # noqa: BLE001 - whatever it is, it is answered
            reply = self._completion.refused(request, error)
        else:
            if reply is None:
                assert isinstance(request, FastRecords)
                late = asyncio.ensure_future(request.missing())
                late.add_done_callback(partial(self._found_missing, request))
                return
            if reply.code == 500:
                self._completion.note_error(request, None)
        self._end(request, reply)

    def _found_missing(self, request: FastRequest, late: "asyncio.Future[Reply]") -> None:
        if late.cancelled():  # This node stops.
            request.client.go_on(stays=False)
            return
        try:
            reply = late.result()
        except Exception as error:  # noqa: BLE001 - whatever it is, it is answered
            reply = self._completion.refused(request, error)
        self._end(request, reply)

    def _end(self, request: FastRequest, reply: Reply) -> None:
        self._completion.done(request, reply, request.since_s)
        request.client.answer(request, reply)
