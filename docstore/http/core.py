"""The pages under /core, /health and /metrics: what the node says of itself and the group."""

from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from docstore import json
from docstore.errors import BadRequest, Conflict, NotFound
from docstore.http import reading
from docstore.http.backend import Backend
from docstore.http.documents import Documents, not_allowed
from docstore.http.problems import problem
from docstore.http.representation import encode

Page = Callable[[web.BaseRequest], Awaitable[web.Response]]
SYNCH = "/core/management/synch"


class CorePages:
    """Exact path -> page, but for the selectors, which are named."""

    def __init__(self, backend: Backend, documents: Documents) -> None:
        self._backend = backend
        self._documents = documents
        self.pages: dict[str, Page] = {
            "/core/management": self._management,
            SYNCH: self._synch,
            "/core/management/digests": self._digests,
            "/core/node-groups/default": self._node_group,
            "/core/node-groups/default/available": self._available,
            "/core/document-index": self._document_index,
            "/health/live": self._live,
            "/health/ready": self._ready,
            "/metrics": self._metrics,
        }
        self.requests = 0

    async def selector(self, request: web.BaseRequest, name: str) -> web.Response:
        """Answer GET /core/node-selectors/<name>."""
        _only_get(request)
        page = self._backend.selector(name)
        if page is None:
            raise NotFound(f"there is no node selector {name[:60]}")
        return _json(request, page)

    async def explain(self, request: web.BaseRequest, link: str) -> web.Response:
        """Answer GET <link>/explain."""
        _only_get(request)
        return _json(request, await self._backend.explain(link, reading.timeout_s(request)))

    async def _management(self, request: web.BaseRequest) -> web.Response:
        match request.method:
            case "GET" | "HEAD":
                return _json(request, self._backend.management())
            case "PATCH":
                return await self._synchronize(request)
            case "DELETE":
                self._backend.drain()
                return _json(request, {"state": "DRAINING"}, status=202)
            case _:
                raise not_allowed(request.method, "DELETE, GET, HEAD, OPTIONS, PATCH")

    async def _synchronize(self, request: web.BaseRequest) -> web.Response:
        reading.content_media(request, {"application/json": ""})
        body = json.parse_object(await request.read())
        if body.get("kind") != "SynchronizeRequest":
            raise BadRequest('kind must be "SynchronizeRequest"')
        link = body.get("documentSelfLink")
        if link is not None and (not isinstance(link, str) or not link.startswith("/")):
            raise BadRequest("documentSelfLink is a path")
        run_id = await self._backend.resync(link, reading.timeout_s(request))
        location = f"{SYNCH}?id={run_id}"
        headers = {"Location": location}
        wait_s = _wait_s(request)
        page = await self._backend.resync_status(run_id, reading.timeout_s(request))
        if wait_s:
            await self._backend.resync_wait(run_id, wait_s)
            page = await self._backend.resync_status(run_id, reading.timeout_s(request))
        status = 202 if page["state"] == "RUNNING" or not wait_s else 200
        return _json(request, page, status=status, headers=headers)

    async def _synch(self, request: web.BaseRequest) -> web.Response:
        _only_get(request)
        run_id = request.rel_url.query.get("id")
        patience_s = reading.timeout_s(request)
        return _json(request, await self._backend.resync_status(run_id, patience_s))

    async def _digests(self, request: web.BaseRequest) -> web.Response:
        _only_get(request)
        return _json(request, await self._backend.digests(reading.timeout_s(request)))

    async def _node_group(self, request: web.BaseRequest) -> web.Response:
        if request.method != "PATCH":
            _only_get(request, allow="GET, HEAD, OPTIONS, PATCH")
            return _json(request, self._backend.node_group())
        body = json.parse_object(await request.read())
        if body.get("kind") == "UpdateQuorumRequest":
            raise Conflict("quorums are computed from the configuration at level 3")
        if body.get("kind") in ("JoinPeerRequest", "RemoveMemberRequest"):
            raise Conflict("the group was founded with its members; it cannot change yet")
        raise BadRequest("kind must be UpdateQuorumRequest, JoinPeerRequest or RemoveMemberRequest")

    async def _available(self, request: web.BaseRequest) -> web.Response:
        _only_get(request)
        if self._backend.group_available():
            return _json(request, {"available": True})
        return problem(503, "not-available", "the group has not converged", instance=request.path)

    async def _document_index(self, request: web.BaseRequest) -> web.Response:
        _only_get(request)
        query = request.rel_url.query
        link = query.get("documentSelfLink", "")
        service = self._backend.service_at(link.rpartition("/")[0])
        if service is None:
            raise NotFound("there is no such document")
        return await self._documents.serve(request, link, service)

    async def _live(self, request: web.BaseRequest) -> web.Response:
        _only_get(request)
        return _json(request, {"live": True})

    async def _ready(self, request: web.BaseRequest) -> web.Response:
        _only_get(request)
        ready, why_not = self._backend.ready()
        if ready:
            return _json(request, {"ready": True})
        return problem(503, "not-ready", why_not, instance=request.path)

    async def _metrics(self, request: web.BaseRequest) -> web.Response:
        _only_get(request)
        values = dict(self._backend.metrics())
        values["docstore_http_requests_total"] = float(self.requests)
        lines = []
        for name, value in sorted(values.items()):
            family = name.partition("{")[0]
            kind = "counter" if family.endswith("_total") else "gauge"
            lines.append(f"# TYPE {family} {kind}\n{name} {value:g}\n")
        return web.Response(
            body="".join(lines).encode(), headers={"Content-Type": "text/plain; version=0.0.4"}
        )


def _json(
    request: web.BaseRequest,
    page: Any,
    *,
    status: int = 200,
    headers: dict[str, str] | None = None,
) -> web.Response:
    media = reading.accepted_media(request)
    all_headers = {"Content-Type": media, **(headers or {})}
    return web.Response(status=status, body=encode(page, media), headers=all_headers)


def _only_get(request: web.BaseRequest, allow: str = "GET, HEAD, OPTIONS") -> None:
    if request.method not in ("GET", "HEAD"):
        raise not_allowed(request.method, allow)


def _wait_s(request: web.BaseRequest) -> int:
    """Return the seconds of `Prefer: wait=`, 0 if it is not there (RFC 7240)."""
    for part in request.headers.get("Prefer", "").lower().split(","):
        name, _, value = part.strip().partition("=")
        if name == "wait":
            return reading.whole_number(value, "Prefer: wait", 1, 300)
    return 0
