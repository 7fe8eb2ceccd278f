"""Documents over HTTP: POST, PUT, PATCH, GET, HEAD, DELETE."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, NamedTuple

from aiohttp import web
from aiohttp.hdrs import IF_NONE_MATCH

from docstore.errors import BadRequest, Conflict, UnsupportedMedia
from docstore.http import bodies, headers
from docstore.http.attaching import attached_first, lease_of
from docstore.http.authority import authority_of
from docstore.http.backend import Backend
from docstore.http.declarations import check_declarable, declaration_bytes, without_warnings
from docstore.http.headers import RequestHead
from docstore.http.large_bodies import LARGE_BYTES, LargeBodies
from docstore.http.methods import allowed, document_methods, not_allowed
from docstore.http.parameters import SELECTING
from docstore.http.problems import problem_of_answer
from docstore.http.reply import Reply, header_lines
from docstore.http.representation import (
    document_bytes,
    entity_tag,
    version_lines,
)
from docstore.http.visible_links import shown_to
from docstore.model import json
from docstore.model.document import tag_of
from docstore.model.operation import ANY_TOMBSTONE, CURRENT, Answer, Conditions, Operation, Select
from docstore.model.paths import SUFFIXES, encoded
from docstore.model.service import LINEARIZABLE, METHODS, Service
from docstore.query.names import check_snapshot_name
from docstore.services.declared import path_of
from docstore.services.registry import FACTORIES, SNAPSHOTS, check_declaration, declaration_link

NOTHING: Mapping[str, Any] = {}


class Submitted(NamedTuple):
    """A submitted operation: the future of its answer, and the media type for the reply."""

    answer: "asyncio.Future[Answer]"
    media: str


Handler = Callable[[web.BaseRequest, str, Service, bytes], Awaitable[Reply]]


class DocumentPages:
    """Translates requests about documents into operations, and answers into replies."""

    def __init__(self, backend: Backend, large: LargeBodies, *, state_bytes_max: int) -> None:
        self._backend = backend
        self._large = large
        self._state_bytes_max = state_bytes_max
        self._handlers: dict[str, Handler] = {
            "GET": self._get,
            "HEAD": self._get,
            "PUT": self._put,
            "PATCH": self._patch,
            "DELETE": self._delete,
            "OPTIONS": self._options,
        }

    def serve(
        self, request: web.BaseRequest, link: str, service: Service, body: bytes
    ) -> Awaitable[Reply]:
        """Answer a request about the document at `link`. The caller has checked its parameters."""
        method = request.method
        handler = self._handlers.get(method)
        if handler is None or (method in METHODS and method not in service.options.methods):
            raise not_allowed(method, document_methods(service.options))
        return handler(request, link, service, body)

    def service_of(self, path: str) -> Service | None:
        """Return the service of the document at a canonical path; None if no document can be there.

        Also None if this node does not know the factory yet.
        """
        parent, _, last = path.rpartition("/")
        service = self._backend.registry.service_at(parent)
        if service is None or last in SUFFIXES or self._backend.registry.service_at(path):
            return None
        return service

    async def create(
        self, request: web.BaseRequest, factory: str, service: Service, body: bytes
    ) -> Reply:
        """Answer a POST to a factory."""
        options = service.options
        raw, signature, theirs, waited_s = await self._written(request, body)
        version = bodies.sent_version(theirs)
        key = headers.idempotency_key(request)
        if factory == FACTORIES:
            raw, state = without_warnings(raw, json.load(raw))
            signature = json.signature(state)
            link = declaration_link(path_of(state))
            bodies.check_self_link(theirs, link)
            authority_of(request).insist("PUT", link)
            await check_declarable(self._backend, state, headers.timeout_s(request))
        else:
            link = bodies.new_link(theirs, factory, key)
            check_no_factory(self._backend, link)
            if factory == SNAPSHOTS:
                check_snapshot_name(link.rpartition("/")[2])
        is_meant = headers.preference(request, "recreate") is not None
        operation = Operation(
            verb="POST",
            link=link,
            body=raw,
            signature=signature,
            conditions=headers.conditions(request, version if options.strict_updates else None),
            recreate_below=ANY_TOMBSTONE if is_meant else version or None,
            key=key,
            replicas=self._replicas(request, link, options.level),
            fence=headers.fence(request, options.level),
            principal=authority_of(request).principal,
        )
        return await self.submit(request, operation, service, theirs, waited_s=waited_s)

    async def _written(self, request: web.BaseRequest, body: bytes) -> bodies.WrittenBody:
        media, most = headers.content_media(request, headers.BODIES), self._state_bytes_max
        if len(body) <= LARGE_BYTES:
            return bodies.written(body, media, bytes_max=most)
        read = partial(bodies.written, body, media, bytes_max=most)
        return await self._read_large(request, body, read)

    async def _read_large(
        self, request: web.BaseRequest, body: bytes, read: Callable[[], bodies.WrittenBody]
    ) -> bodies.WrittenBody:
        patience_s = headers.timeout_s(request)
        written, waited_s = await self._large.read(len(body), patience_s, read)
        return written._replace(waited_s=waited_s)

    async def _put(
        self, request: web.BaseRequest, link: str, service: Service, body: bytes
    ) -> Reply:
        options = service.options
        written = await self._written(request, body)
        bodies.check_self_link(written.theirs, link)
        if options.path == FACTORIES:
            raw, state = without_warnings(written.raw, json.load(written.raw))
            check_declaration(link, state)
            await check_declarable(self._backend, state, headers.timeout_s(request))
            written = written._replace(raw=raw, signature=json.signature(state))
        elif options.path == SNAPSHOTS:
            check_snapshot_name(link.rpartition("/")[2])
        submitted = self._submit_put(request, link, service, written)
        return await self._replied(request, submitted, service)

    def put(self, request: RequestHead, link: str, service: Service, body: bytes) -> Submitted:
        """Submit a PUT of a user's document, whose body is small enough to be read at once."""
        media, most = headers.content_media(request, headers.BODIES), self._state_bytes_max
        written = bodies.written(body, media, bytes_max=most)
        if written.theirs:
            bodies.check_self_link(written.theirs, link)
        return self._submit_put(request, link, service, written)

    def _submit_put(
        self, request: RequestHead, link: str, service: Service, written: bodies.WrittenBody
    ) -> Submitted:
        options, theirs = service.options, written.theirs
        operation = Operation(
            verb="PUT",
            link=link,
            body=written.raw,
            signature=written.signature,
            conditions=self._conditions(request, service, theirs),
            creates=options.put_creates,
            key=headers.idempotency_key(request),
            replicas=self._replicas(request, link, options.level),
            fence=headers.fence(request, options.level),
            principal=authority_of(request).principal,
        )
        return self._submit_write(request, operation, service, theirs, written.waited_s)

    async def _patch(
        self, request: web.BaseRequest, link: str, service: Service, body: bytes
    ) -> Reply:
        content = headers.content_media(request, headers.PATCHES)
        media, most = headers.PATCHES[content], self._state_bytes_max
        if len(body) <= LARGE_BYTES:
            patch = bodies.change(body, content, bytes_max=most)
        else:
            read = partial(bodies.change, body, content, bytes_max=most)
            patch = await self._read_large(request, body, read)
        bodies.check_self_link(patch.theirs, link)
        if service.options.path == FACTORIES:
            if media == "json":
                raise UnsupportedMedia(
                    "a factory must be patched with JSON or a merge patch, not a JSON patch"
                )
            media = "handler"  # The handler of the service decides which members may change.
        operation = Operation(
            verb="PATCH",
            link=link,
            body=patch.raw,
            media=media,
            conditions=self._conditions(request, service, patch.theirs),
            key=headers.idempotency_key(request),
            replicas=self._replicas(request, link, service.options.level),
            fence=headers.fence(request, service.options.level),
            principal=authority_of(request).principal,
        )
        return await self.submit(request, operation, service, patch.theirs, waited_s=patch.waited_s)

    async def _delete(
        self, request: web.BaseRequest, link: str, service: Service, body: bytes
    ) -> Reply:
        operation = Operation(
            verb="DELETE",
            link=link,
            conditions=self._conditions(request, service, {}),
            key=headers.idempotency_key(request),
            replicas=self._replicas(request, link, service.options.level),
            fence=headers.fence(request, service.options.level),
            principal=authority_of(request).principal,
        )
        return await self.submit(request, operation, service)

    async def _options(
        self, request: web.BaseRequest, link: str, service: Service, body: bytes
    ) -> Reply:
        return allowed(authority_of(request).usable(document_methods(service.options)))

    def _conditions(
        self, request: RequestHead, service: Service, theirs: dict[str, Any]
    ) -> Conditions | None:
        version = bodies.sent_version(theirs) if theirs else None
        options = service.options
        found = headers.conditions(request, version if options.strict_updates else None)
        if options.needs_precondition and (
            found is None or (found.match is None and found.none_match is None)
        ):
            raise PreconditionRequired(f"{options.path} requires If-Match or If-None-Match")
        return found

    def _replicas(self, request: RequestHead, link: str, level: int) -> int:
        """Return the number of copies that the client requires: never fewer than the quorum."""
        wanted = headers.replicas(request)
        if wanted > 0:
            copies = self._backend.copies_of(link)
            least = copies.start if level == 3 else 1
            if not least <= wanted < copies.stop:
                most = copies.stop - 1
                detail = f"Docstore-Quorum must be all, or from {least} to {most}; got {wanted}"
                raise BadRequest(detail)
        return wanted

    async def submit(
        self,
        request: web.BaseRequest,
        operation: Operation,
        service: Service,
        theirs: Mapping[str, Any] = NOTHING,
        *,
        waited_s: float = 0.0,
    ) -> Reply:
        """Forward a write to its owner. theirs: the document* fields of the body."""
        submitted = self._submit_write(request, operation, service, theirs, waited_s)
        return await self._replied(request, submitted, service)

    def _submit_write(
        self,
        request: RequestHead,
        operation: Operation,
        service: Service,
        theirs: Mapping[str, Any],
        waited_s: float,
    ) -> Submitted:
        media = headers.accepted_media(request)
        asked = at_level(operation, service)
        left_s = headers.timeout_s(request) - waited_s
        lease = lease_of(request, asked, theirs)
        if lease:
            authority_of(request).insist("PATCH", lease)  # The lease will list the document.
            work = attached_first(self._backend, lease, asked, left_s)
            return Submitted(asyncio.ensure_future(work), media)
        return Submitted(self._backend.submit(asked, left_s), media)

    async def _replied(
        self, request: web.BaseRequest, submitted: Submitted, service: Service
    ) -> Reply:
        return self.reply(request, await submitted.answer, service, submitted.media)

    async def _get(
        self, request: web.BaseRequest, link: str, service: Service, body: bytes
    ) -> Reply:
        media = headers.accepted_media(request)
        select = _selection(request.rel_url.query) if "?" in request.raw_path else CURRENT
        wanted = headers.consistency(request)
        minimum = headers.min_version(request)
        if wanted == "linearizable":
            return await self._replied(request, self.get(request, link, service, select), service)
        operation = at_level(Operation(verb="GET", link=link, select=select), service)
        patience_s = headers.timeout_s(request)
        answer, staleness_ms = await self._backend.read_replica(operation, minimum, patience_s)
        reply = self.reply(request, answer, service, media)
        if staleness_ms is not None:
            reply.head += b"Docstore-Staleness-Ms: %d\r\n" % staleness_ms
        return reply

    def get(
        self, request: RequestHead, link: str, service: Service, select: Select = CURRENT
    ) -> Submitted:
        media = headers.accepted_media(request)
        operation = at_level(Operation(verb="GET", link=link, select=select), service)
        return Submitted(self._backend.submit(operation, headers.timeout_s(request)), media)

    def reply(self, request: RequestHead, answer: Answer, service: Service, media: str) -> Reply:
        row, kind = answer.row, service.options.kind
        if row is None or answer.status >= 300:
            head = owner_lines(answer) + (version_lines(row) if row is not None else b"")
            if answer.status == 405:  # The owner knows a later revision of the service.
                head += header_lines({"Allow": document_methods(service.options)})
            return problem_of_answer(answer, asked=request.raw_path, kind=kind, head=head)
        tag = entity_tag(row, media, service.options.level)
        head = b"Content-Type: %b\r\nETag: %b\r\n%b%b" % (
            media.encode(), tag, owner_lines(answer), version_lines(row),
        )  # fmt: skip
        if answer.conflicts:
            head += b"Docstore-Conflicts: %d\r\n" % answer.conflicts
        if answer.replicas:
            head += b"Docstore-Replicas: %d\r\n" % answer.replicas
        if request.method in ("GET", "HEAD"):
            held = headers.listed(request, IF_NONE_MATCH)
            if held is not None:
                tags = headers.tags(held, "If-None-Match", strong=False)
                if headers.is_current(tags, tag_of(row, service.options.level)):
                    return Reply(304, head=head)
        elif answer.status == 201:
            head += header_lines({"Location": encoded(row.link)})
        if service.options.path == FACTORIES:
            return Reply(answer.status, declaration_bytes(row, kind, media), head)
        shown = shown_to(authority_of(request), row)
        return Reply(answer.status, document_bytes(shown, kind, media), head)


