"""A node without the two others refuses requests that need them, and does not wait."""

import asyncio
from typing import Any

import orjson

from docstore.client import Client, LocalCluster, RequestFailed

ASKED: list[tuple[str, str, Any]] = [
    ("GET", "/core/examples", None),
    ("POST", "/core/changes", {"prefix": "/core/examples"}),
    ("POST", "/core/changes", {"prefix": "/core/examples", "since": "earliest"}),
    ("GET", "/core/spark/plan?asOf=latest", None),
    ("GET", "/core/spark/plan?asOf=barrier", None),
    ("GET", "/core/spark/high", None),
    ("POST", "/core/producers", {"id": "p"}),
    ("PATCH", "/core/node-groups/default", {"kind": "RemoveMemberRequest", "id": "n3"}),
]
LONG = {"Docstore-Timeout-Ms": "60000", "Content-Type": "application/json"}


async def test_requests_that_need_a_majority_are_refused_before_their_deadlines() -> None:
    """Pinned: feeds, cuts, epochs of producers and changes of members waited for the deadline."""
    with LocalCluster(3) as nodes:
        async with Client(nodes.urls[:1]) as client:
            for node in nodes.nodes[1:]:
                nodes.kill(node)
            async with asyncio.timeout(30):
                while await _refused(client, *ASKED[0]) != "no-quorum":
                    await asyncio.sleep(0.05)
            async with asyncio.timeout(20):
                for method, path, body in ASKED:
                    assert await _refused(client, method, path, body) == "no-quorum", path


async def _refused(client: Client, method: str, path: str, body: Any) -> str:
    """Return the code with which a request is refused, "" if it is not."""
    raw = None if body is None else orjson.dumps(body)
    try:
        await client.once(client.urls[0], method, path, raw, LONG, timeout_s=20)
    except RequestFailed as error:
        return error.code if error.status == 503 else str(error)
    return ""
