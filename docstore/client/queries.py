"""Queries: documents that match conditions, page by page, and aggregates of them."""

from collections.abc import AsyncIterator
from typing import Any

import orjson

from docstore.client.requests import JSON, Requests

QUERY_TASKS = "/core/query-tasks"


class QueryRequests(Requests):
    """Asks all owners of a group's documents."""

    async def query(
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
    ) -> AsyncIterator[dict[str, Any]]:
        """Yield the documents that match conditions, in an order, each once.

        All are of one moment: writes acknowledged before the first request are included, later ones
        are not. The order is that of links, unless `order_by` names another.

        filter: a condition in OData's syntax; where: in SQL's. select: members to return with the
        link. limit: most documents in all. page: documents of one request. as_of: latest, barrier,
        a time with its zone, or the name of a snapshot.
        Raises RequestFailed: 400 for a malformed query, 410 if the history was compacted.
        """
        asked: dict[str, Any] = {
            "path": factory, "filter": filter, "where": where, "orderBy": order_by,
            "select": f"documentSelfLink,{select}" if select else "", "expand": True,
            "limit": min(page, limit or page), "asOf": as_of,
        }  # fmt: skip
        left = limit
        while asked and left != 0:
            found = await self._asked(asked)
            asked = {"cursor": found["cursor"]} if "cursor" in found else {}
            for document in list(found["documents"].values())[:left]:
                yield document
            left = None if left is None else max(0, left - len(found["documents"]))

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
        groups: list[dict[str, Any]] = (await self._asked(asked))["groups"]
        return groups

    async def _asked(self, asked: dict[str, Any]) -> dict[str, Any]:
        body = orjson.dumps(asked)
        _, _, content = await self.request("POST", QUERY_TASKS, body, JSON, only_reads=True)
        page: dict[str, Any] = orjson.loads(content)
        return page
