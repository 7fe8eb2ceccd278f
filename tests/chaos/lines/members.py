"""3 -> 5 -> 3 and replacements under load: line R14.

In every round two nodes join, two leave, and one is replaced, with a kill in the middle of each
change; a majority runs all the time. The promise: nothing lost, one history, and no document away
for more than three seconds.
"""

import asyncio
import random
import time

import aiohttp

from tests.chaos.arena import Arena
from tests.chaos.faults import Nemesis
from tests.chaos.lines.stage import Seen, Stage, line
from tests.chaos.mix import FACTORY, Mixer, Story
from tests.chaos.verdict import gap_s, one_history

AWAY_S_MAX = 3.0
LINKS, CLIENTS = 16, 6


async def _round(
    arena: Arena, nemesis: Nemesis, session: aiohttp.ClientSession, number: int
) -> tuple[list[str], float]:
    links = [f"{FACTORY}/m{number}-{each}" for each in range(LINKS)]
    story, began = Story(), time.monotonic()
    mixers = [
        Mixer(f"{number}.{n}", arena.members, links, session, story,
              random.Random(arena.rng.random()), began)
        for n in range(CLIENTS)
    ]  # fmt: skip
    tasks = [asyncio.create_task(mixer.run()) for mixer in mixers]
    await asyncio.sleep(1.0)
    begun = time.monotonic()
    await nemesis.do_join_and_leave()
    await nemesis.exchange()
    ended = time.monotonic()
    for mixer in mixers:
        mixer.stop = True
    await asyncio.gather(*tasks)
    names = {node.name for node in arena.cluster.nodes}
    wrong = story.errors + await one_history(arena, session, links, story.ops)
    return wrong, gap_s(story.ops, names, links, begun, ended)


@line("R14", "3 -> 5 -> 3 nodes and one replaced, 20 rounds with kills inside the changes: nothing"
             " lost, no document away for more than 3 s", size=3, spares=2)  # fmt: skip
async def changes(stage: Stage) -> Seen:
    """Change the group again and again."""
    nemesis = Nemesis(stage.arena, None)
    gaps: list[float] = []
    problems: list[str] = []
    for number in range(stage.share_of(20)):
        wrong, longest_s = await _round(stage.arena, nemesis, stage.session, number)
        gaps.append(longest_s)
        problems += wrong
    late = sum(gap > AWAY_S_MAX for gap in gaps)
    figures = f"{len(gaps)} rounds: away for {min(gaps):.1f} to {max(gaps):.1f} s at most"
    return Seen(not problems and late <= 1, figures, problems)
