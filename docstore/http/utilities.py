"""What stands at a fixed name below a factory, or below a document: `<link>/available` and so on.

Of a document that is not there all of them are 404, but for `explain`, which says where it would
be. A name of these is no document's id (`model/paths.py`).
"""

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple

from aiohttp import web

from docstore.errors import BadRequest, NotFound, Unavailable
from docstore.http import headers
from docstore.http.authority import authority_of
from docstore.http.backend import Backend
from docstore.http.core_pages import OF_SYNCHRONIZE, CorePages, asked_in, not_yet
from docstore.http.documents import Documents, at_level
from docstore.http.history import CONFLICT_METHODS, OF_VERSIONS, HistoryPages
from docstore.http.methods import READ_METHODS, allowed, check_method
from docstore.http.parameters import check_members, check_parameters, check_selection
from docstore.http.reply import Reply
from docstore.http.representation import decode, encode, page_reply
from docstore.http.subscriptions import PATH_METHODS, SubscriptionPages
from docstore.maintenance.upkeep.resync import UNDER_WAY
from docstore.model.limits import Limits
from docstore.model.operation import Operation
from docstore.model.service import LINEARIZABLE, Refusal, Service
from docstore.model.stats import availability, merged
from docstore.services.declared import in_force, options_of
from docstore.services.registry import FACTORIES, declaration_link
from docstore.services.templates import template_of
from docstore.services.unkept import WARNINGS

PATCH_METHODS = "GET, HEAD, OPTIONS, PATCH"


class Asked(NamedTuple):
    """A request for a utility. link: of the factory, or of the document, that it is of."""

    request: web.BaseRequest
    link: str
    service: Service
    is_factory: bool
    body: bytes


class Utility(NamedTuple):
    """Who answers, and which methods it takes of a document and of a factory, "" for none.

    parameters: that it has; None where who answers looks at them.
    """

    answer: Callable[[Asked], Awaitable[Reply]]
    of_document: str
    of_factory: str
    parameters: Sequence[str] | None = ()


