"""Documents over HTTP: POST, PUT, PATCH, GET, HEAD, DELETE, their history and their past."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from aiohttp import web

from docstore import json
from docstore.errors import BadRequest, Conflict, MethodNotAllowed
from docstore.http import reading
from docstore.http.backend import Backend
from docstore.http.ids import new_id
from docstore.http.problems import problem_of_answer
from docstore.http.representation import (
    document_bytes,
    document_value,
    encode,
    entity_tag,
)
from docstore.operation import CURRENT, Answer, Operation
from docstore.paths import SUFFIXES, canonical
from docstore.service import Service
from docstore.services.registry import FACTORIES, declaration_id

DOCUMENT_METHODS = "DELETE, GET, HEAD, OPTIONS, PATCH, PUT"
FACTORY_METHODS = "GET, HEAD, OPTIONS, POST"
HISTORY_LIMIT, HISTORY_LIMIT_MAX = 100, 1000


class Documents:
    """Translates requests about documents into operations, and answers into responses."""

    def __init__(self, backend: Backend, *, state_bytes_max: int) -> None:
        self._backend = backend
        self._state_bytes_max = state_bytes_max

    async def serve(self, request: web.BaseRequest, link: str, service: Service) -> web.Response:
        """Answer a request about the document at `link`."""
        match request.method:
            case "GET" | "HEAD":
                return await self._get(request, link, service)
            case "PUT":
                return await self._put(request, link, service)
            case "PATCH":
                return await self._patch(request, link, service)
            case "DELETE":
                return await self._delete(request, link, service)
            case "OPTIONS":
                return web.Response(status=204, headers={"Allow": DOCUMENT_METHODS})
            case _:
                raise not_allowed(request.method, DOCUMENT_METHODS)

    async def create(
        self, request: web.BaseRequest, factory: str, service: Service
    ) -> web.Response:
        """Answer a POST to a factory."""
        media = reading.content_media(request, reading.BODIES)
        raw = reading.json_body(await request.read(), media)
        body, state, theirs = reading.author_state(raw, self._state_bytes_max)
        link = self._new_link(factory, state, theirs)
        recreate: bool | int = "recreate" in request.headers.get("Prefer", "").lower()
        version = reading.sent_version(theirs)
        operation = Operation(
            "POST",
            link,
            body,
            signature=json.signature(state),
            conditions=reading.conditions(request, None),
            recreate=recreate or (version if version is not None else False),
            key=reading.idempotency_key(request),
            replicas=reading.replicas(request),
        )
        return await self._submit(request, operation, service)

    def _new_link(self, factory: str, state: dict[str, Any], theirs: dict[str, Any]) -> str:
        if factory == FACTORIES and isinstance(state.get("path"), str):
            return f"{factory}/{declaration_id(canonical(state['path']))}"
        named = theirs.get("documentSelfLink")
        if named is None:
            return f"{factory}/{new_id()}"
        if not isinstance(named, str) or not named:
            raise BadRequest("documentSelfLink is a string")
        link = named if named.startswith("/") else f"{factory}/{named}"
        parent, _, name = link.rpartition("/")
        if parent != factory or name in SUFFIXES or canonical_text(link) != link:
            raise BadRequest("documentSelfLink is an id, or a path directly under the factory")
        return link

    async def _put(self, request: web.BaseRequest, link: str, service: Service) -> web.Response:
        media = reading.content_media(request, reading.BODIES)
        raw = reading.json_body(await request.read(), media)
        body, state, theirs = reading.author_state(raw, self._state_bytes_max)
        if theirs:
            reading.check_self_link(theirs, link)
        self._demand_precondition(request, service)
        operation = Operation(
            "PUT",
            link,
            body,
            "",
            json.signature(state),
            self._conditions(request, service, theirs),
            creates=service.options.put_creates,
            key=reading.idempotency_key(request),
            replicas=reading.replicas(request),
        )
        return await self._submit(request, operation, service)

    async def _patch(self, request: web.BaseRequest, link: str, service: Service) -> web.Response:
        media = reading.content_media(request, reading.PATCHES)
        raw = reading.json_body(await request.read(), media)
        theirs: dict[str, Any] = {}
        if reading.PATCHES[media] == "json":
            json.parse(raw)
        else:
            raw, _, theirs = reading.author_state(raw, self._state_bytes_max)
            reading.check_self_link(theirs, link)
        self._demand_precondition(request, service)
        operation = Operation(
            "PATCH",
            link,
            raw,
            reading.PATCHES[media],
            conditions=self._conditions(request, service, theirs),
            key=reading.idempotency_key(request),
            replicas=reading.replicas(request),
        )
        return await self._submit(request, operation, service)

    async def _delete(self, request: web.BaseRequest, link: str, service: Service) -> web.Response:
        self._demand_precondition(request, service)
        operation = Operation(
            "DELETE",
            link,
            conditions=reading.conditions(request, None),
            key=reading.idempotency_key(request),
            replicas=reading.replicas(request),
        )
        return await self._submit(request, operation, service)

    def _conditions(
        self, request: web.BaseRequest, service: Service, theirs: dict[str, Any]
    ) -> Any:
        version = reading.sent_version(theirs)
        return reading.conditions(request, version if service.options.strict_updates else None)

    def _demand_precondition(self, request: web.BaseRequest, service: Service) -> None:
        if service.options.needs_precondition and not (
            "If-Match" in request.headers or "If-None-Match" in request.headers
        ):
            raise PreconditionRequired("this factory demands If-Match or If-None-Match")

    async def _submit(
        self, request: web.BaseRequest, operation: Operation, service: Service
    ) -> web.Response:
        media = reading.accepted_media(request)
        answer = await self._backend.submit(operation, reading.timeout_s(request))
        return self.response(request, answer, service, media)

    # Reading

    async def _get(self, request: web.BaseRequest, link: str, service: Service) -> web.Response:
        media = reading.accepted_media(request)
        query = request.rel_url.query if "?" in request.raw_path else {}
        operation = Operation("GET", link, select=_selection(query) if query else CURRENT)
        wanted = reading.consistency(request)
        patience_s = reading.timeout_s(request)
        raw_minimum = request.headers.get("Docstore-Min-Version")
        if wanted == "linearizable":
            answer = await self._backend.submit(operation, patience_s)
            return self.response(request, answer, service, media)
        minimum = None
        if raw_minimum is not None:
            minimum = reading.whole_number(raw_minimum, "Docstore-Min-Version", 0, 1 << 62)
        answer, staleness_ms = await self._backend.read_replica(operation, minimum, patience_s)
        response = self.response(request, answer, service, media)
        response.headers["Docstore-Staleness-Ms"] = str(staleness_ms)
        return response

    async def history(self, request: web.BaseRequest, link: str, service: Service) -> web.Response:
        """Answer GET <link>/versions: history, newest first, in pages."""
        if request.method not in ("GET", "HEAD"):
            raise not_allowed(request.method, "GET, HEAD, OPTIONS")
        media = reading.accepted_media(request)
        query = request.rel_url.query
        limit = reading.whole_number(
            query.get("limit", str(HISTORY_LIMIT)), "limit", 1, HISTORY_LIMIT_MAX
        )
        before = None
        if "from" in query:
            before = reading.whole_number(query["from"], "from", 0, 1 << 62) + 1
        select = ("history", before, limit + 1)
        operation = Operation("GET", link, select=select)
        answer = await self._backend.submit(operation, reading.timeout_s(request))
        if not answer.is_success or answer.rows is None:
            return self.response(request, answer, service, media)
        rows = answer.rows
        page: dict[str, Any] = {
            "documentSelfLink": link,
            "versions": [document_value(row, service.options.kind) for row in rows[:limit]],
        }
        if len(rows) > limit:
            page["nextPageLink"] = f"{request.path}?from={rows[limit].version}&limit={limit}"
        body = encode(page, media)
        return web.Response(body=body, headers={"Content-Type": media} | _owner_headers(answer))

    def response(
        self, request: web.BaseRequest, answer: Answer, service: Service, media: str
    ) -> web.Response:
        """Return the response that an answer of the cluster is."""
        headers = _owner_headers(answer)
        row = answer.row
        if row is None or not answer.is_success:
            if row is not None:
                headers["Docstore-Version"] = str(row.version)
            return problem_of_answer(
                answer, instance=request.path, kind=service.options.kind, headers=headers
            )
        tag = headers["ETag"] = entity_tag(row, media)
        headers["Content-Type"] = media
        if answer.replicas:
            headers["Docstore-Replicas"] = str(answer.replicas)
        if request.method == "GET" and "If-None-Match" in request.headers:
            held = reading.tags(request.headers["If-None-Match"], "If-None-Match")
            if held == "*" or [row.epoch, row.version] in held:
                return web.Response(status=304, headers={"ETag": tag})
        if answer.status == 201:
            headers["Location"] = row.link
        trace = request.headers.get("traceparent")
        if trace:
            headers["traceparent"] = trace
        body = document_bytes(row, service.options.kind, media)
        return web.Response(status=answer.status, body=body, headers=headers)


class PreconditionRequired(Conflict):
    """The factory demands a precondition, and the request has none."""

    status = 428
    code = "precondition-required"


def not_allowed(method: str, allow: str) -> MethodNotAllowed:
    """Return the error for a method that this resource does not take."""
    error = MethodNotAllowed(f"{method[:20]} is not for this resource")
    error.allow = allow
    return error


def canonical_text(link: str) -> str:
    """Return the canonical form of a decoded link; raises BadRequest."""
    for segment in link[1:].split("/"):
        if not segment or segment in (".", "..") or any(c < " " or c in "\\\x7f" for c in segment):
            raise BadRequest("documentSelfLink is not a path")
    if len(link.encode()) > 1024:
        raise BadRequest("documentSelfLink is too long")
    return link


def _selection(query: Mapping[str, str]) -> tuple[Any, ...]:
    if "documentVersion" in query:
        version = reading.whole_number(query["documentVersion"], "documentVersion", 0, 1 << 62)
        return ("version", version)
    if "at" in query:
        return ("at", _instant_us(query["at"]))
    return CURRENT


def _instant_us(raw: str) -> int:
    """Return a time in microseconds, from digits or from RFC 3339."""
    if raw.isascii() and raw.isdecimal() and len(raw) <= 18:
        return int(raw)
    try:
        instant = datetime.fromisoformat(raw.replace(" ", "+"))
    except ValueError:
        raise BadRequest("at is an RFC 3339 time, or microseconds since 1970") from None
    if instant.tzinfo is None:
        raise BadRequest("at needs a time zone, such as Z")
    return int(instant.timestamp() * 1_000_000)


def _owner_headers(answer: Answer) -> dict[str, str]:
    if not answer.owner:
        return {}
    return {"Docstore-Owner": answer.owner, "Docstore-Epoch": str(answer.epoch)}
