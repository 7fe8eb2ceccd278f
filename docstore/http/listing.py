"""A factory as a collection: GET lists its live documents by link, in pages, over all owners."""

from typing import Any
from urllib.parse import quote

from aiohttp import web

from docstore.errors import BadRequest
from docstore.http import reading
from docstore.http.backend import Backend
from docstore.http.representation import document_value, encode
from docstore.service import Service

PAGE, PAGE_MAX = 1000, 10_000
LATER = ("$filter", "$orderby", "$select")


async def listing(
    backend: Backend, request: web.BaseRequest, factory: str, service: Service
) -> web.Response:
    """Answer GET of a factory: `documentLinks`, and what the query asks for beside them."""
    media = reading.accepted_media(request)
    query = request.rel_url.query
    for name in LATER:
        if name in query:
            raise BadRequest(f"{name} is not offered yet; list and choose on your side")
    limit = reading.whole_number(
        query.get("$limit", query.get("$top", str(PAGE))), "$limit", 1, PAGE_MAX
    )
    expand = "expand" in query or "$expand" in query
    patience_s = reading.timeout_s(request)
    found = await backend.listing(
        factory,
        after=query.get("after", ""),
        limit=limit + 1,
        expand=expand,
        timeout_s=patience_s,
    )
    links = [link for link, _, _ in found[:limit]]
    page: dict[str, Any] = {
        "documentSelfLink": factory,
        "documentKind": service.options.kind,
        "documentLinks": links,
    }
    if expand:
        page["documents"] = {
            link: document_value(row, service.options.kind)
            for link, _, row in found[:limit]
            if row is not None
        }
    if "$count" in query:
        page["documentCount"] = await backend.counting(factory, patience_s)
    if len(found) > limit and "$top" not in query:
        flags = "&expand" if expand else ""
        page["nextPageLink"] = f"{factory}?$limit={limit}&after={quote(links[-1])}{flags}"
    return web.Response(body=encode(page, media), headers={"Content-Type": media})
