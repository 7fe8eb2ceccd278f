"""Leases over HTTP; `services/leases.py` defines them.

    /core/leases                        POST, GET
    /core/leases/keep-alive             POST: many at once
    /core/leases/<id>                   GET, PATCH (a request), DELETE: its holder has stopped

A keep-alive writes nothing. The owner of the lease's document answers it after a majority has
confirmed its ownership. If the owner does not answer, the state of the lease is unknown: the answer
never says that the lease has ended.
"""

import asyncio
import time

import orjson
from aiohttp import web

from docstore.errors import BadRequest
from docstore.http import bodies, headers
from docstore.http.authority import authority_of
from docstore.http.backend import Backend
from docstore.http.documents import DocumentPages
from docstore.http.ids import id_of_key, new_id
from docstore.http.listing import FactoryPages
from docstore.http.long_poll import is_changed
from docstore.http.own_documents import handler_patch, patch_in
from docstore.http.parameters import check_members, check_selection
from docstore.http.problems import problem
from docstore.http.reply import Reply
from docstore.http.representation import document_json, encode, page_reply
from docstore.http.used_headers import refuse_all
from docstore.http.visible_links import shown_to
from docstore.model import json
from docstore.model.fields import Fields
from docstore.model.operation import Answer, Operation
from docstore.model.paths import canonical_link
from docstore.model.service import Malformed
from docstore.model.settings import quoted
from docstore.services.leases import (
    LEASES,
    LeasePhase,
    LeaseState,
    asked_lease,
    lease_link,
    lost,
    read_lease,
)

KEEP_ALIVE = "keep-alive"
BATCH_MAX = 10_000
CLIENTS = frozenset({"AttachRequest", "DetachRequest", "ExpireRequest"})
"""Requests that clients may send to a lease. A holder ends its lease with DELETE."""