class PreconditionRequired(Conflict):
    """The factory demands a precondition, and the request has none."""

    status = 428
    code = "precondition-required"


def check_no_factory(backend: Backend, link: str) -> None:
    """Refuse to create a document at the path of a factory. Raises Conflict."""
    if backend.registry.service_at(link) is not None:
        raise Conflict(f"{link} is a factory, so a document cannot have this link: use another")


def at_level(operation: Operation, service: Service) -> Operation:
    level = service.options.level
    return operation if level == LINEARIZABLE else replace(operation, level=level)


def _selection(query: Mapping[str, str]) -> Select:
    if all(name in query for name in SELECTING):
        raise BadRequest(f"only one of {' and '.join(SELECTING)} can be given")
    if "documentVersion" in query:
        version = headers.whole_number(query["documentVersion"], "documentVersion", 0, 1 << 62)
        return ("version", version)
    if "at" in query:
        return ("at", headers.instant_us(query["at"], "at"))
    return CURRENT


def owner_lines(answer: Answer) -> bytes:
    """Return the header lines that name the node that answered."""
    return _owner_lines(answer.owner, answer.epoch) if answer.owner else b""


@lru_cache(maxsize=1024)
def _owner_lines(owner: str, epoch: int) -> bytes:
    return b"Docstore-Owner: %b\r\nDocstore-Epoch: %d\r\n" % (owner.encode(), epoch)
