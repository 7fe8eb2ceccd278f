"""The history of a document: its versions, and its conflicting branches."""

from typing import Any

from aiohttp import web

from docstore.http import headers
from docstore.http.authority import authority_of
from docstore.http.backend import Backend
from docstore.http.core_pages import UtilityTarget
from docstore.http.documents import DocumentPages, at_level, owner_lines
from docstore.http.reply import Reply
from docstore.http.representation import document_json, stitched
from docstore.http.visible_links import shown_to
from docstore.model.operation import CONFLICTS, Operation
from docstore.model.paths import encoded

HISTORY_LIMIT, HISTORY_LIMIT_MAX = 100, 1000


class HistoryPages:
    """Pages below a document that show its past."""

    def __init__(self, backend: Backend, documents: DocumentPages) -> None:
        self._backend = backend
        self._documents = documents

    async def versions(self, request: web.BaseRequest, of: UtilityTarget, body: bytes) -> Reply:
        """Answer GET <link>/versions: history, newest first, in pages."""
        link, service = of.link, of.service
        media = headers.accepted_media(request)
        query = request.rel_url.query
        limit = headers.whole_number(
            query.get("limit", str(HISTORY_LIMIT)), "limit", 1, HISTORY_LIMIT_MAX
        )
        before = None
        if "from" in query:
            before = headers.whole_number(query["from"], "from", 0, 1 << 62) + 1
        operation = Operation(verb="GET", link=link, select=("history", before, limit + 1))
        asked = at_level(operation, service)
        answer = await self._backend.submit(asked, headers.timeout_s(request))
        if not answer.is_success or answer.rows is None:
            return self._documents.reply(request, answer, service, media)
        rows, kind = answer.rows, service.options.kind
        authority = authority_of(request)
        shown = [document_json(shown_to(authority, row), kind) for row in rows[:limit]]
        page: dict[str, Any] = {
            "documentSelfLink": link,
            "versions": b"[%b]" % b",".join(shown),
        }
        if len(rows) > limit:
            following = f"?from={rows[limit].version}&limit={limit}"
            page["nextPageLink"] = encoded(link) + "/versions" + following
        head = b"Content-Type: %b\r\n%b" % (media.encode(), owner_lines(answer))
        return Reply(200, stitched(page, media), head)

    async def resolve(self, request: web.BaseRequest, of: UtilityTarget, body: bytes) -> Reply:
        """Answer DELETE <link>/conflicts: mark the lost branches as seen."""
        principal = authority_of(request).principal
        operation = Operation(verb="RESOLVE", link=of.link, principal=principal)
        return await self._documents.submit(request, operation, of.service)

    async def conflicts(self, request: web.BaseRequest, of: UtilityTarget, body: bytes) -> Reply:
        """Answer GET <link>/conflicts: the branches that lost a merge."""
        link, service = of.link, of.service
        media = headers.accepted_media(request)
        operation = at_level(Operation(verb="GET", link=link, select=CONFLICTS), service)
        patience_s = headers.timeout_s(request)
        if headers.consistency(request) == "linearizable":
            answer = await self._backend.submit(operation, patience_s)
        else:
            answer, _ = await self._backend.read_replica(operation, None, patience_s)
        if not answer.is_success or answer.rows is None:
            return self._documents.reply(request, answer, service, media)
        lost = b",".join([document_json(row, service.options.kind) for row in answer.rows])
        page = {"documentSelfLink": link, "conflicts": b"[%b]" % lost}
        head = b"Content-Type: %b\r\n%b" % (media.encode(), owner_lines(answer))
        return Reply(200, stitched(page, media), head)