class LeasePages(FactoryPages):
    """Answers everything under /core/leases."""

    def __init__(self, backend: Backend, documents: DocumentPages, *, state_bytes_max: int) -> None:
        super().__init__(backend, documents)
        self._state_bytes_max = state_bytes_max

    async def create(self, request: web.BaseRequest, path: str, body: bytes) -> Reply:
        """Create a lease; a repeated request is answered with the same lease."""
        raw = bodies.json_bytes(body, headers.content_media(request, headers.BODIES))
        _, asked, theirs = bodies.author_state(raw, self._state_bytes_max)
        lease, key = asked_lease(asked), headers.idempotency_key(request)
        link = bodies.named_link(theirs, LEASES)
        if link == f"{LEASES}/{KEEP_ALIVE}":
            raise BadRequest(
                f"documentSelfLink: {KEEP_ALIVE} cannot be the id of a lease: use another"
            )
        link = link or f"{LEASES}/{id_of_key(LEASES, key) if key else new_id()}"
        state = lease.state()
        operation = Operation(
            verb="POST", link=link, body=json.dump(state), signature=json.signature(state), key=key
        )
        answer = await self._backend.submit(operation, headers.timeout_s(request))
        if answer.status == 409:
            answer = _again(lease, answer)
        return self._reply(request, answer)

    async def get(self, request: web.BaseRequest, link: str, body: bytes) -> Reply:
        """Answer with the document and the time left; wait for a change if the client asks to."""
        check_selection(request)
        service = self._service(LEASES)
        if "?" in request.raw_path or headers.consistency(request) != "linearizable":
            return await self._documents.serve(request, link, service, b"")  # A past version.
        timeout_s, media = headers.timeout_s(request), headers.accepted_media(request)
        answer = await self._backend.submit(Operation(verb="GET", link=link), timeout_s)
        reply = self._reply(request, answer)
        if reply.status == 304 and await is_changed(self._backend, request, link):
            answer = await self._backend.submit(Operation(verb="GET", link=link), timeout_s)
            reply = self._reply(request, answer)
        if reply.status != 200 or answer.row is None:
            return reply
        told = await self._backend.inside().session_backend.call(link, "remaining", None, timeout_s)
        row = shown_to(authority_of(request), answer.row)
        page = orjson.loads(document_json(row, service.options.kind))
        page["remainingMs"] = told.result
        if told.code:
            page["stale"] = True
        reply.body = encode(page, media)
        reply.head += b"Cache-Control: no-store\r\n"
        return reply

    async def end(self, request: web.BaseRequest, link: str, body: bytes) -> Reply:
        """End a lease at once: its holder has stopped."""
        ended = {
            "kind": "EndRequest", "why": "revoked", "endedMicros": time.time_ns() // 1000
        }  # fmt: skip
        return await self._change(request, link, json.dump(ended))

    async def patch(self, request: web.BaseRequest, link: str, body: bytes) -> Reply:
        raw = patch_in(request, body)
        asked = json.parse_object(raw)
        kind = Fields(asked).text("kind", default="")
        if kind == "KeepAliveRequest":
            check_members(asked, ())
            refuse_all(request, "a KeepAliveRequest")
            return await self._keep_alive(request, link)
        if kind not in CLIENTS:
            kinds = ", ".join(("KeepAliveRequest", *sorted(CLIENTS)))
            raise Malformed(f"kind must be one of {kinds}; got {quoted(kind)}")
        return await self._change(request, link, raw)

    async def _change(self, request: web.BaseRequest, link: str, raw: bytes) -> Reply:
        operation = handler_patch(request, link, raw)
        answer = await self._backend.submit(operation, headers.timeout_s(request))
        return self._reply(request, answer)

    def _reply(self, request: web.BaseRequest, answer: Answer) -> Reply:
        if answer.status == 404:
            answer = answer._replace(code="no-such-lease", detail="there is no such lease")
        media = headers.accepted_media(request)
        return self._documents.reply(request, answer, self._service(LEASES), media)

    async def _keep_alive(self, request: web.BaseRequest, link: str) -> Reply:
        name, timeout_s = link.rpartition("/")[2], headers.timeout_s(request)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        kept = await self._backend.inside().session_backend.keep_alive([name], timeout_s)
        if name in kept.alive:
            return page_reply({"ttlMs": kept.alive[name]}, headers.accepted_media(request))
        if kept.missing:
            return problem(
                404, "no-such-lease", f"there is no lease {link}", instance=request.raw_path
            )
        if kept.ended:
            detail = await self._why_lost(link, deadline - loop.time())
            return problem(410, "lease-ended", detail, instance=request.raw_path)
        detail = f"the lease may or may not be alive, retry: {kept.why.detail}"
        return problem(503, kept.why.code, detail, instance=request.raw_path)

    async def _why_lost(self, link: str, timeout_s: float) -> str:
        """Return the reason why a keep-alive failed, as the lease's document shows it."""
        answer = await self._backend.submit(Operation(verb="GET", link=link), timeout_s)
        found = read_lease(answer.row.state) if answer.is_success and answer.row else None
        if found is not None and found.phase is not LeasePhase.ALIVE:
            return lost(found)
        if answer.status == 404:
            return "the lease has ended, and is deleted"
        return "the lease is not kept alive any more: it has ended, or is expiring"

    async def keep_all_alive(self, request: web.BaseRequest, path: str, body: bytes) -> Reply:
        raw = bodies.json_bytes(body, headers.content_media(request, headers.BODIES))
        ids = _ids(json.parse_object(raw))
        kept = await self._backend.inside().session_backend.keep_alive(
            ids, headers.timeout_s(request)
        )
        page = {
            "alive": list(kept.alive),
            "gone": [*kept.ended, *kept.missing],
            "unknown": kept.unknown,
        }
        return page_reply(page, headers.accepted_media(request))


def _again(lease: LeaseState, answer: Answer) -> Answer:
    """Return the answer to a POST whose id is already in use."""
    row = answer.row
    found = read_lease(row.state) if row is not None and not row.deleted else None
    if answer.code == "marked-deleted" or (
        found is not None and found.phase is not LeasePhase.ALIVE
    ):
        why = "a lease of this id has ended" if found is None else lost(found)
        return Answer(409, "lease-ended", f"{why}: take another id", row=row)
    if found is None:
        return answer
    differing = found.differences(lease)
    if not differing:
        return answer._replace(status=200, code="", detail="")
    return answer._replace(
        detail=f"a lease of this id is there with other settings: {'; '.join(differing)}"
    )


def _ids(asked: dict[str, object]) -> list[str]:
    """Return the distinct leases of a batch. Raises BadRequest."""
    ids = asked.pop("leases", None)
    if asked or not isinstance(ids, list) or not 0 < len(ids) <= BATCH_MAX:
        raise BadRequest(f'the body must be {{"leases": [...]}} with 1 to {BATCH_MAX} ids')
    return list(dict.fromkeys(map(_id, ids)))


def _id(named: object) -> str:
    """Return the id of a lease from the id itself or a link. Raises BadRequest."""
    parent, _, name = lease_link(named).rpartition("/") if isinstance(named, str) else ("", "", "")
    if parent != LEASES:
        raise BadRequest(
            f"each of `leases` must be an id or a link of a lease; got {quoted(named)}"
        )
    canonical_link(f"{LEASES}/{name}")
    return name
