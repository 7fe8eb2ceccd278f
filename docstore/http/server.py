"""The listener: one handler for every request, routed by a look-up, and an answer to each.

aiohttp's low-level server parses and writes; there is no application, no middleware and no
router between it and us, because a request costs tens of microseconds here and every layer
would be felt. Errors of the edge become problems in one place.
"""

import asyncio
from collections import Counter
from dataclasses import dataclass

import structlog
from aiohttp import web
from aiohttp.http_exceptions import ContentEncodingError

from docstore.errors import DocstoreError, Misdirected, NotFound, TooSlow
from docstore.http import reading
from docstore.http.backend import Backend
from docstore.http.bulk import Bulk
from docstore.http.core import CorePages
from docstore.http.documents import FACTORY_METHODS, Documents, not_allowed
from docstore.http.listing import listing
from docstore.http.problems import problem, problem_of_error
from docstore.paths import SUFFIXES, canonical
from docstore.service import Service

SELECTORS = "/core/node-selectors/"
BULK = "/core/bulk"
KNOWN_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})

log = structlog.get_logger("docstore.http")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of what clients may send."""

    body_bytes_max: int = 1 << 20
    header_line_bytes_max: int = 8190
    connections_max: int = 10_000
    connections_per_address_max: int = 1_000
    keepalive_timeout_s: float = 75.0
    body_timeout_s: float = 30.0


class HttpServer:
    """Serves one backend."""

    def __init__(self, backend: Backend, limits: Limits) -> None:
        self._backend = backend
        self._limits = limits
        self._documents = Documents(backend, state_bytes_max=limits.body_bytes_max)
        self._core = CorePages(backend, self._documents)
        self._bulk = Bulk(backend, state_bytes_max=limits.body_bytes_max)
        self._server: web.Server | None = None
        self._listener: asyncio.Server | None = None
        self._addresses: Counter[str] = Counter()

    async def start(self, host: str, port: int) -> int:
        """Listen; return the port. Raises OSError when it is taken."""
        self._server = web.Server(
            self._handle,
            request_factory=self._request,
            access_log=None,
            keepalive_timeout=self._limits.keepalive_timeout_s,
            max_line_size=self._limits.header_line_bytes_max,
            max_field_size=self._limits.header_line_bytes_max,
        )
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(
            self._server, host, port, backlog=1024, reuse_address=True
        )
        bound: int = self._listener.sockets[0].getsockname()[1]
        return bound

    async def stop(self, grace_s: float) -> None:
        """Stop listening, let requests finish within `grace_s`, close the connections."""
        if self._listener is not None:
            self._listener.close()
        if self._server is not None:
            await self._server.shutdown(grace_s)

    def _request(self, *parts: object) -> web.BaseRequest:
        message, payload, protocol, writer, task = parts
        return web.BaseRequest(
            message,  # type: ignore[arg-type]
            payload,  # type: ignore[arg-type]
            protocol,  # type: ignore[arg-type]
            writer,  # type: ignore[arg-type]
            task,  # type: ignore[arg-type]
            asyncio.get_running_loop(),
            client_max_size=self._limits.body_bytes_max,
        )

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer any request, whatever happens on the way."""
        self._core.requests += 1
        try:
            return await self._route(request)
        except DocstoreError as error:
            return problem_of_error(error, instance=request.path)
        except web.HTTPRequestEntityTooLarge:
            most = self._limits.body_bytes_max
            return problem(413, "too-large", f"at most {most} bytes", instance=request.path)
        except (web.RequestPayloadError, ContentEncodingError):
            detail = "the body is not what its headers say"
            return problem(400, "malformed", detail, instance=request.path)
        except asyncio.CancelledError:
            raise
        except Exception:
            log.exception("a request failed", method=request.method, path=request.path[:200])
            return problem(500, "internal", "an error of ours", instance=request.path)

    async def _route(self, request: web.BaseRequest) -> web.StreamResponse:
        raw, _, _ = request.raw_path.partition("?")
        if not raw.startswith("/"):
            raw = self._own_path(request, raw)
        reading.refuse_oddities(request)
        path = canonical(raw)
        page = self._core.pages.get(path)
        if page is not None:
            if request.method == "OPTIONS":
                return web.Response(status=204, headers={"Allow": "GET, HEAD, OPTIONS"})
            return await page(request)
        parent, _, last = path.rpartition("/")
        service = self._backend.service_at(parent)
        if service is not None and last not in SUFFIXES:
            await self._receive_body(request)
            return await self._documents.serve(request, path, service)
        return await self._route_rarer(request, path, parent, last)

    async def _route_rarer(
        self, request: web.BaseRequest, path: str, parent: str, last: str
    ) -> web.StreamResponse:
        if path == BULK:
            if request.method != "POST":
                raise not_allowed(request.method, "POST")
            return await self._bulk.serve(request)
        if path.startswith(SELECTORS):
            return await self._core.selector(request, path[len(SELECTORS) :])
        if last in SUFFIXES:
            return await self._utility(request, parent, last)
        factory = await self._find(request, path)
        if factory is not None:
            return await self._factory(request, path, factory)
        service = await self._find(request, parent)
        if service is not None:
            await self._receive_body(request)
            return await self._documents.serve(request, path, service)
        raise NotFound("there is no such service")

    async def _find(self, request: web.BaseRequest, path: str) -> Service | None:
        """Return the service at a path, asking the cluster if this node has not heard of it."""
        known = self._backend.service_at(path)
        if known is not None or not path or path.startswith(("/core", "/health")):
            return known
        return await self._backend.find_service(path, reading.timeout_s(request))

    async def _factory(
        self, request: web.BaseRequest, path: str, service: Service
    ) -> web.StreamResponse:
        match request.method:
            case "POST":
                await self._receive_body(request)
                return await self._documents.create(request, path, service)
            case "GET" | "HEAD":
                return await listing(self._backend, request, path, service)
            case "OPTIONS":
                return web.Response(status=204, headers={"Allow": FACTORY_METHODS})
            case _:
                raise not_allowed(request.method, FACTORY_METHODS)

    async def _utility(
        self, request: web.BaseRequest, link: str, suffix: str
    ) -> web.StreamResponse:
        service = await self._find(request, link.rpartition("/")[0])
        if service is None:
            raise NotFound("there is no such service")
        if suffix == "versions":
            return await self._documents.history(request, link, service)
        if suffix == "explain":
            return await self._core.explain(request, link)
        raise NotFound(f"{suffix} is not offered yet")

    async def _receive_body(self, request: web.BaseRequest) -> None:
        """Wait for the body, but not for ever."""
        if request.method in KNOWN_METHODS and request.content.is_eof():
            return
        try:
            async with asyncio.timeout(self._limits.body_timeout_s):
                await request.read()
        except TimeoutError:
            raise TooSlow("the body did not arrive in time") from None

    def _own_path(self, request: web.BaseRequest, target: str) -> str:
        """Return the path of an absolute-form target, if it is for this host."""
        scheme, _, rest = target.partition("://")
        authority, slash, path = rest.partition("/")
        if scheme not in ("http", "https") or authority != request.headers.get("Host"):
            raise Misdirected("this host does not serve that authority")
        return slash + path
