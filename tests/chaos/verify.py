"""Hold what clients were told against what every node has: nothing lost, nothing made up."""

import asyncio
from collections import defaultdict
from typing import Any

import aiohttp

from docstore.client.local import LocalNode
from tests.chaos.workload import History, Write

PAGE = 500


async def versions_of(
    session: aiohttp.ClientSession, node: LocalNode, link: str
) -> dict[int, dict[str, Any]]:
    """Return version -> document, the whole history of a link."""
    found: dict[int, dict[str, Any]] = {}
    url: str | None = f"{link}/versions?limit={PAGE}"
    while url:
        async with session.get(node.url + url) as answer:
            if answer.status == 404:
                return found
            assert answer.status == 200, (answer.status, await answer.text())
            page = await answer.json()
        for document in page["versions"]:
            found[document["documentVersion"]] = document
        url = page.get("nextPageLink")
    return found


async def problems(
    session: aiohttp.ClientSession, nodes: list[LocalNode], history: History
) -> list[str]:
    """Return every way in which what is stored differs from what was promised."""
    by_link: dict[str, list[Write]] = defaultdict(list)
    for write in history.writes:
        by_link[write.link].append(write)
    found = list(history.errors)
    gate = asyncio.Semaphore(16)

    async def check(link: str, writes: list[Write], node: LocalNode) -> None:
        async with gate:
            stored = await versions_of(session, node, link)
        found.extend(f"{link}: {problem}" for problem in _compare(writes, stored))

    await asyncio.gather(
        *(
            check(link, writes, nodes[index % len(nodes)])
            for index, (link, writes) in enumerate(by_link.items())
        )
    )
    return found


def _compare(writes: list[Write], stored: dict[int, dict[str, Any]]) -> list[str]:
    """Return what is wrong with one document. `stored` is its whole history."""
    wrong = []
    if sorted(stored) != list(range(len(stored))):
        wrong.append(f"versions are not 0, 1, 2, ...: {sorted(stored)[:20]}")
    uses: dict[str, list[int]] = defaultdict(list)
    for version, document in stored.items():
        if document["documentUpdateAction"] != "DELETE":
            uses[document.get("uid", "")].append(version)
    for write in writes:
        wrong.extend(_compare_one(write, stored, uses))
    return wrong


def _compare_one(
    write: Write, stored: dict[int, dict[str, Any]], uses: dict[str, list[int]]
) -> list[str]:
    if 200 <= write.status < 300:
        document = stored.get(write.version if write.version is not None else -1)
        if document is None:
            return [f"acknowledged {write.verb} {write.uid} v{write.version} is lost"]
        if write.verb == "DELETE":
            right = document["documentUpdateAction"] == "DELETE"
        else:
            right = document.get("uid") == write.uid and len(uses[write.uid]) == 1
        return [] if right else [f"v{write.version} is not what {write.verb} {write.uid} wrote"]
    if write.verb == "DELETE":
        return []
    if write.status in (0, 504):
        return [f"{write.uid} was applied twice"] if len(uses[write.uid]) > 1 else []
    return [f"{write.uid} answered {write.status} but is stored"] if uses[write.uid] else []
