"""The HTTP face: one handler for every request, routed by a look-up, and an answer to each.

There is no application, no middleware and no router between the listener and us, because a
request costs tens of microseconds here and every layer would be felt. Errors of the edge become
problems in one place.
"""

import asyncio
import ssl
import time
from collections.abc import Callable, Iterable
from typing import Protocol

from aiohttp import web

from docstore.errors import BadRequest, Misdirected, NotFound
from docstore.http import bodies, headers
from docstore.http.access import Access
from docstore.http.authority import AUTHORITY, EVERYBODY, authority_of, refusal
from docstore.http.backend import Backend
from docstore.http.bulk import Bulk
from docstore.http.changes import CHANGES, Changes, is_watched
from docstore.http.changes import METHODS as CHANGES_METHODS
from docstore.http.core_pages import ENTRY, CorePages
from docstore.http.documents import Documents
from docstore.http.elections import TURN_PATHS, ElectionPages
from docstore.http.ending import Ending
from docstore.http.groups import GROUP_PATHS, GroupPages
from docstore.http.guard import Guard
from docstore.http.heeded import refuse_what_has_no_effect
from docstore.http.large import LargeBodies
from docstore.http.leases import LeasePages
from docstore.http.listener import Listener
from docstore.http.listing import listing
from docstore.http.methods import FACTORY_METHODS, READ_METHODS, allowed, check_method, not_allowed
from docstore.http.metrics import KNOWN_METHODS, HttpMetrics
from docstore.http.parameters import check_parameters, check_selection
from docstore.http.plain import PlainRequests
from docstore.http.queries import METHODS as QUERY_METHODS
from docstore.http.queries import QUERY_TASKS, QueryPages, is_query
from docstore.http.quotas import Quotas
from docstore.http.reply import Reply, header_lines
from docstore.http.scans import SCAN_PAGES, SCANS, ScanPages
from docstore.http.selectors import SELECTORS, SelectorPages
from docstore.http.staged_files import Staging
from docstore.http.staging import STAGING, StagedParts
from docstore.http.stored_rows import METHODS as ROWS_METHODS
from docstore.http.stored_rows import STORED_ROWS, StoredRows
from docstore.http.streams import STREAM_PATHS, StreamPages
from docstore.http.subscriptions import SubscriptionPages
from docstore.http.users import ACCESS, UserPages
from docstore.http.utilities import Asked, UtilityPages
from docstore.model.limits import Limits
from docstore.model.paths import SUFFIXES, canonical
from docstore.model.principals import USERS
from docstore.model.service import Service
from docstore.reads.positions import Positions
from docstore.runtime.tls.accepting import TlsServer, listen
from docstore.runtime.trace.context import LENGTH, TRACEPARENT
from docstore.services.leases import LEASES
from docstore.services.subscriptions import SUBSCRIPTIONS

CORE = "/core/"
BULK = "/core/bulk"
BULK_METHODS = "OPTIONS, POST"
ALL_METHODS = ", ".join(sorted(KNOWN_METHODS))


class Pages(Protocol):
    """What answers everything about one kind of thing; bodies are its own business."""

    def takes(self, path: str) -> bool:
        """Say whether a canonical path is its own."""

    async def serve(self, request: web.BaseRequest, path: str) -> Reply | web.StreamResponse:
        """Answer a request."""


