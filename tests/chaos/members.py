"""3 -> 5 -> 3 and replacements under load: python -m tests.chaos.members [--rounds N] [--seed S].

In every round two nodes join, two leave, and one is replaced, with a kill in the middle of each
change; a majority is there all the time. Promised: nothing lost, one history, and no document away
for more than three seconds.
"""

import argparse
import asyncio
import random
import sys
import tempfile
import time
from pathlib import Path

import aiohttp

from tests.chaos import report
from tests.chaos.arena import GROUP, Arena, page_of
from tests.chaos.faults import Nemesis
from tests.chaos.mix import Mixer, Story
from tests.chaos.verdict import gap_s, one_history
from tests.chaos.workload import FACTORY, declare

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


async def run(rounds: int, seed: int) -> int:
    """Change the group again and again; print the figures; return the exit code."""
    rng = random.Random(seed)
    gaps: list[float] = []
    problems: list[str] = []
    with tempfile.TemporaryDirectory(prefix="docstore-members-") as directory:
        arena = Arena(Path(directory), 3, 2, rng)
        nemesis = Nemesis(arena, None)
        timeout = aiohttp.ClientTimeout(total=15)
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session:
            try:
                await arena.start()
                await declare(session, arena.members[0].url)
                for number in range(rounds):
                    wrong, longest_s = await _round(arena, nemesis, session, number)
                    gaps.append(longest_s)
                    problems += wrong
                    print(f"round {number + 1}: a document was away for {longest_s:.2f} s",
                          *wrong[:5], sep="\n  ", flush=True)  # fmt: skip
            except TimeoutError as error:
                problems.append(str(error))
                report.keep_logs(Path(directory), seed, arena.cluster.nodes)
                for node in arena.cluster.nodes:
                    page = page_of(f"{node.url}{GROUP}").get("configuration", {})
                    print(node.name, page_of(f"{node.url}/health/ready"), page)
            finally:
                await arena.stop()
    late = sum(gap > AWAY_S_MAX for gap in gaps)
    print(f"{rounds} rounds: {len(problems)} problems; away {sorted(round(g, 2) for g in gaps)}")
    return 1 if problems or late > 1 else 0


def main() -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.members", description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    return asyncio.run(run(options.rounds, options.seed))


if __name__ == "__main__":
    sys.exit(main())
