"""Lists and queries: documents of a factory, page by page, and aggregates of them.

After `found = store.query("/films", filter="rating gt 7")`, `async for film in found` reads pages
as it needs them, and `found.cursor` continues the query in another process.
"""

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any, NamedTuple, Self
from urllib.parse import quote, urlencode

import orjson

from docstore.client.documents import Document
from docstore.client.requests import JSON, Requests

QUERY_TASKS = "/core/query-tasks"
END = "end"
"""Cursor after the last document."""
OWN = ("documentSelfLink", "documentEpoch", "documentVersion")
"""Members that each query selects: the link, and what an entity tag is made of."""


class _Page(NamedTuple):
    """Documents, each with the cursor to continue after it, and the cursor of the next page."""

    documents: list[tuple[Document, str]]
    next: str


class Found(AsyncIterator[Document]):
    """Documents in order, read page by page while they are iterated over.

    After an error, iterating on reads the same page again.
    """

    def __init__(self, read: Callable[[str], Awaitable[_Page]], cursor: str) -> None:
        """read: returns the page at a cursor."""
        self._read = read
        self._next = self._cursor = cursor
        self._page: deque[tuple[Document, str]] = deque()

    @property
    def cursor(self) -> str:
        """Return the `cursor=` with which a later call continues, "" for the beginning.

        A list continues after the last document. A query continues with the page of the last
        document, so a few documents come again; those of its first page may have changed.
        """
        return self._cursor

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Document:
        while not self._page:
            if self._next == END:
                raise StopAsyncIteration
            documents, self._next = await self._read(self._next)
            self._page.extend(documents)
        document, self._cursor = self._page.popleft()
        return document


class QueryRequests(Requests):
    """Asks all owners of a group's documents."""

    def ls(self, factory: str, *, cursor: str = "", page: int = 1000) -> Found:
        """Return the documents of a factory, in the order of their links, to iterate over.

        Documents that are written meanwhile may be missing. cursor: that of an earlier list. page:
        most documents of one request. The entity tags are those of documents with ENFORCE_QUORUM;
        for other documents, `get` returns the tag.
        """

        async def read(after: str) -> _Page:
            asked = {"$limit": page, "expand": ""} | ({"after": after} if after else {})
            found = await self.json("GET", f"{quote(factory)}?{urlencode(asked, safe='$')}")
            pairs = [(_document(each), link) for link, each in found["documents"].items()]
            return _Page(pairs, found["documentLinks"][-1] if "nextPageLink" in found else END)

        return Found(read, cursor)

    async def links(self, factory: str) -> AsyncIterator[str]:
        """Yield the links of a factory's documents, in order, without reading the documents."""
        path: str | None = f"{quote(factory)}?$limit=1000"
        while path:
            page = await self.json("GET", path)
            for link in page["documentLinks"]:
                yield link
            path = page.get("nextPageLink")

    def query(
        self,
        factory: str,
        *,
        filter: str = "",  # noqa: A002 - as in the URL
        where: str = "",
        order_by: str = "",
        select: str = "",
        limit: int | None = None,
        page: int = 1000,
        as_of: str = "latest",
        cursor: str = "",
    ) -> Found:
        """Return the documents that match conditions, in an order, each once, to iterate over.

        All are of one moment: writes acknowledged before the first request are included, later ones
        are not. The order is that of links, unless `order_by` names another.

        filter: a condition in OData's syntax; where: in SQL's. select: members to return with the
        link. limit: most documents in all. page: documents of one
        request. as_of: latest, barrier, a time with its zone, or the name of a snapshot. cursor:
        that of an earlier query with the same arguments.
        Raises RequestFailed: 400 for a malformed query, 410 if the history was compacted.
        """
        asked: dict[str, Any] = {
            "path": factory, "filter": filter, "where": where, "orderBy": order_by,
            "select": ",".join(dict.fromkeys([*OWN, *select.split(",")])) if select else "",
            "expand": True, "limit": min(page, limit or page), "asOf": as_of,
        }  # fmt: skip
        hidden = set(OWN[1:]).difference(select.split(",")) if select else ()
        left = limit

        async def read(at: str) -> _Page:
            nonlocal left
            if left == 0:
                return _Page([], END)
            found = await _answer(self, {"cursor": at} if at else asked)
            documents = [_document(each, hidden) for each in found["documents"].values()][:left]
            left = None if left is None else left - len(documents)
            following = END if left == 0 else found.get("cursor", END)
            pairs = [(each, at) for each in documents]
            pairs[-1:] = [(each, following) for each, _ in pairs[-1:]]
            return _Page(pairs, following)

        return Found(read, cursor)

    async def aggregate(
        self,
        factory: str,
        aggregates: str,
        *,
        group_by: str = "",
        filter: str = "",  # noqa: A002 - as in the URL
        where: str = "",
        as_of: str = "latest",
    ) -> list[dict[str, Any]]:
        """Return a result for each group of documents, in the order of their keys.

        aggregates: such as `count(*), avg(rating) as mean`. group_by: such as `year`.
        """
        asked = {
            "path": factory, "aggregates": aggregates, "groupBy": group_by, "filter": filter,
            "where": where, "asOf": as_of,
        }  # fmt: skip
        groups: list[dict[str, Any]] = (await _answer(self, asked))["groups"]
        return groups


async def _answer(client: Requests, asked: dict[str, Any]) -> dict[str, Any]:
    body = orjson.dumps(asked)
    _, _, content = await client.request("POST", QUERY_TASKS, body, JSON, only_reads=True)
    page: dict[str, Any] = orjson.loads(content)
    return page


def _document(value: dict[str, Any], hidden: Iterable[str] = ()) -> Document:
    """Return a document of a page, without the members that were selected only for its tag."""
    tag = f'"{value["documentEpoch"]}.{value["documentVersion"]}"'
    for name in hidden:
        del value[name]
    return Document(value, tag)
