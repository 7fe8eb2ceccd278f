"""Record streams while leaders are killed, stopped, and restarted: lines S1, S2, S5."""

import asyncio
import contextlib
import signal
import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import aiohttp

from docstore.client.local import LocalNode
from tests.chaos.lines.flights import (
    PAGE,
    PARTITIONS,
    Flown,
    counts,
    fetched,
    flying,
    judged,
    leader,
    led_by,
    shown,
)
from tests.chaos.lines.stage import Seen, Stage, line
from tests.chaos.lines.strain import EXIT_S, Restarted, restart

SPAN_S, EVERY_S, LATE_S, DOWN_S, ASLEEP_S = 180.0, 5.0, 10.0, 1.0, 3.0
KILLED_S, STOPPED_S = 1.0, 3.0
DOOMED = 3
"""Number of records that only a leader has, which is about to be paused."""


async def _is_whole(stage: Stage) -> bool:
    return all(len(each["lrs"]) == len(each["replicas"]) for each in await shown(stage))


class Loss(NamedTuple):
    """A partition lost its leader. is_full: all its replicas were in sync until then."""

    partition: int
    at: float
    is_full: bool


Strike = Callable[[Stage, LocalNode, int], Awaitable[None]]


async def in_turn(
    stage: Stage, flown: Flown, strike: Strike, *, every_s: float = EVERY_S
) -> list[Loss]:
    """Strike the partitions' leaders in turn; return the partitions that lost their leaders.

    On a slow machine a node may not be back when the next one is due: this waits for it, for a
    time.
    """
    struck: list[Loss] = []
    begun, number = time.monotonic(), 0
    while time.monotonic() < begun + SPAN_S * stage.share and not flown.wrong:
        late = time.monotonic() + LATE_S
        while time.monotonic() < late and not await _is_whole(stage):
            await asyncio.sleep(0.1)
        due = time.monotonic() + every_s
        victim = await leader(stage, number % PARTITIONS)
        its = await led_by(stage, victim)
        struck += [Loss(each, time.monotonic(), is_full) for each, is_full in its]
        await strike(stage, victim, number % PARTITIONS)
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        number += 1
    return struck


def _times(flown: Flown, struck: list[Loss]) -> tuple[str, list[float]]:
    """Return how long partitions were away that lost a leader while all else was well."""
    times, others = (
        sorted(flown.away_s(each.partition, each.at, each.at + EVERY_S) for each in struck
               if each.is_full is is_full)
        for is_full in (True, False)
    )  # fmt: skip
    said = f"away after {len(times)} losses: {_spread(times)}"
    if others:
        said += f" (and after {len(others)} with a replica out already: {_spread(others)})"
    return said, times


def _spread(times: list[float]) -> str:
    return f"{times[len(times) // 2]:.2f} s, {times[-1]:.2f} s at most" if times else "-"


def _within(times: list[float], limit: float) -> bool:
    """Say whether all are within a limit, one outlier allowed."""
    return sum(each > limit for each in times) <= 1


@line("S1", "flights by an idempotent producer, the leaders killed in turn every 5 s for 3 minutes:"
            " none lost, none twice, in order by key, hw never back; a partition is away for 1 s"
            " at most", size=5)  # fmt: skip
async def leaders_killed(stage: Stage) -> Seen:
    """Kill the leader of one partition after the other; start each again a second later."""
    async with flying(stage) as flown:
        struck = await in_turn(stage, flown, kill_leader)
    wrong = await judged(stage, flown)
    said, times = _times(flown, struck)
    return Seen(not wrong and _within(times, KILLED_S), f"{said}; {counts(flown)}", wrong)


async def kill_leader(stage: Stage, victim: LocalNode, _partition: int) -> None:
    """Kill a node, and start it again a second later."""
    await stage.arena.kill(victim)
    await asyncio.sleep(DOWN_S)
    stage.arena.start_node(victim)


@line("S2", "the same with SIGSTOP and SIGCONT, and records that only the stopped leader has: no"
            " committed reader ever sees them; a partition is away for 3 s at most",
            size=5)  # fmt: skip
