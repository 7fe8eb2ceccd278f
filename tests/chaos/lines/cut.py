"""A cut into minority and majority, line R04, and each directed link held in turn, line R40.

The promise (docs/guarantees.md): in the minority every write and strong read that begins 1.5 s or
more after the cut is answered 503, earlier ones 503 or 504, all within 2 s; the majority continues
within 3 s; after healing there is one history.
"""

import asyncio
import random
import time
from collections import Counter
from itertools import permutations

import aiohttp

from docstore.client.local import LocalNode
from tests.chaos.arena import Arena
from tests.chaos.lines.stage import WHOLE_S, Seen, Stage, line
from tests.chaos.mix import FACTORY, Mixer, Op, Story
from tests.chaos.verdict import gap_s, one_history

CUT_S, SURE_S, ANSWER_S, ONWARD_S = 8.0, 1.5, 2.0, 3.0
HELD_S, DIALLED_S = 30.0, 4.0
"""How long a link is held, and after how long hanging connections have been dialled anew."""
LINKS, CLIENTS = 12, 4


async def _round(
    arena: Arena, session: aiohttp.ClientSession, number: int
) -> tuple[list[str], float, Counter[int]]:
    """Cut two of five off; return the problems, the majority's gap, the minority's answers."""
    links = [f"{FACTORY}/s{number}-{each}" for each in range(LINKS)]
    minority = arena.rng.sample(arena.members, 2)
    majority = [node for node in arena.members if node not in minority]
    story, began = Story(), time.monotonic()

    def clients(nodes: list[LocalNode], side: str) -> list[Mixer]:
        return [
            Mixer(f"{side}{number}.{n}", nodes, links, session, story,
                  random.Random(arena.rng.random()), began)
            for n in range(CLIENTS)
        ]  # fmt: skip

    mixers = clients(minority, "minority") + clients(majority, "majority")
    tasks = [asyncio.create_task(mixer.run()) for mixer in mixers]
    await asyncio.sleep(2.0)  # Operations on the whole group, before it is cut.
    cut_at = time.monotonic()
    pairs = permutations(arena.members, 2)
    arena.cut([(a, b) for a, b in pairs if (a in minority) != (b in minority)], gossip=True)
    await asyncio.sleep(CUT_S)
    healed_at = time.monotonic()
    arena.mend()
    await arena.recover()
    await asyncio.sleep(1.0)  # Operations on the whole group again, for the history.
    for mixer in mixers:
        mixer.stop = True
    await asyncio.gather(*tasks)
    wrong, answers = _minority(story.ops, {n.name for n in minority}, cut_at, healed_at)
    away_s = gap_s(story.ops, {n.name for n in majority}, links, cut_at, healed_at)
    wrong += story.errors + await one_history(arena, session, links, story.ops)
    return wrong, away_s, answers


def _minority(
    ops: list[Op], names: set[str], cut_at: float, healed_at: float
) -> tuple[list[str], Counter[int]]:
    wrong: list[str] = []
    answers: Counter[int] = Counter()
    for op in ops:
        if op.node not in names or not cut_at <= op.start < healed_at - ANSWER_S:
            continue
        took_s = op.end - op.start
        sure = op.start >= cut_at + SURE_S
        answers[op.status] += sure
        if took_s > ANSWER_S:
            wrong.append(f"the minority took {took_s:.2f} s for {op.kind}, answered {op.status}")
        # Just after the cut, decisions of the former majority may still be answered.
        if sure and op.status != 503:
            since = op.start - cut_at
            wrong.append(f"the minority answered {op.kind} with {op.status} {since:.2f} s after")
    return wrong, answers


# With three copies on five nodes a minority of two may hold the majority of a slot: all have one.
@line("R04", "a minority of two of five: every write and strong read answered 503 within 2 s, the"
             " majority goes on within 3 s, one history", copies="all")  # fmt: skip
async def minority(stage: Stage) -> Seen:
    """Cut and heal, again and again."""
    gaps: list[float] = []
    problems: list[str] = []
    answers: Counter[int] = Counter()
    for number in range(stage.share_of(50)):
        wrong, away_s, answered = await _round(stage.arena, stage.session, number)
        gaps.append(away_s)
        problems += wrong
        answers += answered
    figures = (
        f"{len(gaps)} cuts, {answers.total():,} requests in the minority, {answers[503]:,} answered"
        f" 503; the majority's longest gap {max(gaps):.2f} s"
    )
    late = sum(gap > ONWARD_S for gap in gaps)
    return Seen(not problems and late <= 1, figures, problems)


@line("R40", "each directed link of five nodes held for 30 s: no request takes more than 3 s, and"
             " from 2 s on each is carried out", retention_s=WHOLE_S)  # fmt: skip
async def held(stage: Stage) -> Seen:
    """Hold one link after the other, while clients of all nodes write and read."""
    arena, problems, slowest_s, count = stage.arena, [], 0.0, 0
    links = [f"{FACTORY}/h-{number}" for number in range(5 * LINKS)]  # Some of every owner.
    pairs = arena.rng.sample(list(permutations(arena.members, 2)), stage.share_of(20))
    async with stage.load(arena.members, links, CLIENTS * 2) as story:
        for one, other in pairs:
            arena.link(one, other).frozen = True
            begun = time.monotonic()
            await asyncio.sleep(HELD_S)
            ended = time.monotonic()
            arena.link(one, other).frozen = False
            await asyncio.sleep(DIALLED_S)
            during = [op for op in story.ops if begun <= op.start < ended]
            count += len(during)
            for op in during:
                took_s, since_s = op.end - op.start, op.start - begun
                slowest_s = max(slowest_s, took_s)
                is_refused = op.status >= 500 and since_s > 2.0 and op.end < ended
                if took_s > ONWARD_S or is_refused:
                    problems.append(
                        f"{one.name} to {other.name}: {op.kind} at {op.node}, begun after"
                        f" {since_s:.1f} s, took {took_s:.2f} s, answered {op.status}"
                    )
    problems += story.errors + await stage.judged(links, story.ops)
    figures = f"{len(pairs)} links, {count:,} requests, the slowest took {slowest_s:.2f} s"
    return Seen(not problems, figures, problems[:20])
