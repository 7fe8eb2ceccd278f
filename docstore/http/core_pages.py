"""The pages of /, /core, /health and /metrics: a node and its group."""

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple

from aiohttp import web

from docstore import __version__
from docstore.errors import BadRequest, Conflict, NotFound
from docstore.http import headers, trace
from docstore.http.authority import authority_of
from docstore.http.backend import Backend
from docstore.http.console import files as console
from docstore.http.documents import DocumentPages
from docstore.http.long_poll import waiting
from docstore.http.metrics import CONTENT_TYPE, HttpMetrics
from docstore.http.parameters import SELECTING, check_members, check_parameters
from docstore.http.problems import problem
from docstore.http.reply import Reply
from docstore.http.representation import JSON_TYPE, page_reply
from docstore.http.tagged import tagged_reply
from docstore.maintenance.upkeep.resync import ACTIONS, UNDER_WAY
from docstore.model import json
from docstore.model.limits import LOG_LEVELS
from docstore.model.paths import canonical_link
from docstore.model.service import Service
from docstore.model.settings import quoted
from docstore.runtime import logs

ENTRY, OPENAPI = "/", "/core/openapi.json"
ENTRY_LINKS = {
    console.UI: "the console",
    console.DOCS: "the HTTP interface, for people",
    "/health/live": "this process answers",
    "/health/ready": "this node can serve, or why it cannot",
    "/metrics": "for Prometheus",
    "/core/management": "this node: addresses, limits, state",
    "/core/node-groups/default": "its group: members, configuration",
    "/core/node-selectors/default": "slots, their owners and replicas",
    "/core/factories": "which documents there are",
    "/core/streams": "topics",
    OPENAPI: "the HTTP interface, as OpenAPI",
}
"""Links for people who open the address of a node in a browser: path -> description."""
SYNCH = "/core/management/synch"
WAIT_S_MAX = 300
OF_SYNCHRONIZE = ("documentSelfLink", "slotsPerSecond")
REQUESTS: Mapping[str, Sequence[str]] = {
    "SynchronizeRequest": OF_SYNCHRONIZE,
    "SynchronizeControlRequest": ("id", "action"),
    "CompactRequest": ("beforeMicros",),
    "LogLevelRequest": ("level",),
}
"""Kind of a command -> the members that it may have."""
GROUP_REQUESTS: Mapping[str, Sequence[str]] = {
    "AddMemberRequest": ("member",),
    "ReplaceMemberRequest": ("id", "member"),
    "RemoveMemberRequest": ("id", "force"),
    "CancelChangeRequest": (),
    "JoinPeerRequest": ("memberGroupReference",),
}
"""Members of requests that change the group; `node/members/group.py` checks what `member` holds."""


KEY_REQUESTS = dict.fromkeys(("InstallKeyRequest", "UseKeyRequest", "RemoveKeyRequest"), ("id",))
"""Members of requests that change the gossip keys."""


class UtilityTarget(NamedTuple):
    """The factory or the document below which a utility was requested."""

    link: str
    service: Service
    is_factory: bool


