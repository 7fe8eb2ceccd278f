"""The HTTP server: one handler for every request, routed by a look-up.

There is no application, middleware or router between the listener and this handler, because a
request costs tens of microseconds here and each layer would add to them. Errors become problems in
one place.
"""

import asyncio
import ssl
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any

from aiohttp import web

from docstore.errors import BadRequest, Misdirected, NotFound
from docstore.http import bodies, headers
from docstore.http.access import Access
from docstore.http.authority import AUTHORITY, EVERYBODY, authority_of, refusal
from docstore.http.backend import Backend
from docstore.http.bulk import Bulk
from docstore.http.changes import ChangePages, is_watched
from docstore.http.completion import Completion
from docstore.http.console import files as console
from docstore.http.core_pages import ENTRY, CorePages, UtilityTarget
from docstore.http.documents import DocumentPages
from docstore.http.elections import ElectionPages
from docstore.http.fast_path import FastPath
from docstore.http.group_members import MemberPages
from docstore.http.group_offsets import OffsetPages
from docstore.http.groups import GroupPages
from docstore.http.history import HistoryPages
from docstore.http.large_bodies import LargeBodies
from docstore.http.leases import LeasePages
from docstore.http.listener import Listener
from docstore.http.listing import listing
from docstore.http.methods import READS, allowed, factory_methods, not_allowed
from docstore.http.metrics import KNOWN_METHODS, HttpMetrics
from docstore.http.openapi.document import described
from docstore.http.origin_check import OriginCheck, is_preflight, preflight_headers
from docstore.http.parameters import check_parameters, check_selection
from docstore.http.produce import ProducePages
from docstore.http.queries import QueryPages, is_query
from docstore.http.quotas import Quotas
from docstore.http.reply import SHARED, Reply, header_lines
from docstore.http.request_log import BODY, RequestNotes
from docstore.http.routes.documents import CONFLICTS, UTILITIES
from docstore.http.routes.route import Ops, allow_of, op_for
from docstore.http.routes.table import BY_PATH, find, refuse_what_has_no_effect
from docstore.http.scans import ScanPages
from docstore.http.selectors import SelectorPages
from docstore.http.staged_files import Staging
from docstore.http.staging import STAGING, StagedParts, route_of
from docstore.http.stored_rows import StoredRows
from docstore.http.streams import StreamPages
from docstore.http.subscriptions import SubscriptionPages
from docstore.http.users import UserPages
from docstore.http.utilities import UtilityPages
from docstore.model.limits import Limits
from docstore.model.paths import SUFFIXES, canonical
from docstore.model.service import LINEARIZABLE, Service
from docstore.model.settings import quoted
from docstore.reads.positions import Positions
from docstore.runtime.audit import AUDIT
from docstore.runtime.tls.accepting import TlsServer, listen
from docstore.runtime.trace.context import LENGTH, TRACEPARENT

if TYPE_CHECKING:
    from docstore.http.spans import Spans

ALL_METHODS = ", ".join(sorted(KNOWN_METHODS))


