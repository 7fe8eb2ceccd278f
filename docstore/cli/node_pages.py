"""Read the pages of all nodes of a group for `docstore doctor`."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any

from docstore.cli.diagnosis.seen import NodeReport, Seen, metrics_of
from docstore.client import Client, ClientError, RequestFailed

PATIENCE_S = 3.0
"""Seconds to wait for each node."""
TOPICS_MAX, FACTORIES_MAX = 100, 200
"""Greatest numbers of topics and factories to read, each with a request of its own."""
HIDDEN = (401, 403, 404)
"""Statuses that a node answers to a caller without permission for a page."""

Json = dict[str, Any]


async def look(client: Client) -> Seen:
    """Read the group's pages from one node, and each member's own pages from that member.

    Raises ClientError when no node answers with the members.
    """
    group = await client.json("GET", "/core/node-groups/default")
    selector = await client.json("GET", "/core/node-selectors/default")
    asked = {
        str(each["id"]): str(each["address"])
        for each in group["configuration"]["members"]
        if each["status"] == "ALIVE" and each["address"]
    }
    nodes = await asyncio.gather(*(look_at(client, address) for address in asked.values()))
    return Seen(
        group=group,
        selector=selector,
        nodes=dict(zip(asked, nodes, strict=True)),
        factories=await _each(client, "/core/factories", FACTORIES_MAX),
        topics=await _each(client, "/core/streams", TOPICS_MAX),
        now_s=time.time(),
    )


async def look_at(client: Client, address: str) -> NodeReport:
    try:
        async with client.to([address], timeout_s=PATIENCE_S) as node:
            before_s = time.time()
            page = await node.json("GET", "/core/management")
            after_s = time.time()
            metrics = await _metrics(node)
    except RequestFailed as error:
        return NodeReport() if error.status in HIDDEN else NodeReport(why_not=str(error))
    except ClientError as error:
        return NodeReport(why_not=str(error))
    told_s = page.get("timeMicros", (before_s + after_s) * 5e5) / 1e6
    return NodeReport(
        page, metrics, ahead_s=told_s - (before_s + after_s) / 2, unsure_s=(after_s - before_s) / 2
    )


async def _metrics(node: Client) -> Mapping[str, float]:
    try:
        _, _, text = await node.request("GET", "/metrics")
    except RequestFailed:
        return {}
    return metrics_of(text.decode("utf-8", "replace"))


async def _each(client: Client, factory: str, most: int) -> Sequence[Json]:
    """Return the documents of a factory; none if the caller may not read them."""
    try:
        page = await client.json("GET", f"{factory}?$limit={most}")
        links: Sequence[str] = page["documentLinks"]
        return [*await asyncio.gather(*(client.json("GET", link) for link in links))]
    except ClientError:
        return ()
