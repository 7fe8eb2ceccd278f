"""A factory as a collection: GET lists its live documents by link, in pages, over all owners."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any
from urllib.parse import urlencode

from aiohttp import web

from docstore.errors import BadRequest, Forbidden, Unavailable
from docstore.http import headers
from docstore.http.authority import authority_of
from docstore.http.backend import Backend
from docstore.http.documents import DocumentPages, at_level
from docstore.http.headers import RequestHead
from docstore.http.parameters import check_parameters, flag
from docstore.http.reply import Reply
from docstore.http.representation import document_json, stitched
from docstore.http.visible_links import shown_to
from docstore.model.document import Row
from docstore.model.operation import Operation
from docstore.model.paths import encoded
from docstore.model.service import Service
from docstore.services.registry import FACTORIES

PAGE, PAGE_MAX = 1000, 10_000
PAGE_BYTES_MAX = 16 << 20
EXPANDED_AT_ONCE = 256
UNDERSTOOD = ("$limit", "$top", "$count", "$expand", "expand", "after")
MISSPELT = {
    "filter": "$filter", "where": "$filter", "orderby": "$orderby", "orderBy": "$orderby",
    "select": "$select", "limit": "$limit", "top": "$top", "count": "$count",
}  # fmt: skip
"""Name in the body of a query, or misspelt name -> the parameter of a list, for the error."""

Entry = tuple[str, int, Row | None]
Source = Callable[[str, int, float], Awaitable[tuple[list[Entry], str]]]
"""Function of (link to continue after, number of entries, timeout in seconds) -> (entries, link to
continue after). It may return more or fewer entries."""


async def listing(
    backend: Backend, request: web.BaseRequest, factory: str, service: Service
) -> Reply:
    """Answer GET of a factory with the documents that the caller may read (`listed`)."""
    authority = authority_of(request)
    sees_all = authority.may("GET", factory)
    if sees_all or factory == FACTORIES:
        may_read = None if sees_all else partial(authority.may, "GET")
        source = partial(_of_all, backend, factory, may_read, _expands(request))
    else:
        source = partial(_of_few, backend, service, authority.readable_in(factory))

    async def count(timeout_s: float) -> int:
        if not sees_all:
            raise Forbidden(f"no grant to count all documents of {factory}: leave $count out")
        return await backend.counting(factory, timeout_s)

    return await listed(request, factory, service.options.kind, source, count)


class FactoryPages:
    """Pages of a built-in factory, which has a list like any other factory."""

    def __init__(self, backend: Backend, documents: DocumentPages) -> None:
        self._backend = backend
        self._documents = documents

    def _service(self, path: str) -> Service:
        service = self._backend.registry.service_at(path)
        assert service is not None, path
        return service

    async def get_list(self, request: web.BaseRequest, path: str, body: bytes) -> Reply:
        return await listing(self._backend, request, path, self._service(path))

    async def _submitted(self, request: RequestHead, path: str, operation: Operation) -> Reply:
        """Submit an operation, and answer with the document. path: of the factory."""
        media, timeout_s = headers.accepted_media(request), headers.timeout_s(request)
        answer = await self._backend.submit(operation, timeout_s)
        return self._documents.reply(request, answer, self._service(path), media)


async def listed(
    request: web.BaseRequest,
    at: str,
    kind: str,
    source: Source,
    count: Callable[[float], Awaitable[int]],
) -> Reply:
    """Answer GET of a list: `documentLinks`, and further members that the query asks for.

    at: the path of the list. kind: the kind of its documents. count: returns the number of
    documents within some seconds.
    """
    media = headers.accepted_media(request)
    query = request.rel_url.query
    expand = _expands(request)
    limit, top = _sizes(query)
    patience_s = headers.timeout_s(request)
    found, has_more = await _page(source, query.get("after", ""), limit, patience_s)
    page: dict[str, Any] = {
        "documentSelfLink": at,
        "documentKind": kind,
        "documentLinks": [link for link, _, _ in found],
    }
    if expand:
        authority = authority_of(request)
        pairs = [(link, shown_to(authority, row)) for link, _, row in found if row is not None]
        page["documents"] = stitched({link: document_json(row, kind) for link, row in pairs})
    counts = flag(query, "$count")
    if counts:
        page["documentCount"] = await count(patience_s)
    left = None if top is None else top - len(found)
    if has_more and left != 0:
        following: dict[str, Any] = {"$limit": limit, "after": found[-1][0]}
        following |= ({"expand": ""} if expand else {}) | ({"$count": "true"} if counts else {})
        following |= {} if left is None else {"$top": left}
        page["nextPageLink"] = f"{encoded(at)}?{urlencode(following, safe='$/')}"
    return Reply(200, stitched(page, media), b"Content-Type: %b\r\n" % media.encode())


def _expands(request: web.BaseRequest) -> bool:
    """Say whether the query asks for documents, not only for links.

    Raises BadRequest, also for a parameter that a list does not have.
    """
    query = request.rel_url.query
    for name in query:
        if name in MISSPELT:
            raise BadRequest(f"parameter {name} must be spelt {MISSPELT[name]}")
    check_parameters(request, UNDERSTOOD)
    return flag(query, "expand") or flag(query, "$expand")


def _sizes(query: Mapping[str, str]) -> tuple[int, int | None]:
    """Return the maximum number of documents of a page, and of all pages. Raises BadRequest."""
    limit, top = (
        headers.whole_number(query[name], name, 1, PAGE_MAX) if name in query else None
        for name in ("$limit", "$top")
    )
    sizes = [size for size in (limit, top) if size is not None]
    return min(sizes, default=PAGE), top


async def _of_all(
    backend: Backend,
    factory: str,
    may_read: Callable[[str], bool] | None,
    expand: bool,
    after: str,
    limit: int,
    timeout_s: float,
) -> tuple[list[Entry], str]:
    """Return the next readable entries of a factory, and the link after which to continue."""
    at_once = limit if may_read is None and not expand else min(limit, EXPANDED_AT_ONCE)
    entries, following = await backend.listing(
        factory, after=after, limit=at_once, expand=expand, timeout_s=timeout_s
    )
    if may_read is None:
        return list(entries), following
    return [entry for entry in entries if may_read(entry[0])], following


async def _of_few(
    backend: Backend,
    service: Service,
    links: Sequence[str],
    after: str,
    limit: int,
    timeout_s: float,
) -> tuple[list[Entry], str]:
    """Read the next of some documents; return the existing ones, and where to continue."""
    left, at_once = [link for link in links if link > after], min(limit, EXPANDED_AT_ONCE)
    asked = [at_level(Operation(verb="GET", link=link), service) for link in left[:at_once]]
    found: list[Entry] = []
    for answer in await backend.submit_batch(asked, timeout_s) if asked else ():
        if answer.status >= 500:
            raise Unavailable(answer.detail)
        if answer.is_success and answer.row is not None:
            found.append((answer.row.link, answer.row.version, answer.row))
    return found, left[at_once - 1] if len(left) > at_once else ""


async def _page(
    source: Source, after: str, limit: int, patience_s: float
) -> tuple[list[Entry], bool]:
    """Return up to `limit` entries, fewer if they are large, and whether there are more."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + patience_s
    found: list[Entry] = []
    size = 0
    while True:
        wanted = limit + 1 - len(found)
        entries, after = await source(after, wanted, deadline - loop.time())
        for entry in entries:
            size += len(entry[2].state) + 400 if entry[2] is not None else 0
            if found and (len(found) == limit or size > PAGE_BYTES_MAX):
                return found, True
            found.append(entry)
        if not after:
            return found, False
