"""Queries: find documents by their content, on all owners, in pages of one cut.

    GET  /films?$filter=rating gt 7&$orderby=year desc,title&$limit=100&$count=true
    POST /core/query-tasks {"path": "/films", "filter": "rating gt 7", "orderBy": "year desc"}
    POST /core/query-tasks {"path": "/films", "aggregates": "count(*)", "groupBy": "year"}

A page has `nextPageLink` while there are more rows. No node keeps state for it, since its cursor
contains the whole query. The result contains the versions that were acknowledged before the request
for the first page, and none that were acknowledged later.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson
from aiohttp import web

from docstore.errors import BadRequest, Conflict, NotFound
from docstore.http import headers, query_request
from docstore.http.authority import authority_of
from docstore.http.backend import Backend
from docstore.http.listing import PAGE_BYTES_MAX
from docstore.http.parameters import check_parameters
from docstore.http.query_request import QueryRequest
from docstore.http.reply import Reply, header_lines
from docstore.http.representation import document_json, stitched
from docstore.model import json
from docstore.model.document import Row
from docstore.model.paths import encoded
from docstore.model.service import Service
from docstore.query.aggregates import Totals, grouping_of
from docstore.query.cursors import pack_cursor, unpack_cursor
from docstore.query.cut import Cut
from docstore.query.names import insist_on_past
from docstore.query.ordering import Found, place_of
from docstore.query.selection import parse_selection, selected
from docstore.reads.positions import Positions
from docstore.reads.scans.searches import FoundPage, Look

QUERY_TASKS = "/core/query-tasks"
FIRST_ROWS, ROWS_AT_ONCE, BYTES_AT_ONCE = 64, 1_000, 4 << 20
"""Documents read in one call: few at first, then as many as their size allows."""


class QueryPages:
    """Answers queries."""

    def __init__(self, backend: Backend, positions: Positions) -> None:
        self._backend = backend
        self._positions = positions

    async def of_factory(self, request: web.BaseRequest, path: str, service: Service) -> Reply:
        """Answer GET of a factory with a filter, an order, a selection or a cursor."""
        query = request.rel_url.query
        if "cursor" in query:
            asked = self._continued(_only(query, "cursor"))
            if asked.path != path:
                raise BadRequest(
                    f"`cursor` must be one that {path} returned; this one is of {asked.path[:200]}"
                )
        else:
            check_parameters(request, query_request.IN_URL)
            asked = query_request.of_url(path, query)
        authority_of(request).insist_on_all(path)
        return await self._serve(request, asked, service, path)

    async def serve(self, request: web.BaseRequest, path: str, body: bytes) -> Reply:
        """Answer GET and POST of /core/query-tasks."""
        if request.method == "POST":
            headers.content_media(request, {"application/json": ""})
            given = json.parse_object(body)
        else:
            given = {"cursor": _only(request.rel_url.query, "cursor")}
        is_continued = "cursor" in given
        asked = (
            self._continued(_only(given, "cursor"))
            if is_continued
            else query_request.of_body(given)
        )
        authority_of(request).insist_on_all(asked.path)
        service = await self._backend.find_service(asked.path, headers.timeout_s(request))
        if service is None:
            raise NotFound(f"there is no factory {asked.path[:200]}")
        return await self._serve(request, asked, service, QUERY_TASKS)

    def _continued(self, cursor: str) -> QueryRequest:
        return query_request.of_cursor(unpack_cursor(self._backend.inside().queries.group, cursor))

    async def _serve(
        self, request: web.BaseRequest, asked: QueryRequest, service: Service, at: str
    ) -> Reply:
        """Answer one page. at: the path of its next page."""
        media = headers.accepted_media(request)
        level = service.options.level
        if level < 3:
            raise Conflict(f"{asked.path} has level {level}: only documents with ENFORCE_QUORUM"
                           " can be queried")  # fmt: skip
        query_request.check(asked, query_request.members_of(service.options.schema))
        loop = asyncio.get_running_loop()
        deadline = loop.time() + headers.timeout_s(request)
        as_of = await self._positions.opened(asked.as_of, deadline - loop.time())
        insist_on_past(as_of, time.time_ns() // 1000)
        first = None
        if as_of == "latest" and asked.grouping is None and not asked.count:
            first = await self._backend.inside().queries.find_latest(*_search(asked, deadline))
        if first is not None:
            cut, found = first
        else:
            cut, found = await self._backend.inside().scans.cut(as_of, deadline - loop.time()), None
        if not cut.is_whole:
            raise BadRequest(
                "asOf must be a token of a whole feed; this one is of the feed of one document"
            )
        head = {"Content-Type": media}
        page: dict[str, Any] = {}
        if at != QUERY_TASKS:
            page = {"documentSelfLink": at, "documentKind": service.options.kind}
        if asked.grouping is not None:
            page["groups"] = await self._groups(asked, cut, deadline)
        else:
            reads_all, left_s = authority_of(request).reads_all, deadline - loop.time()
            pack = await self._positions.packing(left_s, reads_all=reads_all)
            kind = service.options.kind
            members, look = await self._page(asked, cut, found, kind, deadline, at, pack=pack)
            page |= members
            unindexed = "scan" if asked.looks_at_all else "links"
            head["Docstore-Query-Plan"] = "index" if look.by else unindexed
        return Reply(200, stitched(page, media), header_lines(head))

    async def _groups(self, asked: QueryRequest, cut: Cut, deadline: float) -> list[dict[str, Any]]:
        """Return all groups, in the order of their keys."""
        grouping = asked.grouping
        assert grouping is not None
        names = [name for name, _ in grouping.columns]
        said = {"aggregates": asked.aggregates, "groupBy": asked.group_by}
        totals = await self._totals(asked, said, cut, deadline)
        try:
            rows = list(totals.rows())
        except OverflowError as error:
            raise BadRequest(str(error)) from None
        keys = len(grouping.keys)
        rows.sort(
            key=lambda row: [(key is not None, 0 if key is None else key) for key in row[:keys]]
        )
        return [dict(zip(names, row, strict=True)) for row in rows]

    async def _totals(
        self, asked: QueryRequest, said: Mapping[str, str], cut: Cut, deadline: float
    ) -> Totals:
        grouping = grouping_of(said["aggregates"], said["groupBy"])
        assert grouping is not None
        totals = Totals(grouping)
        left_s = deadline - asyncio.get_running_loop().time()
        await self._backend.inside().queries.totals(totals, {**asked.wanted, **said}, cut, left_s)
        return totals

    async def _page(
        self,
        asked: QueryRequest,
        cut: Cut,
        first: FoundPage | None,
        kind: str,
        deadline: float,
        at: str,
        *,
        pack: Callable[[Cut], str],
    ) -> tuple[dict[str, Any], Look]:
        """Return the members of one page, and how it was found. first: if it is found already."""
        if asked.count and asked.counted is None:
            said = {"aggregates": "count(*)", "groupBy": ""}
            totals = await self._totals(asked, said, cut, deadline)
            asked = asked.at(pack(cut), totals.documents)
        search, most, left_s, explains = _search(asked, deadline)
        limit = most - 1
        found, until, look = first or await self._backend.inside().queries.find(
            search, cut, asked.after, most, left_s, explains
        )
        look = look or Look()
        if len(found) > limit:
            found, until = found[:limit], place_of(found[limit - 1])
        page: dict[str, Any] = {"documentLinks": []}
        if asked.shows_documents:
            rows = await self._rows(found, cut, deadline)
            if len(rows) < len(found):
                found, until = found[: len(rows)], place_of(found[len(rows) - 1])
            # In a thread: up to ten thousand documents are parsed to select their members.
            page["documents"] = await asyncio.to_thread(_documents, asked, rows, kind)
        page["documentLinks"] = [_name(asked, *each[-3:-1]) for each in found]
        if asked.count:
            page["documentCount"] = asked.counted
        following = None
        if until is not None:
            following = asked.at(pack(cut), asked.counted).behind(until, len(found))
        if following is not None:
            cursor = pack_cursor(self._backend.inside().queries.group, following.packed())
            page["nextPageLink"] = f"{encoded(at)}?cursor={cursor}"
            if at == QUERY_TASKS:
                # The cursor is also a member of its own, since it may be too long for a URL.
                page["cursor"] = cursor
        if asked.explain:
            page["explain"] = {
                "index": look.by or None, "why": look.why, "looked": look.looked,
                "changed": look.changed,
            }  # fmt: skip
        return page, look

    async def _rows(self, found: Sequence[Found], cut: Cut, deadline: float) -> list[Row]:
        """Read the found documents; return as many rows as fit a page."""
        loop = asyncio.get_running_loop()
        rows: list[Row] = []
        at_once, size = FIRST_ROWS, 0
        while len(rows) < len(found):
            part = found[len(rows) : len(rows) + at_once]
            wanted = [(slot, link, version) for *_, link, version, slot in part]
            for row in await self._backend.inside().queries.read(
                wanted, cut, deadline - loop.time()
            ):
                size += len(row.state)
                if rows and size > PAGE_BYTES_MAX:
                    return rows
                rows.append(row)
            at_once = max(1, min(ROWS_AT_ONCE, BYTES_AT_ONCE * len(rows) // (size + 1)))
        return rows


def _search(asked: QueryRequest, deadline: float) -> tuple[dict[str, Any], int, float, int]:
    """Return the search for a page, the rows to find, the seconds left, and `explains`.

    explains: see `FindDocuments` in `wire/requests.py`.
    """
    limit = asked.limit if asked.left is None else min(asked.limit, asked.left)
    left_s = deadline - asyncio.get_running_loop().time()
    return {**asked.wanted, "orderBy": asked.order_by}, limit + 1, left_s, 1 + asked.explain


def is_query(query: Mapping[str, str]) -> bool:
    """Say whether a factory's URL has parameters that a list does not have."""
    return not query_request.MEANT.isdisjoint(query)


def _only(given: Mapping[str, Any], name: str) -> str:
    """Return the only parameter of a cursor's request. Raises BadRequest."""
    if set(given) != {name} or not isinstance(given[name], str):
        raise BadRequest(f"{name} must be a string, without other parameters or members")
    text: str = given[name]
    return text


def _documents(asked: QueryRequest, rows: Sequence[Row], kind: str) -> bytes:
    """Return the documents of a page by link, as JSON."""
    selection = parse_selection(asked.select)
    shown = {_name(asked, row.link, row.version): document_json(row, kind) for row in rows}
    if selection:
        shown = {
            name: orjson.dumps(selected(orjson.loads(document), selection))
            for name, document in shown.items()
        }
    return stitched(shown)


def _name(asked: QueryRequest, link: str, version: int) -> str:
    """Return the link of a document, with its version if the query asks for all versions."""
    return link if asked.versions == "latest" else f"{link}?documentVersion={version}"
