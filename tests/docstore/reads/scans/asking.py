"""Questions to nodes over plain HTTP."""

from typing import Any

import aiohttp

Page = dict[str, Any]


async def asked(
    http: aiohttp.ClientSession, url: str, path: str = "", body: Page | None = None, **query: str
) -> tuple[int, Page]:
    """Return the status and the page of a query."""
    how = "GET" if body is None else "POST"
    target = aiohttp.client.URL(url + path, encoded="?" in path)
    async with http.request(how, target, params=query or None, json=body) as answer:
        return answer.status, await answer.json()
