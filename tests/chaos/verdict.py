"""Verdict on a round: how long documents were away, and whether there is one history."""

from collections import defaultdict
from typing import Any

import aiohttp

from docstore.client.local import LocalNode
from tests.chaos.arena import Arena
from tests.chaos.mix import Op, judge

PAGE = 500


def gap_s(
    ops: list[Op], names: set[str], links: list[str], cut_at: float, healed_at: float
) -> float:
    """Return the longest time in which these nodes left some document without an answer."""
    longest = 0.0
    for link in links:
        moments = sorted(
            op.end for op in ops
            if op.link == link and op.node in names and 200 <= op.status < 500
            and cut_at <= op.end < healed_at
        )  # fmt: skip
        for before, after in zip([cut_at, *moments], [*moments, healed_at], strict=True):
            longest = max(longest, after - before)
    return longest


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


async def one_history(
    arena: Arena, session: aiohttp.ClientSession, links: list[str], ops: list[Op]
) -> list[str]:
    """Read every document back, through changing nodes; return the problems."""
    by_link: dict[str, list[Op]] = defaultdict(list)
    for op in ops:
        by_link[op.link].append(op)
    wrong: list[str] = []
    for index, link in enumerate(links):
        node = arena.members[index % len(arena.members)]
        stored = await versions_of(session, node, link)
        wrong += [f"{link}: {each}" for each in judge(by_link[link], stored)]
    return wrong
