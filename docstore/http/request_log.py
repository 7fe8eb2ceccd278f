"""Lines about requests: slow ones in the node's log; changes and refusals in the audit log.

The audit log has administrative changes: those that need `admin`, declarations of factories, and
operations that the route table names (`audited`).
"""

from collections.abc import Callable, Mapping
from typing import Any

import structlog
from aiohttp import web

from docstore.errors import DocstoreError
from docstore.http import bodies, headers
from docstore.http.authority import AUTHORITY
from docstore.http.completion import WAITS, instance_of
from docstore.http.group_members import PATCHES
from docstore.http.headers import RequestHead
from docstore.http.methods import READS
from docstore.http.permissions import permission_for
from docstore.http.reply import Reply
from docstore.http.routes.route import ADMIN, INSIDE
from docstore.http.routes.table import op_at, template_of
from docstore.model import json
from docstore.model.paths import canonical
from docstore.runtime.audit import AUDIT, PerSecond
from docstore.services.registry import FACTORIES

BODY = web.RequestKey("audited-body", bytes)
"""The body of a request, kept while there is an audit log."""
SHOWN = (
    "kind", "id", "action", "level", "force", "path", "name", "beforeMicros", "documentSelfLink",
    "memberGroupReference", "candidate", "to", "topic", "partition", "offset", "dryRun",
    "rowsPerSecond", "writesPerSecond",
)  # fmt: skip
"""Members of a body that a line has; others may be secret, or large."""
TEXT_MAX = 200
REFUSED = (401, 403)


SLOW_LINES_A_SECOND = 10

log = structlog.get_logger("docstore.http")


class RequestNotes:
    """Writes the lines about requests. loop_lag_s: returns the delay of the event loop."""

    def __init__(self, loop_lag_s: Callable[[], float]) -> None:
        self._loop_lag_s = loop_lag_s
        self._slow_lines = PerSecond(SLOW_LINES_A_SECOND)

    def slow(self, request: RequestHead, reply: Reply | web.StreamResponse, took_s: float) -> None:
        """Log a request that took long, unless its client wanted to wait for an event."""
        is_waiting = isinstance(request, web.BaseRequest) and WAITS in request
        if is_waiting or not isinstance(reply, Reply) or not self._slow_lines.passes():
            return
        path = instance_of(request)[:TEXT_MAX]
        log.warning(
            "a request is slow", method=request.method, route=template_of(path), path=path,
            status=reply.status, ms=round(took_s * 1000, 3),
            loop_lag_ms=round(self._loop_lag_s() * 1000, 3), traceparent=headers.trace(request),
            request_id=request.headers.get("X-Request-Id", "")[:128],
            **self._slow_lines.left_out(),
        )  # fmt: skip

    def answered(self, request: RequestHead, status: int) -> None:
        """Write an answered request to the audit log, if it belongs there."""
        if status in REFUSED:
            AUDIT.note_refusal("request refused", **_facts(request, status))
        elif request.method not in READS and (audited := _audited(request)):
            asked = _asked(request)
            if audited is True or str(asked.get("kind")) in audited:
                facts = _facts(request, status)
                AUDIT.note("change", outcome=outcome_of(status), **facts, asked=_shown(asked))

    def hidden(self, request: RequestHead) -> None:
        """Write a read without permission, which is answered as if nothing were there."""
        AUDIT.note_refusal("request refused", **_facts(request, 404))


def _audited(request: RequestHead) -> bool | frozenset[str]:
    """Return whether the request belongs into the audit log, or the kinds of its body that do."""
    try:
        path = canonical(_path(request))
        what = permission_for(request.method, path).what
        op = op_at(request.method, path)
    except DocstoreError:
        return False
    if what is ADMIN or (what is INSIDE and path == FACTORIES):
        return True
    return op is not None and op.audited


def _path(request: RequestHead) -> str:
    raw = request.raw_path.partition("?")[0]
    if not raw.startswith("/") and "://" in raw:  # The target is absolute.
        return "/" + raw.partition("://")[2].partition("/")[2]
    return raw


def outcome_of(status: int) -> str:
    """Return the outcome of a change, as a line of the audit log names it."""
    if status < 400:
        return "done"
    return "unknown" if status == 504 else "failed" if status >= 500 else "rejected"


def _facts(request: RequestHead, status: int) -> dict[str, Any]:
    try:
        user = request[AUTHORITY].name
    except KeyError:  # The request has no valid token.
        user = ""
    return {
        "user": user,
        "address": address_of(request),
        "method": request.method[:TEXT_MAX],
        "path": _path(request)[:TEXT_MAX],
        "status": status,
        "request_id": request.headers.get("X-Request-Id", "")[:128],
        "traceparent": headers.trace(request),
    }


def address_of(request: Any) -> str:
    """Return the address that a request came from: of the client, or of its proxy."""
    connection = request.protocol if isinstance(request, web.BaseRequest) else request.client
    transport = connection.transport
    peer = transport.get_extra_info("peername") if transport is not None else None
    return str(peer[0]) if peer else ""


def _asked(request: RequestHead) -> Mapping[str, Any]:
    """Return the members of a request's body; none if it is no object."""
    if isinstance(request, web.BaseRequest):
        body = request.get(BODY, b"")
    else:
        body = getattr(request, "body", b"")
    try:
        media = headers.content_media(request, PATCHES)
        return json.parse_object(bodies.json_bytes(body, media)) if body else {}
    except DocstoreError:
        return {}


def _shown(asked: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the members of a body that a line of the audit log shows; None if there are none."""
    shown = {name: _short(value) for name, value in asked.items() if name in SHOWN}
    if "member" in asked:
        member = asked["member"]
        shown["member"] = _short(member.get("id") if isinstance(member, Mapping) else member)
    return shown or None


def _short(value: Any) -> Any:
    return value if isinstance(value, bool | int | float) else str(value)[:TEXT_MAX]