class CorePages:
    """The pages of a node and of its group."""

    def __init__(
        self,
        backend: Backend,
        documents: DocumentPages,
        metrics: HttpMetrics,
        described: Callable[[Sequence[Service], Callable[[str], bool]], Any],
        lags: Callable[[], Awaitable[Mapping[str, float]]],
    ) -> None:
        """described: returns the OpenAPI description, as `openapi/document.py` does.

        lags: returns the metrics of groups' lags.
        """
        self._lags = lags
        self._backend = backend
        self._documents = documents
        self._metrics = metrics
        self._described = described

    async def explain(self, request: web.BaseRequest, of: UtilityTarget, body: bytes) -> Reply:
        """Answer GET <link>/explain."""
        return _json(
            request,
            await self._backend.inside().status.explain(of.link, headers.timeout_s(request)),
        )

    async def entry(self, request: web.BaseRequest, path: str, body: bytes) -> Reply:
        """Answer GET of `/` with links to the node's pages."""
        page = {
            "documentSelfLink": ENTRY, "kind": "EntryPoint", "name": "docstore",
            "version": __version__, "id": self._backend.node_id, "links": ENTRY_LINKS,
        }  # fmt: skip
        return _json(request, page)

    async def management(self, request: web.BaseRequest, path: str, body: bytes) -> Reply:
        """Answer GET of the node's id, addresses, limits and health."""
        return _json(request, self._backend.management())

    async def drain(self, request: web.BaseRequest, path: str, body: bytes) -> Reply:
        """Begin to drain this node."""
        self._backend.drain()
        return _json(request, {"state": "DRAINING"}, status=202)

    async def asked_to(self, request: web.BaseRequest, path: str, body: bytes) -> Reply:
        """Answer a command for this node."""
        asked = command_in(request, body, REQUESTS)
        match asked.get("kind"):
            case "SynchronizeRequest":
                return await self.synchronize(request, asked)
            case "SynchronizeControlRequest":
                return await self._control(request, asked)
            case "CompactRequest":
                return self._compact(request, asked)
            case "LogLevelRequest":
                return self._log_level(request, asked)
        raise BadRequest(
            f"kind must be one of {', '.join(REQUESTS)}; got {quoted(asked.get('kind'))}"
        )

    def _compact(self, request: web.BaseRequest, asked: dict[str, Any]) -> Reply:
        before_us = asked.get("beforeMicros")
        now_us = time.time_ns() // 1000
        if type(before_us) is not int or not 0 < before_us <= now_us:
            raise BadRequest(
                f"beforeMicros must be past microseconds since 1970; got {quoted(before_us)}"
            )
        return _json(request, self._backend.compact(before_us), status=202)

    def _log_level(self, request: web.BaseRequest, asked: dict[str, Any]) -> Reply:
        level = asked.get("level")
        if level not in LOG_LEVELS:
            raise BadRequest(f"level must be one of {', '.join(LOG_LEVELS)}; got {quoted(level)}")
        logs.set_level(level)
        page = {"kind": "LogLevel", "id": self._backend.node_id, "level": level}
        return _json(request, page)

    async def synchronize(self, request: web.BaseRequest, asked: dict[str, Any]) -> Reply:
        """Answer a SynchronizeRequest: begin a resynchronisation, or join it."""
        pace = asked.get("slotsPerSecond", 0)
        if isinstance(pace, bool) or not isinstance(pace, int | float) or not 0 <= pace < 1e9:
            raise BadRequest(
                f"slotsPerSecond must be a number from 0 (no limit); got {quoted(pace)}"
            )
        link = asked.get("documentSelfLink")
        if link is not None:
            if not isinstance(link, str):
                raise BadRequest(f"documentSelfLink must be a path; got {quoted(link)}")
            canonical_link(link)
        wait_s = _wait_s(request)
        patience_s = headers.timeout_s(request)
        run_id = await self._backend.resync(link, patience_s, slots_per_second=float(pace))
        if wait_s:
            with waiting(request):
                await self._backend.inside().resync.wait(run_id, wait_s)
        page = await self._backend.inside().resync.status(run_id, patience_s)
        status = 200 if wait_s and page["state"] not in UNDER_WAY else 202
        return _json(request, page, status=status, more={"Location": f"{SYNCH}?id={run_id}"})

    async def _control(self, request: web.BaseRequest, asked: dict[str, Any]) -> Reply:
        run_id, action = asked.get("id"), asked.get("action")
        if not isinstance(run_id, str):
            raise BadRequest(f"id must be that of a resynchronisation; got {quoted(run_id)}")
        if action not in ACTIONS:
            raise BadRequest(f"action must be one of {', '.join(ACTIONS)}; got {quoted(action)}")
        patience_s = headers.timeout_s(request)
        return _json(
            request, await self._backend.inside().resync.control(run_id, action, patience_s)
        )

    async def synch(self, request: web.BaseRequest, path: str, body: bytes) -> Reply:
        """Answer GET of the progress of a resynchronisation."""
        run_id = request.rel_url.query.get("id")
        if run_id is None:
            raise BadRequest(
                "id must be that of a resynchronisation, from the answer that began it"
            )
        patience_s = headers.timeout_s(request)
        return _json(request, await self._backend.inside().resync.status(run_id, patience_s))

    async def digests(self, request: web.BaseRequest, path: str, body: bytes) -> Reply:
        """Answer GET of the digests of all members."""
        authority_of(request).insist_on_all("")  # The digests and the trace describe all documents.
        return _json(
            request, await self._backend.inside().status.digests(headers.timeout_s(request))
        )

    async def trace(self, request: web.BaseRequest, path: str, body: bytes) -> Reply:
        """Answer GET of the last steps of this node."""
        authority_of(request).insist_on_all("")
        return _json(request, trace.page(self._backend, request.rel_url.query))

    async def node_group(self, request: web.BaseRequest, path: str, body: bytes) -> Reply:
        """Answer GET of the members and their configuration."""
        return _json(request, self._backend.inside().status.node_group())

    async def change_group(self, request: web.BaseRequest, path: str, body: bytes) -> Reply:
        """Begin a change of the members."""
        asked = command_in(request, body, GROUP_REQUESTS)
        if asked.get("kind") == "UpdateQuorumRequest":
            raise Conflict("a quorum cannot be set: it is computed from the members")
        page = await self._backend.change_group(asked, headers.timeout_s(request))
        return _json(request, page, status=202, more={"Location": "/core/node-groups/default"})

    async def gossip_keys(self, request: web.BaseRequest, path: str, body: bytes) -> Reply:
        """Answer GET of the keys that encrypt gossip."""
        return _json(request, await self._backend.inside().gossip_keys.page())

    async def change_gossip_keys(self, request: web.BaseRequest, path: str, body: bytes) -> Reply:
        """Have all members install, use or remove a key."""
        asked = command_in(request, body, KEY_REQUESTS)
        return _json(request, await self._backend.inside().gossip_keys.change(asked))

    async def available(self, request: web.BaseRequest, path: str, body: bytes) -> Reply:
        """Answer 200 while the group has converged, and 503 otherwise."""
        if self._backend.group_available():
            return _json(request, {"available": True})
        return not_yet(request, "not-available", "the group has not converged")

    async def document_index(self, request: web.BaseRequest, path: str, body: bytes) -> Reply:
        """Answer GET of the document that a parameter names."""
        check_parameters(request, ("documentSelfLink", *SELECTING))
        link = canonical_link(request.rel_url.query.get("documentSelfLink", ""))
        authority_of(request).insist("GET", link)
        factory = link.rpartition("/")[0]
        patience_s = headers.timeout_s(request)
        service = await self._backend.find_service(factory, patience_s) if factory else None
        if service is None:
            raise NotFound(f"there is no document {link}")
        return await self._documents.serve(request, link, service, b"")

    async def openapi(self, request: web.BaseRequest, path: str, body: bytes) -> Reply:
        """Answer GET of the description of the interface."""
        authority = authority_of(request)
        services = self._backend.registry.services()
        described = self._described(services, lambda path: authority.may("GET", path))
        return tagged_reply(request, described)

    async def live(self, request: web.BaseRequest, path: str, body: bytes) -> Reply:
        """Answer 200: the process is alive."""
        return page_reply({"live": True}, JSON_TYPE)

    async def ready(self, request: web.BaseRequest, path: str, body: bytes) -> Reply:
        """Answer 200 while this node can serve, and 503 with the reason otherwise."""
        ready, why_not = self._backend.ready()
        if ready:
            return page_reply({"ready": True}, JSON_TYPE)
        return not_yet(request, "not-ready", why_not)

    async def metrics_text(self, request: web.BaseRequest, path: str, body: bytes) -> Reply:
        """Answer GET of all metrics, for Prometheus."""
        values = {**self._backend.metrics(), **await self._lags()}
        return Reply(200, self._metrics.text(values), CONTENT_TYPE)

    async def console(self, request: web.BaseRequest, path: str, body: bytes) -> Reply:
        """Answer GET of a file of the console."""
        return console.answer(request, path)