class UtilityPages:
    """Answers them."""

    def __init__(
        self, backend: Backend, documents: Documents, core: CorePages,
        subscriptions: SubscriptionPages, limits: Limits,
    ) -> None:  # fmt: skip
        self._backend = backend
        self._documents = documents
        self._core = core
        self._state_bytes_max = limits.body_bytes_max
        history = HistoryPages(backend, documents)
        reads, nothing = READ_METHODS, ""
        self._utilities: Mapping[str, Utility] = {
            "available": Utility(self._available, reads, reads),
            "config": Utility(self._config, reads, PATCH_METHODS, None),
            "conflicts": Utility(
                lambda it: history.conflicts(it.request, it.link, it.service),
                CONFLICT_METHODS, nothing,
            ),
            "explain": Utility(lambda it: core.explain(it.request, it.link), reads, nothing),
            "stats": Utility(self._stats, reads, reads),
            "subscriptions": Utility(
                lambda it: subscriptions.of_path(it.request, it.link, it.body),
                PATH_METHODS, PATH_METHODS, None,
            ),
            "synchronization": Utility(self._synchronization, PATCH_METHODS, PATCH_METHODS),
            "template": Utility(self._template, reads, reads),
            "versions": Utility(
                lambda it: history.versions(it.request, it.link, it.service), reads, nothing,
                OF_VERSIONS,
            ),
        }  # fmt: skip

    async def serve(self, asked: Asked, name: str) -> Reply:
        """Answer a request for a utility."""
        utility = self._utilities[name]
        methods = utility.of_factory if asked.is_factory else utility.of_document
        if not methods:
            raise NotFound(f"{name} is of documents, and this is a factory")
        if name == "conflicts" and asked.service.options.level == LINEARIZABLE:
            raise NotFound("documents of level 3 have no conflicts")
        check_method(asked.request, methods)
        if asked.request.method == "OPTIONS":
            return allowed(methods)
        if utility.parameters is not None:
            check_parameters(asked.request, utility.parameters)
        return await utility.answer(asked)

    async def _insist(self, asked: Asked) -> None:
        """Raise NotFound unless a document is there, as its owner says; Unavailable.

        By a read that is not counted among those of the document.
        """
        if asked.is_factory:
            return
        operation = Operation(verb="GET", link=asked.link, select=("history", None, 1))
        patience_s = headers.timeout_s(asked.request)
        answer = await self._backend.submit(at_level(operation, asked.service), patience_s)
        if answer.status == 404 or (answer.rows and answer.rows[0].deleted):
            raise NotFound(f"there is no document {asked.link}")
        if not answer.is_success:
            raise Unavailable(answer.detail)

    async def _why_not(self, asked: Asked) -> str:
        """Return why it cannot be served now, "" if it can. Raises NotFound."""
        try:
            if asked.is_factory:
                level = asked.service.options.level
                await self._backend.available(level, headers.timeout_s(asked.request))
            else:
                await self._insist(asked)
        except Unavailable as error:
            return str(error)
        return ""

    # What each of them is

    async def _available(self, asked: Asked) -> Reply:
        """Say whether it can be served now: 200, or 503 with the reason."""
        if why_not := await self._why_not(asked):
            return not_yet(asked.request, "not-available", why_not)
        return _page(asked, {"available": True})

    async def _config(self, asked: Asked) -> Reply:
        """Show, or change, what is declared: the declaration, with what it leaves unsaid."""
        check_selection(asked.request)
        factories = self._backend.service_at(FACTORIES)
        assert factories is not None, "it is built in"
        link, request = declaration_link(asked.service.options.path), asked.request
        authority_of(request).insist(request.method, link)
        await self._insist(asked)
        reply = await self._documents.serve(request, link, factories, asked.body)
        if reply.status == 404:  # Nobody has declared it: it is built in.
            check_method(request, READ_METHODS)
            return _page(asked, in_force(asked.service.options))
        if reply.status == 200:
            reply.body = _with_defaults(reply.body, headers.accepted_media(request))
        return reply

    async def _synchronization(self, asked: Asked) -> Reply:
        """Say what the last resynchronisation of it says; PATCH begins one, or joins it."""
        request, link = asked.request, asked.link
        if request.method == "PATCH":
            said = asked_in(request, asked.body) if asked.body else {}
            wanted = {"kind": "SynchronizeRequest"} | said
            if wanted["kind"] != "SynchronizeRequest":
                raise BadRequest("kind must be SynchronizeRequest")
            check_members(wanted, OF_SYNCHRONIZE)
            if wanted.get("documentSelfLink", link) != link:
                raise BadRequest("documentSelfLink differs from the path")
            return await self._core.synchronize(request, {**wanted, "documentSelfLink": link})
        why_not = await self._why_not(asked)
        found = await self._backend.pages(f"{link}/synchronization", headers.timeout_s(request))
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
        if not asked.is_factory:
            page["owner"] = self._backend.owner_of(link)
        return _page(asked, page)

    async def _stats(self, asked: Asked) -> Reply:
        """Show what was measured of it, on all nodes since their starts."""
        why_not = await self._why_not(asked)
        patience_s = headers.timeout_s(asked.request)
        found = await self._backend.pages(f"{asked.link}/stats", patience_s)
        measured = (page["entries"] for page in found.pages.values())
        now = availability(time.time_ns() // 1000, is_available=not why_not)
        page = {
            "documentSelfLink": f"{asked.link}/stats",
            "kind": "ServiceStats",
            "entries": merged([now, *measured]),
            "nodesUnheard": sorted(found.failures),
        }
        return _page(asked, page)

    async def _template(self, asked: Asked) -> Reply:
        """Show an empty state, and what its members are."""
        authority_of(asked.request).insist("GET", declaration_link(asked.service.options.path))
        await self._insist(asked)
        page = template_of(asked.service.options, state_bytes_max=self._state_bytes_max)
        return _page(asked, {**page, "documentSelfLink": f"{asked.link}/template"})


def _page(asked: Asked, page: Any) -> Reply:
    return page_reply(page, headers.accepted_media(asked.request))


def _with_defaults(body: bytes, media: str) -> bytes:
    """Return a declaration with what is in force where it says nothing."""
    said = decode(body, media)
    own = {name: value for name, value in said.items() if name != WARNINGS}
    try:
        options = options_of(own)
    except Refusal:  # A later version has written it, which allows more.
        return body
    return encode({**in_force(options), **said}, media)
