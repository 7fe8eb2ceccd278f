"""What came of a round: how long documents were away, and whether there is one history."""

from collections import defaultdict

import aiohttp

from tests.chaos.arena import Arena
from tests.chaos.mix import Op, judge
from tests.chaos.verify import versions_of


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


async def one_history(
    arena: Arena, session: aiohttp.ClientSession, links: list[str], ops: list[Op]
) -> list[str]:
    """Read every document back, through changing nodes; return what is wrong."""
    by_link: dict[str, list[Op]] = defaultdict(list)
    for op in ops:
        by_link[op.link].append(op)
    wrong: list[str] = []
    for index, link in enumerate(links):
        node = arena.members[index % len(arena.members)]
        stored = await versions_of(session, node, link)
        wrong += [f"{link}: {each}" for each in judge(by_link[link], stored)]
    return wrong
