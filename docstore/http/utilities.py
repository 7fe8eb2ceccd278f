"""Utilities at fixed names below factories and documents: `<link>/available` and so on.

All answer 404 for a document that does not exist, except `explain`, which shows where the document
would be. These names cannot be ids of documents (`model/paths.py`).
"""

import time
from typing import Any

from aiohttp import web

from docstore.errors import BadRequest, NotFound, Unavailable
from docstore.http import headers
from docstore.http.authority import authority_of
from docstore.http.backend import Backend
from docstore.http.core_pages import OF_SYNCHRONIZE, CorePages, UtilityTarget, asked_in, not_yet
from docstore.http.documents import DocumentPages, at_level
from docstore.http.methods import READ_METHODS, not_allowed
from docstore.http.parameters import check_members, check_selection
from docstore.http.reply import Reply
from docstore.http.representation import decode, encode, page_reply
from docstore.maintenance.upkeep.resync import UNDER_WAY
from docstore.model.operation import Operation
from docstore.model.service import Refusal
from docstore.model.settings import quoted
from docstore.model.stats import availability, merged
from docstore.services.declared import in_force, options_of
from docstore.services.registry import FACTORIES, declaration_link
from docstore.services.templates import template_of
from docstore.services.unsupported_options import WARNINGS


class UtilityPages:
    """Answers most utilities; `routes/documents.py` lists all."""

    def __init__(
        self, backend: Backend, documents: DocumentPages, core: CorePages, *, state_bytes_max: int
    ) -> None:
        self._backend = backend
        self._documents = documents
        self._core = core
        self._state_bytes_max = state_bytes_max

    async def _insist(self, request: web.BaseRequest, of: UtilityTarget) -> None:
        """Raise NotFound unless the document exists, or Unavailable if its owner cannot be asked.

        The document's statistics do not count this read.
        """
        if of.is_factory:
            return
        operation = Operation(verb="GET", link=of.link, select=("history", None, 1))
        patience_s = headers.timeout_s(request)
        answer = await self._backend.submit(at_level(operation, of.service), patience_s)
        if answer.status == 404 or (answer.rows and answer.rows[0].deleted):
            raise NotFound(f"there is no document {of.link}")
        if not answer.is_success:
            raise Unavailable(answer.detail)

    async def _why_not(self, request: web.BaseRequest, of: UtilityTarget) -> str:
        """Return why the document or factory cannot be served, "" if it can. Raises NotFound."""
        try:
            if of.is_factory:
                level = of.service.options.level
                await self._backend.inside().availability.insist(level, headers.timeout_s(request))
            else:
                await self._insist(request, of)
        except Unavailable as error:
            return str(error)
        return ""

    async def available(self, request: web.BaseRequest, of: UtilityTarget, body: bytes) -> Reply:
        """Answer 200 if the document or factory can be served now, else 503 with the reason."""
        if why_not := await self._why_not(request, of):
            return not_yet(request, "not-available", why_not)
        return _page(request, {"available": True})

    async def config(self, request: web.BaseRequest, of: UtilityTarget, body: bytes) -> Reply:
        """Show or change the declaration, with defaults for omitted members."""
        check_selection(request)
        factories = self._backend.registry.service_at(FACTORIES)
        assert factories is not None, "it is built in"
        link = declaration_link(of.service.options.path)
        authority_of(request).insist(request.method, link)
        await self._insist(request, of)
        reply = await self._documents.serve(request, link, factories, body)
        if reply.status == 404:  # The factory is built in, not declared.
            if request.method == "PATCH":
                raise not_allowed(request.method, READ_METHODS)
            return _page(request, in_force(of.service.options))
        if reply.status == 200:
            reply.body = _with_defaults(reply.body, headers.accepted_media(request))
        return reply

    async def synchronization(
        self, request: web.BaseRequest, of: UtilityTarget, body: bytes
    ) -> Reply:
        """Answer with the progress of the last resynchronisation."""
        link = of.link
        why_not = await self._why_not(request, of)
        found = await self._backend.node_pages.of_all(
            f"{link}/synchronization", headers.timeout_s(request)
        )
        runs = [page for page in found.pages.values() if page]
        last = max(runs, key=lambda run: run["startedTimeMicros"], default=None)
        status = "UNAVAILABLE" if why_not else "AVAILABLE"
        if last is not None and last["state"] in UNDER_WAY:
            status = "SYNCHRONIZING"
        page = {
            "documentSelfLink": f"{link}/synchronization",
            "kind": "SynchronizationState",
            "status": status,
            "reason": why_not,
            "last": last,
            "nodesUnheard": sorted(found.failures),
        }
        if not of.is_factory:
            page["owner"] = self._backend.owner_of(link)
        return _page(request, page)

    async def synchronize(self, request: web.BaseRequest, of: UtilityTarget, body: bytes) -> Reply:
        """Begin a resynchronisation, or join the running one."""
        said = asked_in(request, body) if body else {}
        wanted = {"kind": "SynchronizeRequest"} | said
        if wanted["kind"] != "SynchronizeRequest":
            raise BadRequest(f"kind must be SynchronizeRequest; got {quoted(wanted.get('kind'))}")
        check_members(wanted, OF_SYNCHRONIZE)
        if wanted.get("documentSelfLink", of.link) != of.link:
            raise BadRequest(f"documentSelfLink must be the path, {of.link}")
        return await self._core.synchronize(request, {**wanted, "documentSelfLink": of.link})

    async def stats(self, request: web.BaseRequest, of: UtilityTarget, body: bytes) -> Reply:
        """Show the statistics of all nodes since they started."""
        why_not = await self._why_not(request, of)
        patience_s = headers.timeout_s(request)
        found = await self._backend.node_pages.of_all(f"{of.link}/stats", patience_s)
        measured = (page["entries"] for page in found.pages.values())
        now = availability(time.time_ns() // 1000, is_available=not why_not)
        page = {
            "documentSelfLink": f"{of.link}/stats",
            "kind": "ServiceStats",
            "entries": merged([now, *measured]),
            "nodesUnheard": sorted(found.failures),
        }
        return _page(request, page)

    async def template(self, request: web.BaseRequest, of: UtilityTarget, body: bytes) -> Reply:
        """Show an empty state, and a description of its members."""
        authority_of(request).insist("GET", declaration_link(of.service.options.path))
        await self._insist(request, of)
        page = template_of(of.service.options, state_bytes_max=self._state_bytes_max)
        return _page(request, {**page, "documentSelfLink": f"{of.link}/template"})


def _page(request: web.BaseRequest, page: Any) -> Reply:
    return page_reply(page, headers.accepted_media(request))


def _with_defaults(body: bytes, media: str) -> bytes:
    """Return a declaration with the values in force for omitted members."""
    said = decode(body, media)
    own = {name: value for name, value in said.items() if name != WARNINGS}
    try:
        options = options_of(own)
    except Refusal:  # A later version of the program, which allows more, has written it.
        return body
    return encode({**in_force(options), **said}, media)