def asked_in(request: web.BaseRequest, body: bytes) -> dict[str, Any]:
    """Return what a body asks for. Raises BadRequest, UnsupportedMedia."""
    headers.content_media(request, {"application/json": ""})
    return json.parse_object(body)


def command_in(
    request: web.BaseRequest, body: bytes, commands: Mapping[str, Sequence[str]]
) -> dict[str, Any]:
    """Return a command, and check the members of a known kind; the caller refuses other kinds.

    Raises BadRequest, UnsupportedMedia.
    """
    asked = asked_in(request, body)
    kind = asked.get("kind")
    if isinstance(kind, str) and kind in commands:
        check_members(asked, commands[kind])
    return asked


def not_yet(request: web.BaseRequest, code: str, why: str) -> Reply:
    """Return a 503 for a state that may be reached a moment later."""
    return problem(503, code, why, instance=request.raw_path)


def _json(
    request: web.BaseRequest,
    page: Any,
    *,
    status: int = 200,
    more: dict[str, str] | None = None,
) -> Reply:
    return page_reply(page, headers.accepted_media(request), status=status, headers=more)


def _wait_s(request: web.BaseRequest) -> int:
    """Return the seconds of `Prefer: wait=`, 0 without that preference (RFC 7240)."""
    value = headers.preference(request, "wait")
    return 0 if value is None else headers.whole_number(value, "Prefer: wait", 1, WAIT_S_MAX)