class HttpServer:
    """Serves one backend over HTTP."""

    def __init__(
        self,
        backend: Backend,
        limits: Limits,
        staging: Staging | None = None,
        *,
        names: Iterable[str] = (),
        origins: Iterable[str] = (),
        access: Access | None = None,
        tls: Callable[[], ssl.SSLContext] | None = None,
        slow_request_s: float = inf,
        spans: "Spans | None" = None,
    ) -> None:
        """staging: the parts of bulk jobs on this disk. names: of this node, beside its addresses.

        origins: of web pages that may send requests and read the answers. access: checks tokens and
        grants; None: every caller may do everything. tls: returns the TLS context, called for each
        connection; None: plain HTTP. slow_request_s: duration from which a request is logged.
        spans: makes a span of each request.
        """
        self._backend = backend
        self._origin_check = OriginCheck(names, origins)
        self._access = access
        self._limits = limits
        self.metrics = HttpMetrics()
        notes = RequestNotes(backend.loop_lag_s)
        self._completion = Completion(self.metrics, notes, slow_request_s)
        large, most = LargeBodies(), limits.body_bytes_max
        self._documents = documents = DocumentPages(backend, large, state_bytes_max=most)
        authority = None if access is None else access.authority
        self._producing = ProducePages(backend, large, timeout_s=limits.body_timeout_s)
        self._elections = ElectionPages(backend, documents)
        self._spans = spans
        path = FastPath if spans is None else spans.fast_path
        self._fast_path = path(
            documents, self._producing, self._elections, self._origin_check, authority,
            self._completion, body_bytes_max=most,
        )  # fmt: skip
        positions = Positions(backend.submit)
        self._queries = QueryPages(backend, positions)
        self._changes = ChangePages(backend, positions, self._is_over)
        pages = self._made_pages(backend, large, positions, staging)
        self._pages = {type(each): each for each in pages}
        """Class of pages -> the instance with which handlers of the route table are called."""
        self._listener: Listener | None = None
        self._tls = tls
        self._socket: asyncio.Server | TlsServer | None = None
        self._shared: asyncio.Server | TlsServer | None = None

    def _made_pages(
        self, backend: Backend, large: LargeBodies, positions: Positions, staging: Staging | None
    ) -> Sequence[object]:
        documents, limits = self._documents, self._limits
        most, timeout_s = limits.body_bytes_max, limits.body_timeout_s
        quotas = Quotas(backend)
        bulk = Bulk(backend, quotas, large, state_bytes_max=most, timeout_s=timeout_s)
        offsets = OffsetPages(backend, documents)
        core = CorePages(backend, documents, self.metrics, described, offsets.metrics)
        return (
            core, bulk, offsets, self._queries, self._changes, UserPages(),
            HistoryPages(backend, documents), SelectorPages(backend), MemberPages(backend),
            ScanPages(backend, quotas, positions), StoredRows(backend, quotas),
            StreamPages(backend, documents, self._producing, self._is_over),
            LeasePages(backend, documents, state_bytes_max=most),
            self._elections, GroupPages(backend, documents),
            SubscriptionPages(backend, documents, self._changes),
            UtilityPages(backend, documents, core, state_bytes_max=most),
            *([StagedParts(staging, bulk, timeout_s=timeout_s)] if staging else []),
        )  # fmt: skip

    async def start(self, host: str, port: int) -> int:
        """Listen; return the port. Raises OSError when it is taken."""
        token_bytes = self._changes.token_bytes
        handle = self._handle if self._spans is None else partial(self._spans.serve, self._handle)
        self._listener = Listener(handle, self._fast_path, self._limits, self.metrics, token_bytes)
        self._socket = await self._listen(self._listener, host, port)
        bound: int = self._socket.sockets[0].getsockname()[1]
        return bound

    async def share(self, host: str, port: int) -> None:
        """Bind a port together with other processes of this machine, without listening yet.

        Raises OSError when a process that does not share the port has bound it.
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
        """Listen at the shared port as well; the kernel spreads clients over the processes."""
        if self._shared is not None:
            await self._shared.start_serving()

    async def stop(self, grace_s: float) -> None:
        """Stop listening, let requests finish within `grace_s`, close the connections."""
        for _ in range(2):  # Serve the connections that the kernel has already accepted.
            await asyncio.sleep(0)
        for socket in (self._socket, self._shared):
            if socket is not None:
                socket.close()
        if self._listener is not None:
            await self._listener.close(grace_s)

    def send_away(self) -> None:
        """Close each connection after its next answer, so that its client uses another node."""
        if self._shared is not None:  # The other processes at the shared port accept new clients.
            self._shared.close()
            self._shared = None
        if self._listener is not None:
            self._listener.leave()
        self._completion.send_away()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer any request, also after an error."""
        began = time.perf_counter()
        trace = headers.trace(request)
        if trace and not TRACEPARENT.get():  # Else a span of this request is its parent.
            TRACEPARENT.set(trace[:LENGTH])  # Until the task ends, which serves this request alone.
        shared = self._origin_check.shared(request)
        if shared:
            SHARED.set(shared)  # Until the task ends, too.
        try:
            reply = await self._route(request)
        except (asyncio.CancelledError, ConnectionError):
            raise  # The client has disconnected, or this node stops.
        except Exception as error:
            # The status is sent, so only closing the connection can report the error.
            if request.writer.output_size:
                self._completion.note_error(request, error)
                raise ConnectionResetError("the reply failed after its head was sent") from error
            reply = self._completion.refused(request, error)
        else:
            if reply.status == 500:  # The owner, or a service's own code, has failed.
                self._completion.note_error(request, None)
        if trace and isinstance(reply, Reply):
            reply.head += header_lines({"traceparent": trace})
        if shared and isinstance(reply, Reply):
            reply.head += header_lines(shared)
        self._completion.done(request, reply, began)
        return reply

    async def _route(self, request: web.BaseRequest) -> Reply | web.StreamResponse:
        method = request.method
        if method not in KNOWN_METHODS:
            raise not_allowed(method, ALL_METHODS)
        self._origin_check.check(request)
        if SHARED.get({}) and is_preflight(request):  # Without a token, which browsers do not send.
            return Reply(204, b"", header_lines(preflight_headers(ALL_METHODS)))
        if request.raw_path == ENTRY and console.leads_to_console(request):
            return console.lead()  # Without a token, which the console asks for.
        authority = EVERYBODY if self._access is None else self._access.authority(request)
        request[AUTHORITY] = authority
        headers.refuse_oddities(request)
        raw = request.raw_path.partition("?")[0]
        if not raw.startswith("/"):
            if raw == "*" and method == "OPTIONS":
                return allowed(ALL_METHODS)
            raw = _own_path(request, raw)
        is_staged = raw.startswith(STAGING) and StagedParts in self._pages
        path = STAGING if is_staged else raw if raw == ENTRY else canonical(raw)
        if not authority.enter(method, path):
            return await self._list_below(request, path)
        if method not in READS:
            refuse_what_has_no_effect(request, raw if is_staged else path)
        if is_watched(request):
            return await self._changes.watch(request, path)
        if is_staged:
            part = BY_PATH[route_of(raw)]
            return await self._operate(request, part.ops, part.pages, raw)
        route = find(path)
        if route is not None and (raw == path or not route.is_literal):
            return await self._operate(request, route.ops, route.pages, path)
        body = await self._receive(request)
        service = self._documents.service_of(path)
        if service is not None:
            return await self._document(request, path, service, body)
        return await self._route_rarer(request, path, body)

    async def _operate(
        self,
        request: web.BaseRequest,
        ops: Ops,
        pages: type[Any] | None,
        at: str | UtilityTarget,
        body: bytes | None = None,
    ) -> Reply | web.StreamResponse:
        """Call the handler of a method. at: the path of a route, or the subject of a utility."""
        op = op_for(ops, request.method)
        if op is None:
            allow = allow_of(ops)
            if request.method == "OPTIONS":
                return allowed(authority_of(request).usable(allow))
            raise not_allowed(request.method, allow)
        assert op.handler is not None
        assert pages is not None
        if op.checks_query and "?" in request.raw_path:
            check_parameters(request, op.parameters)
        if request.method not in READS and op.is_in_json:
            headers.accepted_media(request)  # Refused afterwards, the change would be made.
        if body is None:
            body = await self._receive(request) if op.receives else b""
        return await op.handler(self._pages[pages], request, at, body)

    async def _receive(self, request: web.BaseRequest) -> bytes:
        body = await bodies.receive(
            request,
            bytes_max=self._limits.body_bytes_max,
            timeout_s=self._limits.body_timeout_s,
        )
        if AUDIT.is_on:
            request[BODY] = body
        return body

    async def _list_below(self, request: web.BaseRequest, path: str) -> Reply:
        """List the entries of a factory for a caller that may read only some of them."""
        service = await self._find(request, path)
        if service is None or is_query(request.rel_url.query) or is_watched(request):
            raise refusal(request.method, path)
        if request.method == "OPTIONS":
            route = find(path)
            methods = allow_of(route.ops) if route else factory_methods(service.options)
            return allowed(authority_of(request).usable(methods))
        return await listing(self._backend, request, path, service)

    def _is_over(self, request: web.BaseRequest) -> bool:
        """Say whether to end a request that waits or receives events."""
        return self._completion.sends_away() or not authority_of(request).holds()

    async def _route_rarer(
        self, request: web.BaseRequest, path: str, body: bytes
    ) -> Reply | web.StreamResponse:
        parent, _, last = path.rpartition("/")
        if last in SUFFIXES:
            return await self._utility(request, parent, last, body)
        factory = await self._find(request, path)
        if factory is not None:
            return await self._factory(request, path, factory, body)
        service = await self._find(request, parent)
        if service is not None:
            return await self._document(request, path, service, body)
        raise NotFound(f"there is no factory at {parent or path}")

    async def _document(
        self, request: web.BaseRequest, link: str, service: Service, body: bytes
    ) -> Reply:
        check_selection(request)
        return await self._documents.serve(request, link, service, body)

    async def _find(self, request: web.BaseRequest, path: str) -> Service | None:
        """Return the service at a path; ask the cluster if this node does not know it."""
        known = self._backend.registry.service_at(path)
        if known is not None or not path or path.startswith(("/core", "/health", "/metrics")):
            return known
        return await self._backend.find_service(path, headers.timeout_s(request))

    async def _factory(
        self, request: web.BaseRequest, path: str, service: Service, body: bytes
    ) -> Reply:
        methods = factory_methods(service.options)
        match request.method:
            case "POST" if "POST" in service.options.methods:
                check_parameters(request)
                return await self._documents.create(request, path, service, body)
            case "GET" | "HEAD" if is_query(request.rel_url.query):
                return await self._queries.of_factory(request, path, service)
            case "GET" | "HEAD":
                return await listing(self._backend, request, path, service)
            case "OPTIONS":
                return allowed(authority_of(request).usable(methods))
            case _:
                raise not_allowed(request.method, methods)

    async def _utility(
        self, request: web.BaseRequest, link: str, name: str, body: bytes
    ) -> Reply | web.StreamResponse:
        factory = await self._find(request, link)
        service = factory or await self._find(request, link.rpartition("/")[0])
        if service is None:
            raise NotFound(f"there is no factory or document at {link}")
        utility = UTILITIES[name]
        ops = utility.of_document if factory is None else utility.of_factory
        if not ops:
            raise NotFound(f"{name} is for documents, and {link} is a factory")
        if name == CONFLICTS and service.options.level == LINEARIZABLE:
            raise NotFound(f"{link} has level 3, where there are no conflicts")
        of = UtilityTarget(link, service, factory is not None)
        return await self._operate(request, ops, utility.pages, of, body)


def _own_path(request: web.BaseRequest, target: str) -> str:
    """Return the path of an absolute-form target, if it names this host."""
    scheme, separator, rest = target.partition("://")
    if not separator:
        raise BadRequest(f"the request's target must be a path; got {quoted(target)}")
    authority, slash, path = rest.partition("/")
    host = request.headers.get("Host", "")
    if scheme.lower() not in ("http", "https") or authority.lower() != host.lower():
        raise Misdirected(f"the target's authority must be that of Host; got {quoted(authority)}")
    return slash + path