async def leaders_stopped(stage: Stage) -> Seen:
    """Pause the leader of one partition after the other, with a tail that no other replica has."""
    doomed: list[int] = []

    async def stop(stage: Stage, victim: LocalNode, partition: int) -> None:
        await _stop(stage, victim, partition, flown, doomed)

    async with flying(stage) as flown:
        struck = await in_turn(stage, flown, stop)
    wrong = await judged(stage, flown)
    kept = await _kept_of(stage, doomed)
    said, times = _times(flown, struck)
    said = f"{len(doomed)} records only a stopped leader had, {kept} kept; {said}"
    holds = not wrong and _within(times, STOPPED_S) and kept < len(doomed)
    return Seen(holds, f"{said}; {counts(flown)}", wrong)


async def _stop(
    stage: Stage, victim: LocalNode, partition: int, flown: Flown, doomed: list[int]
) -> None:
    assert victim.process is not None
    arena = stage.arena
    pairs = [(victim, other) for other in stage.others(victim)]
    for pair in pairs:  # From here on its messages are lost, on connections that stay open.
        arena.link(*pair).frozen = True
    before = len(flown.acks[partition])
    doomed += await _doom(stage, victim, partition, len(doomed))
    victim.process.send_signal(signal.SIGSTOP)
    await asyncio.sleep(ASLEEP_S)
    arena.cut(pairs, gossip=False)
    arena.mend()
    victim.process.send_signal(signal.SIGCONT)
    await _read_at(stage, victim, partition, flown, before)


async def _doom(stage: Stage, node: LocalNode, partition: int, number: int) -> list[int]:
    """Let a leader append records that no other replica will get."""
    url = f"{node.url}{PAGE}/{partition}/records?acks=leader"
    taken = []
    for each in range(number, number + DOOMED):
        body = {"key": "doomed", "value": {"mark": None, "doomed": each}}
        with contextlib.suppress(aiohttp.ClientError, TimeoutError):
            async with stage.session.post(url, json=body) as answer:
                if answer.status < 300:
                    taken.append(each)
    return taken


async def _read_at(stage: Stage, node: LocalNode, partition: int, flown: Flown, since: int) -> None:
    """Read committed records at a node that resumes, in both ways."""
    until = time.monotonic() + 1.5
    while time.monotonic() < until:
        for headers in ({}, {"Docstore-Consistency": "stale"}):
            _, _, records = await fetched(stage, node, partition, since, headers=headers)
            for record in records:
                flown.see(partition, record["offset"], record["value"])
        await asyncio.sleep(0.02)


async def _kept_of(stage: Stage, doomed: list[int]) -> int:
    """Return how many of these records are in the logs nevertheless."""
    found = 0
    for partition in range(PARTITIONS):
        at = 0
        while True:
            node = stage.arena.members[0]
            _, headers, records = await fetched(stage, node, partition, at)
            found += sum(each["value"].get("doomed") in doomed for each in records)
            if not records:
                break
            at = int(headers["Docstore-Next"])
    return found


@line("S5", "all nodes restarted one by one by SIGTERM: no produce of the client fails, nothing is"
            " lost, each node ends with 0 within 10 s", size=3)  # fmt: skip
async def restarted(stage: Stage) -> Seen:
    """Restart by SIGTERM, one after the other, under load."""
    seen = Restarted()
    struck: list[Loss] = []
    async with flying(stage) as flown:
        for _ in range(stage.share_of(10)):
            for node in stage.arena.members:
                its = await led_by(stage, node)
                struck += [Loss(each, time.monotonic(), is_full) for each, is_full in its]
                await restart(stage, node, seen)
                await asyncio.sleep(1.0)
    wrong = await judged(stage, flown)
    said, _ = _times(flown, struck)
    unknown = sum(n for what, n in flown.told.items() if what.startswith("unknown"))
    ended = f"{len(seen.exits)} ended after {max(seen.exits):.1f} s at most, {set(seen.codes)}"
    holds = not wrong and set(seen.codes) == {0} and max(seen.exits) <= EXIT_S
    return Seen(holds, f"{ended}; {said}; {unknown} unknown; {counts(flown)}", wrong)
