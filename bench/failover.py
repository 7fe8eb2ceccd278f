"""kill -9 of an owner or a leader, and how long what it had waits for the next accepted write.

For each of some documents, or partitions, an impatient client starts a new attempt every 25 ms at
one of the survivors in turn, up to eight at a time; the first success stops its clock. So the
figure is the cluster's, not that of a client's patience.
"""

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable

from bench.cluster import Failed, Failing, Member

ATTEMPT_EVERY_S = 0.025
ATTEMPTS_MAX = 8
WAIT_LIMIT_S = 30.0


async def kill(victim: Member) -> None:
    """Kill a member."""
    await victim.end(signal.SIGKILL)


async def stop(victim: Member) -> None:
    """Pause a member: its connections stay open."""
    victim.signal(signal.SIGSTOP)


async def go_on(victim: Member) -> None:
    """Resume a member."""
    victim.signal(signal.SIGCONT)


async def failovers(
    cluster: Failing,
    turns: int,
    strike: Callable[[Member], Awaitable[None]] = kill,
    recover: Callable[[Member], Awaitable[None]] = Member.start,
) -> AsyncIterator[list[float]]:
    """Strike, wait and recover in each turn; yield the seconds that each document waited."""
    for turn in range(turns):
        victim, links = await cluster.victim(turn)
        killed_at = time.perf_counter()
        await strike(victim)
        yield list(
            await asyncio.gather(
                *(_first_write(cluster, link, victim, since=killed_at) for link in links)
            )
        )
        await recover(victim)
        await cluster.settled()


async def _first_write(cluster: Failing, link: str, victim: Member, *, since: float) -> float:
    survivors = cluster.others(victim)
    attempts: set[asyncio.Task[bool]] = set()
    number = 0
    try:
        while time.perf_counter() - since < WAIT_LIMIT_S:
            if len(attempts) < ATTEMPTS_MAX:
                survivor = survivors[number % len(survivors)]
                number += 1
                attempts.add(asyncio.create_task(cluster.write(link, survivor, number)))
            next_at = time.perf_counter() + ATTEMPT_EVERY_S
            done, attempts = await asyncio.wait(
                attempts, timeout=ATTEMPT_EVERY_S, return_when=asyncio.FIRST_COMPLETED
            )
            if any(attempt.result() for attempt in done):
                return time.perf_counter() - since
            # A refusal at once is no reason to ask more often.
            await asyncio.sleep(max(0.0, next_at - time.perf_counter()))
    finally:
        for attempt in attempts:
            attempt.cancel()
        await asyncio.gather(*attempts, return_exceptions=True)
    message = f"{link} took no write within {WAIT_LIMIT_S:.0f} s after its owner was struck"
    raise Failed(message)
