"""Owners are killed, paused, or cut off: lines R02, R03, R06, R07, R22."""

import asyncio
import contextlib
import signal
import time

import aiohttp

from docstore.client.local import LocalNode
from tests.chaos.lines.stage import WHOLE_S, Seen, Stage, answered, first_write_s, line
from tests.chaos.mix import FACTORY

SPAN_S, REPLACED_S, AROUND_S, READY_S = 3.0, 3.0, 5.0, 10.0
READERS, READS_EACH = 20, 50


def _all_but_one(times: list[float], limit: float) -> bool:
    """Say whether all are below a limit, one outlier allowed."""
    return sum(each > limit for each in times) <= 1


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


@line("R02", "SIGKILL of an owner, 100 times: first success on its documents within 3 s,"
             " 90 % of the throughput of the others")  # fmt: skip
async def kills(stage: Stage) -> Seen:
    """Kill one after the other, under load on documents of other owners."""
    times: list[float] = []
    shares: list[float] = []
    wrong: list[str] = []
    for number in range(stage.share_of(100)):
        victim = stage.arena.rng.choice(stage.arena.members)
        rest = stage.others(victim)
        its, not_its = await stage.owned(victim, 4, name=f"kill{number}")
        async with stage.load(rest, not_its) as story:
            await asyncio.sleep(1.0 + SPAN_S)
            killed_at = time.monotonic()
            await stage.arena.kill(victim)
            times.append(await first_write_s(stage, its, rest, since=killed_at))
            await asyncio.sleep(max(0.0, killed_at + SPAN_S - time.monotonic()))
        before = answered(story.ops, killed_at - SPAN_S, killed_at)
        shares.append(answered(story.ops, killed_at, killed_at + SPAN_S) / before)
        stage.arena.start_node(victim)
        await stage.arena.recover()
        wrong += story.errors + await stage.judged(not_its, story.ops)
    figures = (
        f"{len(times)} kills: median {_median(times):.2f} s, greatest {max(times):.2f} s;"
        f" the others' throughput: median {_median(shares):.0%}"
    )
    holds = _all_but_one(times, REPLACED_S) and _median(shares) >= 0.9 and not wrong
    return Seen(holds, figures, wrong)


@line("R03", "SIGSTOP of an owner for 30 s: 0 stale reads in 10,000 GETs after it goes on,"
             " replaced within 3 s")  # fmt: skip
async def sleeps(stage: Stage) -> Seen:
    """Pause the owner, write elsewhere, resume it, and read through it during more writes."""
    times: list[float] = []
    stale: list[str] = []
    reads = 0
    for number in range(stage.share_of(10)):
        owner = stage.arena.rng.choice(stage.arena.members)
        rest = stage.others(owner)
        links, _ = await stage.owned(owner, 8, name=f"sleep{number}")
        known = dict.fromkeys(links, -1)
        await first_write_s(stage, links, rest, since=time.monotonic())
        assert owner.process is not None
        owner.process.send_signal(signal.SIGSTOP)
        stopped_at = time.monotonic()
        times.append(await first_write_s(stage, links, rest, since=stopped_at))
        writer = asyncio.create_task(_write_on(stage, links, rest, known, stopped_at + 35.0))
        await asyncio.sleep(stopped_at + 30.0 - time.monotonic())
        owner.process.send_signal(signal.SIGCONT)
        found = await asyncio.gather(
            *(_read_on(stage, links, owner, known) for _ in range(READERS))
        )
        reads += sum(count for count, _ in found)
        stale += [each for _, old in found for each in old]
        await writer
        await stage.arena.recover()
    figures = (
        f"{len(times)} pauses, {reads:,} GETs, {len(stale)} stale; replaced after at most"
        f" {max(times):.2f} s"
    )
    enough = reads >= READERS * READS_EACH * len(times)
    return Seen(not stale and enough and _all_but_one(times, REPLACED_S), figures, stale)


async def _write_on(
    stage: Stage, links: list[str], nodes: list[LocalNode], known: dict[str, int], until: float
) -> None:
    number = 0
    while time.monotonic() < until:
        number += 1
        link, node = links[number % len(links)], nodes[number % len(nodes)]
        with contextlib.suppress(aiohttp.ClientError, TimeoutError):
            async with stage.session.put(node.url + link, json={"uid": str(number)}) as answer:
                page = await answer.json(content_type=None)
                if answer.status < 300:
                    known[link] = max(known[link], page["documentVersion"])
        await asyncio.sleep(0.005)


async def _read_on(
    stage: Stage, links: list[str], node: LocalNode, known: dict[str, int]
) -> tuple[int, list[str]]:
    count, old = 0, []
    until = time.monotonic() + 10.0
    while count < READS_EACH and time.monotonic() < until:
        link = links[count % len(links)]
        at_least = known[link]
        with contextlib.suppress(aiohttp.ClientError, TimeoutError):
            async with stage.session.get(node.url + link) as answer:
                page = await answer.json(content_type=None)
            if answer.status == 200:
                count += 1
                if page["documentVersion"] < at_least:
                    old.append(f"{link}: read {page['documentVersion']} after {at_least}")
    return count, old


