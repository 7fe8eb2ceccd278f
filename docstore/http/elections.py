"""Elections and locks over HTTP; `services/lock_queue.py` defines them.

    /core/elections, /core/locks                        POST, GET
    /core/elections/<name>, /core/locks/<name>          GET, PATCH (a request), DELETE

The steps of a campaign: its lease lists the election, so that the end of the lease removes the
candidate; the candidate enters the queue (`campaigns.py`); with `Prefer: wait`, the node asks the
owner of the queue to answer when the candidate's turn has come. That answer is a decided fact, but
does not prove that the lease is still alive.
"""

import asyncio
from typing import Any

import orjson
from aiohttp import web

from docstore.errors import Conflict, Unavailable
from docstore.http import bodies, headers
from docstore.http.attaching import attach
from docstore.http.authority import authority_of
from docstore.http.backend import Backend
from docstore.http.campaigns import Campaigns
from docstore.http.documents import DocumentPages
from docstore.http.headers import RequestHead
from docstore.http.listing import FactoryPages
from docstore.http.long_poll import (
    ANSWER_S,
    NOT_HERE,
    WAIT_AT_ONCE_S,
    WAIT_S_MAX,
    is_changed,
    waiting,
)
from docstore.http.own_documents import creation, handler_patch, link_in, patch_in
from docstore.http.parameters import check_selection
from docstore.http.problems import problem
from docstore.http.read_first import updated
from docstore.http.reply import Reply, header_lines
from docstore.http.representation import document_json, encode, entity_tag
from docstore.http.visible_links import shown_to
from docstore.model import json
from docstore.model.document import Row
from docstore.model.fields import Fields
from docstore.model.operation import Operation
from docstore.model.service import Malformed, Service
from docstore.ownership.by_store import Candidate, Turns
from docstore.services.leases import lease_link
from docstore.services.lock_queue import (
    CAMPAIGNS,
    GRACE_MS_MAX,
    MACHINES,
    candidate_of,
    state_of,
    turns_of,
)


class Held(Conflict):
    """The election or lock has a candidate, so it must not be deleted."""

    code = "held"