class HttpServer:
    """Serves one backend."""

    def __init__(
        self,
        backend: Backend,
        limits: Limits,
        staging: Staging | None = None,
        *,
        names: Iterable[str] = (),
        access: Access | None = None,
        tls: Callable[[], ssl.SSLContext] | None = None,
    ) -> None:
        """staging: where parts of jobs may wait. names: of this node, beside its addresses.

        access: who may ask for what; None: everybody for everything.
        tls: what https is spoken with, asked for each connection; None: it is not.
        """
        self._backend = backend
        self._guard = Guard(names)
        self._access = access
        self._limits = limits
        self.metrics = HttpMetrics()
        self._ending = Ending(self.metrics)
        large, timeout_s = LargeBodies(), limits.body_timeout_s
        self._documents = Documents(backend, large, state_bytes_max=limits.body_bytes_max)
        self._core = CorePages(backend, self._documents, self.metrics)
        self._selectors = SelectorPages(backend)
        quotas, positions = Quotas(backend), Positions(backend.submit)
        self._bulk = Bulk(backend, quotas, large, state_bytes_max=limits.body_bytes_max,
                          timeout_s=timeout_s)  # fmt: skip
        self._plain = PlainRequests(self._documents, self._guard, access, self._ending,
                                    body_bytes_max=limits.body_bytes_max)  # fmt: skip
        self._scans = ScanPages(backend, quotas, positions)
        self._stored_rows = StoredRows(backend, quotas)
        self._queries = QueryPages(backend, positions)
        self._changes = Changes(backend, positions, self._is_over)
        subscriptions = SubscriptionPages(backend, self._documents, self._changes, limits)
        self._utilities = UtilityPages(backend, self._documents, self._core, subscriptions, limits)
        self._kinds: tuple[tuple[str | tuple[str, ...], Pages], ...] = (
            (STREAM_PATHS, StreamPages(backend, self._documents, large, limits, self._is_over)),
            (LEASES, LeasePages(backend, self._documents, limits)),
            (TURN_PATHS, ElectionPages(backend, self._documents, limits)),
            (GROUP_PATHS, GroupPages(backend, self._documents, limits)),
            (SUBSCRIPTIONS, subscriptions),
            ((ACCESS, USERS), UserPages()),
        )
        """Prefixes of paths -> what answers everything of its kind below them."""
        self._staged = StagedParts(staging, self._bulk, timeout_s=timeout_s) if staging else None
        self._listener: Listener | None = None
        self._tls = tls
        self._socket: asyncio.Server | TlsServer | None = None
        self._shared: asyncio.Server | TlsServer | None = None

    async def start(self, host: str, port: int) -> int:
        """Listen; return the port. Raises OSError when it is taken."""
        token_bytes = self._changes.token_bytes
        self._listener = Listener(
            self._handle, self._plain, self._limits, self.metrics, token_bytes
        )
        self._socket = await self._listen(self._listener, host, port)
        bound: int = self._socket.sockets[0].getsockname()[1]
        return bound

    async def share(self, host: str, port: int) -> None:
        """Take a port together with other processes of this machine; nobody comes there yet.

        Raises OSError when somebody has it who does not share.
        """
        assert self._listener is not None
        self._shared = await self._listen(self._listener, host, port, is_shared=True)

    async def _listen(
        self, listener: Listener, host: str, port: int, *, is_shared: bool = False
    ) -> asyncio.Server | TlsServer:
        if self._tls is not None:
            entrance = listener.entrance(self._tls)
            return await listen(entrance, host, port, reuse_port=is_shared, start=not is_shared)
        return await asyncio.get_running_loop().create_server(
            listener, host, port, backlog=1024, reuse_address=True,
            reuse_port=is_shared or None, start_serving=not is_shared,
        )  # fmt: skip

    async def serve_shared(self) -> None:
        """Listen there as well, until clients are sent away; the system deals them out."""
        if self._shared is not None:
            await self._shared.start_serving()

    async def stop(self, grace_s: float) -> None:
        """Stop listening, let requests finish within `grace_s`, close the connections."""
        for _ in range(2):  # Serve the connections that the kernel has accepted.
            await asyncio.sleep(0)
        for socket in (self._socket, self._shared):
            if socket is not None:
                socket.close()
        if self._listener is not None:
            await self._listener.close(grace_s)

    def send_away(self) -> None:
        """Close each connection after its next answer: its client should go elsewhere."""
        if self._shared is not None:  # Others listen there, to whom clients come now.
            self._shared.close()
            self._shared = None
        if self._listener is not None:
            self._listener.leave()
        self._ending.send_away()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer any request, whatever happens on the way."""
        began = time.perf_counter()
        trace = headers.trace(request)
        if trace:  # It ends with the task, which is this request's alone.
            TRACEPARENT.set(trace[:LENGTH])
        try:
            reply = await self._route(request)
        except (asyncio.CancelledError, ConnectionError):
            raise  # The client has gone, or this node stops.
        except Exception as error:
            if request.writer.output_size:  # Whoever began to answer should have known what to do.
                self._ending.note_error(request, error)
                raise ConnectionResetError("the answer cannot be finished") from error
            reply = self._ending.refused(request, error)
        else:
            if reply.status == 500:  # Its owner, or the author of a service, has failed.
                self._ending.note_error(request, None)
        if trace and isinstance(reply, Reply):
            reply.head += header_lines({"traceparent": trace})
        self._ending.done(request, reply, began)
        return reply

    async def _route(self, request: web.BaseRequest) -> Reply | web.StreamResponse:
        method = request.method
        if method not in KNOWN_METHODS:
            raise not_allowed(method, ALL_METHODS)
        self._guard.check(request)
        authority = EVERYBODY if self._access is None else self._access.authority(request)
        request[AUTHORITY] = authority
        headers.refuse_oddities(request)
        raw = request.raw_path.partition("?")[0]
        if not raw.startswith("/"):
            if raw == "*" and method == "OPTIONS":
                return allowed(ALL_METHODS)
            raw = _own_path(request, raw)
        staged = self._staged if raw.startswith(STAGING) else None
        path = STAGING if staged else raw if raw == ENTRY else canonical(raw)
        if not authority.enter(method, path):
            return await self._list_below(request, path)
        refuse_what_has_no_effect(request, raw if staged else path)
        if is_watched(request):
            return await self._changes.watch(request, path)
        if raw == BULK:
            return await self._serve_bulk(request)
        if staged is not None:
            return await staged.serve(request, raw)
        if path.startswith(CORE):
            for prefixes, pages in self._kinds:
                if path.startswith(prefixes) and pages.takes(path):
                    return await pages.serve(request, path)
        body = await bodies.receive(
            request,
            bytes_max=self._limits.body_bytes_max,
            timeout_s=self._limits.body_timeout_s,
        )
        service = self._documents.service_of(path)
        if service is not None:
            return await self._document(request, path, service, body)
        if path in self._core.pages:
            return await self._core.serve(request, path, body)
        return await self._route_rarer(request, path, body)

    async def _list_below(self, request: web.BaseRequest, path: str) -> Reply:
        """Answer who may read only some of what is below a path: what of it a factory has."""
        service = await self._find(request, path)
        query = request.rel_url.query
        is_more = request.method == "OPTIONS" or is_query(query) or is_watched(request)
        if service is None or is_more:
            raise refusal(request.method, path)
        return await listing(self._backend, request, path, service)

    def _is_over(self, request: web.BaseRequest) -> bool:
        """Say whether a request that waits, or is sent news, is to end."""
        return self._ending.sends_away() or not authority_of(request).holds()

    async def _route_rarer(
        self, request: web.BaseRequest, path: str, body: bytes
    ) -> Reply | web.StreamResponse:
        if path.startswith(SCANS) and path[len(SCANS) :] in SCAN_PAGES:
            return await self._scan(request, path[len(SCANS) :], body)
        if path == CHANGES:
            check_method(request, CHANGES_METHODS)
            is_asked = request.method == "OPTIONS"
            return (
                allowed(CHANGES_METHODS) if is_asked else await self._changes.serve(request, body)
            )
        if path == QUERY_TASKS:
            check_method(request, QUERY_METHODS)
            is_asked = request.method == "OPTIONS"
            return allowed(QUERY_METHODS) if is_asked else await self._queries.serve(request, body)
        if path == STORED_ROWS:
            check_method(request, ROWS_METHODS)
            if request.method == "OPTIONS":
                return allowed(ROWS_METHODS)
            return await self._stored_rows.serve(request, body)
        if path.startswith(SELECTORS):
            return await self._selectors.serve(request, path)
        parent, _, last = path.rpartition("/")
        if last in SUFFIXES:
            return await self._utility(request, parent, last, body)
        factory = await self._find(request, path)
        if factory is not None:
            return await self._factory(request, path, factory, body)
        service = await self._find(request, parent)
        if service is not None:
            return await self._document(request, path, service, body)
        raise NotFound("there is no such service")

    async def _document(
        self, request: web.BaseRequest, link: str, service: Service, body: bytes
    ) -> Reply:
        check_selection(request)
        return await self._documents.serve(request, link, service, body)

    async def _serve_bulk(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.method == "OPTIONS":
            return allowed(BULK_METHODS)
        check_method(request, BULK_METHODS)
        return await self._bulk.serve(request)

    async def _scan(
        self, request: web.BaseRequest, name: str, body: bytes
    ) -> Reply | web.StreamResponse:
        methods = SCAN_PAGES[name]
        if request.method == "OPTIONS":
            return allowed(methods)
        check_method(request, methods)
        if request.method == "POST":
            return await self._scans.scan(request, body)
        return await self._scans.get(request, name)

    async def _find(self, request: web.BaseRequest, path: str) -> Service | None:
        """Return the service at a path, asking the cluster if this node has not heard of it."""
        known = self._backend.service_at(path)
        if known is not None or not path or path.startswith(("/core", "/health", "/metrics")):
            return known
        return await self._backend.find_service(path, headers.timeout_s(request))

    async def _factory(
        self, request: web.BaseRequest, path: str, service: Service, body: bytes
    ) -> Reply:
        methods = FACTORY_METHODS if "POST" in service.options.methods else READ_METHODS
        match request.method:
            case "POST" if methods is FACTORY_METHODS:
                check_parameters(request)
                return await self._documents.create(request, path, service, body)
            case "GET" | "HEAD" if is_query(request.rel_url.query):
                return await self._queries.of_factory(request, path, service)
            case "GET" | "HEAD":
                return await listing(self._backend, request, path, service)
            case "OPTIONS":
                return allowed(methods)
            case _:
                raise not_allowed(request.method, methods)

    async def _utility(self, request: web.BaseRequest, link: str, name: str, body: bytes) -> Reply:
        factory = await self._find(request, link)
        service = factory or await self._find(request, link.rpartition("/")[0])
        if service is None:
            raise NotFound("there is no such service")
        asked = Asked(request, link, service, factory is not None, body)
        return await self._utilities.serve(asked, name)


def _own_path(request: web.BaseRequest, target: str) -> str:
    """Return the path of an absolute-form target, if it is for this host."""
    scheme, separator, rest = target.partition("://")
    if not separator:
        raise BadRequest("the request's target is a path")
    authority, slash, path = rest.partition("/")
    host = request.headers.get("Host", "")
    if scheme.lower() not in ("http", "https") or authority.lower() != host.lower():
        raise Misdirected("this host does not serve that authority")
    return slash + path