@line("R22", "SIGKILL of all nodes at once under load, 50 times: ready within 10 s, nothing lost"
             " that was acknowledged")  # fmt: skip
async def all_killed(stage: Stage) -> Seen:
    """Kill all, start all, again and again."""
    times: list[float] = []
    wrong: list[str] = []
    for number in range(stage.share_of(50)):
        links = [f"{FACTORY}/all{number}-{each}" for each in range(24)]
        async with stage.load(stage.arena.members, links, 12) as story:
            await asyncio.sleep(1.0 + stage.arena.rng.random())
            for node in stage.arena.members:
                assert node.process is not None
                node.process.kill()
            for node in stage.arena.members:
                await stage.arena.kill(node)
            begun = time.monotonic()
            for node in stage.arena.members:
                stage.arena.start_node(node)
            await stage.arena.recover()
            times.append(time.monotonic() - begun)
        wrong += story.errors + await stage.judged(links, story.ops)
    figures = f"{len(times)} times: ready after {_median(times):.1f} s, at most {max(times):.1f} s"
    return Seen(_all_but_one(times, READY_S) and not wrong, figures, wrong)


@line("R06", "a link that comes and goes every second for 10 minutes: at most 60 take-overs of a"
             " slot, half of the goodput", retention_s=WHOLE_S)  # fmt: skip
async def flapping(stage: Stage) -> Seen:
    """Cut and mend the link between an owner and one of its replicas; each client has its node."""
    link = "/chaos/flap-0"
    owner = await asyncio.to_thread(stage.arena.cluster.owner_of, link)
    replica = stage.arena.rng.choice(stage.others(owner))
    its, _ = await stage.owned(owner, 8, name="flap")
    minutes = 10 * stage.share
    async with contextlib.AsyncExitStack() as clients:
        stories = [
            await clients.enter_async_context(stage.load([node], its, 2))
            for node in stage.arena.members
        ]
        await asyncio.sleep(5.0)
        epochs = await _epochs(stage, its)
        begun = time.monotonic()
        while time.monotonic() < begun + 60 * minutes:
            stage.arena.cut([(owner, replica), (replica, owner)], gossip=False)
            await asyncio.sleep(1.0)
            stage.arena.mend()
            await asyncio.sleep(1.0)
        ended = time.monotonic()
        after = await _epochs(stage, its)
    ops = [op for story in stories for op in story.ops]
    before = answered(ops, begun - 4.0, begun) / 4.0
    goodput = answered(ops, begun, ended) / (ended - begun) / before
    most = max(new - old for old, new in zip(epochs, after, strict=True))
    wrong = [error for story in stories for error in story.errors]
    wrong += await stage.judged(its, ops)
    figures = f"{minutes:.1f} min: at most {most} epochs of a slot, goodput {goodput:.0%}"
    return Seen(most <= 6 * minutes and goodput >= 0.5 and not wrong, figures, wrong)


async def _epochs(stage: Stage, links: list[str]) -> list[int]:
    """Return the epoch under which each of these documents takes a write now."""
    await first_write_s(stage, links, stage.arena.members, since=time.monotonic())
    return [await _epoch(stage, link) for link in links]


async def _epoch(stage: Stage, link: str) -> int:
    url = stage.arena.members[0].url + link
    async with stage.session.put(url, json={"uid": f"epoch-{time.monotonic()}"}) as answer:
        return int(answer.headers["Docstore-Epoch"])


@line("R07", "an owner cut off from the others' links while gossip finds it healthy: service back"
             " within 5 s")  # fmt: skip
async def unheard(stage: Stage) -> Seen:
    """Cut an owner's links both ways, while membership works."""
    times: list[float] = []
    wrong: list[str] = []
    for number in range(stage.share_of(20)):
        owner = stage.arena.rng.choice(stage.arena.members)
        rest = stage.others(owner)
        its, not_its = await stage.owned(owner, 4, name=f"unheard{number}")
        async with stage.load(stage.arena.members, its + not_its) as story:
            await asyncio.sleep(1.0)
            cut_at = time.monotonic()
            pairs = [(owner, other) for other in rest] + [(other, owner) for other in rest]
            stage.arena.cut(pairs, gossip=False)
            times.append(await first_write_s(stage, its, rest, since=cut_at))
            await asyncio.sleep(2.0)
            stage.arena.mend()
            await stage.arena.recover()
        wrong += story.errors + await stage.judged(its + not_its, story.ops)
    figures = f"{len(times)} cuts: back after {_median(times):.2f} s, at most {max(times):.2f} s"
    return Seen(_all_but_one(times, AROUND_S) and not wrong, figures, wrong)
