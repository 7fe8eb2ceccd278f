"""A count under a lock, whose holders are killed and stopped, and nodes as well: lines E1, E2."""

import asyncio
import contextlib
import itertools
import signal
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from docstore.client import Client, ClientError
from tests.chaos.lines.processes import Processes, crashes, several
from tests.chaos.lines.stage import Seen, Stage, line
from tests.chaos.mix import FACTORY

LOCK, COUNTER = "/core/locks/count", f"{FACTORY}/count"
HOLDERS, TTL_S = 3, 2.0
NEXT_S = TTL_S + 0.5
KILLS, STOPS = 60, 30
LATE_S = 30.0


@dataclass(slots=True)
class Counting:
    """Processes that want the lock, and their faults."""

    stage: Stage
    store: Client
    processes: Processes
    struck: list[tuple[str, float]] = field(default_factory=list)
    """(candidate, wall time)."""

    async def holder(self, but: str = "") -> str:
        """Return the holder of the lock, once there is one other than `but`."""
        until, shown = time.monotonic() + LATE_S, "nothing"
        while time.monotonic() < until:
            with contextlib.suppress(ClientError):
                document = (await self.store.get(LOCK)).value
                shown = str(document)
                name = (document["holder"] or {"candidate": ""})["candidate"]
                if name in self.processes.running and name != but:
                    return name
            await asyncio.sleep(0.02)
        running, dead = [*self.processes.running], self.processes.ended()
        raise TimeoutError(f"no process but {but} holds {shown}; of {running} ended: {dead}")


@contextlib.asynccontextmanager
async def _counting(stage: Stage) -> AsyncIterator[Counting]:
    words = [str(TTL_S), LOCK.rpartition("/")[2], COUNTER]
    async with Client([node.url for node in stage.arena.members]) as store:
        await store.put(COUNTER, {"n": 0, "by": 0})
        with several(stage, HOLDERS, "tests.chaos.lock_holder", words) as processes:
            yield Counting(stage, store, processes)


async def _judged(counting: Counting) -> tuple[list[str], str]:
    """Return the problems with the count and the lock, and how far it counted."""
    wrong = []
    count = list(reversed(await counting.store.history(COUNTER)))
    for before, after in itertools.pairwise(count):
        step = after["documentUpdateAction"] == "PUT"
        if after["n"] != before["n"] + step or after["by"] < before["by"]:
            wrong.append(f"the count went from {before} to {after}")
    turns = list(reversed(await counting.store.history(LOCK)))
    for before, after in itertools.pairwise(turns):
        is_same = (before["holder"] or {}).get("lease") == (after["holder"] or {}).get("lease")
        granted = after["holder"] is not None and not is_same
        if after["token"] != (after["documentVersion"] if granted else before["token"]):
            wrong.append(f"the lock went from {before} to {after}")
    wrong += crashes(counting.processes.said())
    return wrong, f"counted to {count[-1]['n']} in {turns[-1]['token']} versions"


def _waits(turns: list[dict[str, Any]], struck: list[tuple[str, float]]) -> list[float]:
    """Return how long after each fault another process held the lock, by the nodes' clocks."""
    waits = []
    for name, at in struck:
        later = (
            each["documentUpdateTimeMicros"] / 1e6 - at
            for each in turns
            if each["holder"] and each["holder"]["candidate"] != name
            and each["documentUpdateTimeMicros"] / 1e6 > at
        )  # fmt: skip
        waits.append(next(later, LATE_S))
    return sorted(waits)


@line("E1", "a lock's holders are killed one after the other: the next one holds within its TTL and"
            " 500 ms, one outlier allowed; no count is lost, none comes twice", size=3)  # fmt: skip
async def holders_killed(stage: Stage) -> Seen:
    """Kill the holder, over and over."""
    async with _counting(stage) as counting:
        holder = await counting.holder()
        for _ in range(stage.share_of(KILLS)):
            await asyncio.sleep(stage.arena.rng.uniform(0.2, 1.0))
            counting.processes.begin()
            at = time.time()
            counting.processes.end(holder)
            counting.struck.append((holder, at))
            holder = await counting.holder(but=holder)
        wrong, came = await _judged(counting)
        turns = list(reversed(await counting.store.history(LOCK)))
    waits = _waits(turns, counting.struck)
    said = (
        f"{len(waits)} kills: the next held after {waits[len(waits) // 2]:.2f} s, {waits[-1]:.2f}"
    )
    holds = not wrong and sum(each > NEXT_S for each in waits) <= 1
    return Seen(holds, f"{said} s at most; {came}", wrong)


@line("E2", "holders are stopped for longer than their TTL while the owner of the lock is killed:"
            " what they send when they wake up is refused, no count is lost", size=3)  # fmt: skip
async def holders_stopped(stage: Stage) -> Seen:
    """Pause the holder, kill a node, and let both continue."""
    async with _counting(stage) as counting:
        for number in range(stage.share_of(STOPS)):
            holder = await counting.holder()
            await asyncio.sleep(stage.arena.rng.uniform(0.2, 1.0))
            process = counting.processes.running[holder]
            process.send_signal(signal.SIGSTOP)
            explained = await counting.store.json("GET", f"{LOCK}/explain")
            owner = stage.arena.cluster.node(explained["owner"])
            if number % 2:
                await stage.arena.kill(owner)
            await counting.holder(but=holder)
            await asyncio.sleep(0.3)
            process.send_signal(signal.SIGCONT)
            stage.arena.start_node(owner)
            await asyncio.sleep(1.0)
            await asyncio.to_thread(stage.arena.cluster.wait_ready)
        wrong, came = await _judged(counting)
        said = itertools.chain.from_iterable(counting.processes.said().values())
    late = [each for each in said if each.startswith("late")]
    refused = late.count("late 409")
    figures = f"{refused} of {len(late)} late writes refused; {came}"
    return Seen(not wrong and 0 < refused == len(late), figures, wrong)