class ElectionPages(FactoryPages):
    """Answers everything under /core/elections and /core/locks."""

    def __init__(self, backend: Backend, documents: DocumentPages) -> None:
        super().__init__(backend, documents)
        self._campaigns = Campaigns(backend)

    async def create(self, request: web.BaseRequest, path: str, body: bytes) -> Reply:
        """Create an election or a lock with options; a campaign creates one with defaults."""
        raw = bodies.json_bytes(body, headers.content_media(request, headers.BODIES))
        fields = Fields(json.parse_object(raw))
        link = link_in(fields, path)
        state = state_of(Turns(grace_ms=fields.whole("graceMs", 0, GRACE_MS_MAX, default=0)))
        fields.end()
        return await self._submitted(request, path, creation(request, link, state))

    def _service_of(self, link: str) -> Service:
        return self._service(link.rpartition("/")[0])

    async def get(self, request: web.BaseRequest, link: str, body: bytes) -> Reply:
        """Answer with the document: at once, or when its version differs from the client's."""
        check_selection(request)
        service = self._service_of(link)
        reply = await self._documents.serve(request, link, service, b"")
        if reply.status == 304 and await is_changed(self._backend, request, link):
            return await self._documents.serve(request, link, service, b"")
        return reply

    async def delete(self, request: web.BaseRequest, link: str, body: bytes) -> Reply:
        """Delete an election or a lock, whose queue must be empty."""

        async def deletion(row: Row) -> Operation:
            turns = turns_of(json.load(row.state))
            if turns.holder is not None or turns.queue:
                raise Held(f"{link} has candidates: it can be deleted when they have resigned")
            return Operation(verb="DELETE", link=link)

        answer = await updated(self._backend, request, link, deletion)
        service, media = self._service_of(link), headers.accepted_media(request)
        return self._documents.reply(request, answer, service, media)

    async def patch(self, request: RequestHead, link: str, body: bytes) -> Reply:
        """Answer a request to a queue."""
        headers.accepted_media(request)  # Refused afterwards, the change would be made.
        service = self._service_of(link)
        raw = patch_in(request, body)
        asked = json.parse_object(raw)
        path, kind = service.options.path, Fields(asked).text("kind", default="")
        if kind in MACHINES:
            raise Malformed(f"kind: {kind} is for nodes; clients cannot send it")
        operation = handler_patch(request, link, raw)
        if kind == CAMPAIGNS[path]:
            return await self._campaign(request, operation, service, asked)
        lease = asked.get("lease")
        if isinstance(lease, str):  # The request withdraws the candidates of that lease.
            authority_of(request).insist("PATCH", lease_link(lease))
        return await self._submitted(request, path, operation)

    async def _campaign(
        self, request: RequestHead, operation: Operation, service: Service, asked: Any
    ) -> Reply:
        media, timeout_s = headers.accepted_media(request), headers.timeout_s(request)
        wait = headers.preference(request, "wait")
        wait_s = _wait_s(wait) if wait else 0
        candidate = _candidate_in(asked)
        authority_of(request).insist("PATCH", candidate.lease)  # The lease will list the election.
        answer = await self._campaigns.run(operation, candidate.lease, timeout_s)
        row = answer.row
        if not answer.is_success or row is None:
            return self._documents.reply(request, answer, service, media)
        place = turns_of(json.load(row.state)).position(candidate)
        if place and wait_s:
            assert isinstance(request, web.BaseRequest)  # A plain request has no preference.
            row, place = await self._turn(request, row, candidate, wait_s=wait_s)
        if place is None:
            return await self._lost(request, operation, candidate)
        row = shown_to(authority_of(request), row)
        return _standing(row, place, media, service.options.kind)

    async def _turn(
        self, request: web.BaseRequest, row: Row, candidate: Candidate, *, wait_s: float
    ) -> tuple[Row, int | None]:
        """Wait for the candidate's turn; return the document and the place, None if withdrawn.

        Raises Unavailable where no request can wait.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + wait_s
        while True:
            asked = (candidate.name, candidate.lease, int(ANSWER_S * 1000), row.version)
            once_s = min(until - loop.time(), WAIT_AT_ONCE_S)
            with waiting(request):
                told = await self._backend.inside().session_backend.call(
                    row.link, "turn", asked, once_s + ANSWER_S
                )
            if told.code in NOT_HERE:
                raise Unavailable(told.detail)
            if told.result is not None:  # Without a result the wait ended before any change.
                if not told.result:
                    return row, None
                row = max(row, Row(*told.result), key=lambda each: each.version)
            place = turns_of(json.load(row.state)).position(candidate)
            if not place or loop.time() >= until:
                return row, place

    async def _lost(self, request: RequestHead, campaign: Operation, candidate: Candidate) -> Reply:
        """Answer why a candidate is not in the queue any more."""
        timeout_s = headers.timeout_s(request)
        answer, _ = await attach(self._backend, candidate.lease, campaign, timeout_s)
        if answer.status in (404, 410):
            why = answer.detail if answer.status == 410 else "the lease has ended, and is deleted"
            code, detail, status = "lease-ended", f"{candidate.lease}: {why}", 410
        else:
            code, detail, status = "not-queued", f"{candidate.name} was withdrawn", 409
        return problem(status, code, detail, instance=request.raw_path)


def _candidate_in(asked: Any) -> Candidate:
    """Return the candidate of a campaign.

    Raises Refusal before the lease lists the election, so that an invalid campaign leaves no trace.
    """
    fields = Fields({name: each for name, each in asked.items() if name not in ("kind", "value")})
    candidate = candidate_of(fields, asked.get("value"))
    fields.end()
    return candidate


def _wait_s(raw: str) -> int:
    return headers.whole_number(raw, "Prefer: wait", 1, WAIT_S_MAX)


def _standing(row: Row, place: int, media: str, kind: str) -> Reply:
    """Return the reply about a candidate: 200 if it is first in the queue, 202 while it waits."""
    page = orjson.loads(document_json(row, kind)) | {"won": place == 0, "position": place}
    head = header_lines({"Content-Type": media, "Docstore-Version": str(row.version)})
    head += b"ETag: %b\r\n" % entity_tag(row, media, 3)
    return Reply(200 if place == 0 else 202, encode(page, media), head)
