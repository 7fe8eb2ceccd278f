"""No version is won twice, no increment counted twice, no deletion undone: lines R08, R09, R11."""

import asyncio
import contextlib
import itertools
import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from docstore.client.local import LocalNode
from tests.chaos.lines.stage import Seen, Stage, line
from tests.chaos.mix import FACTORY
from tests.docstore.watching import metrics, page_of

RIVALS = 100
COUNTERS, APPENDERS, KILL_EVERY_S = 100, 24, 5.0
LINKS, NDJSON = 200, {"Content-Type": "application/x-ndjson"}
STALE = {"Docstore-Consistency": "stale"}


@line("R08", "100 conditional PUTs at once for each of 10,000 versions: one winner each")
async def one_winner(stage: Stage) -> Seen:
    """Let rivals replace a version through all nodes, and the next one, and so on."""
    link = f"{FACTORY}/contested"
    nodes = stage.arena.members
    async with stage.session.put(nodes[0].url + link, json={"by": -1}) as made:
        tag = made.headers["ETag"]
    wrong: list[str] = []
    answers: Counter[int] = Counter()
    versions = stage.share_of(10_000)
    for version in range(1, versions + 1):
        replies = await asyncio.gather(
            *(_replace(stage, nodes[rival % len(nodes)], link, tag, rival)
              for rival in range(RIVALS))
        )  # fmt: skip
        answers.update(status for status, _ in replies)
        winners = [(rival, new) for rival, (status, new) in enumerate(replies) if status == 200]
        page = await asyncio.to_thread(page_of, nodes[version % len(nodes)].url + link)
        seen = page["documentVersion"], page["by"]
        if [seen] != [(version, rival) for rival, _ in winners]:
            wrong.append(f"version {version}: won by {[r for r, _ in winners]}, stored {seen}")
        tag = winners[0][1] if winners else tag
    figures = f"{versions:,} versions: {dict(answers)}"
    return Seen(not wrong and answers[200] == versions, figures, wrong)


async def _replace(
    stage: Stage, node: LocalNode, link: str, tag: str, rival: int
) -> tuple[int, str]:
    headers = {"If-Match": tag}
    async with stage.session.put(node.url + link, json={"by": rival}, headers=headers) as answer:
        await answer.read()
        return answer.status, answer.headers.get("ETag", "")


@dataclass(slots=True)
class Tally:
    """Answers that appenders got."""

    acknowledged: Counter[str] = field(default_factory=Counter)
    unknown: int = 0
    """504, or no answer: each may have happened once."""
    done: int = 0


@line("R09", "100,000 increments through random nodes with a kill every 5 s: as many as were"
             " acknowledged or are unknown, none twice")  # fmt: skip
async def increments(stage: Stage) -> Seen:
    """Append to lists, each entry an increment with its author, while nodes are killed."""
    wanted = stage.share_of(100_000)
    links = [f"{FACTORY}/list{number}" for number in range(COUNTERS)]
    for link in links:
        async with stage.session.put(stage.arena.members[0].url + link, json={"log": []}) as made:
            assert made.status == 201
    tally = Tally()
    tasks = [
        asyncio.create_task(_append(stage, links, name, tally, wanted)) for name in range(APPENDERS)
    ]
    kills = 0
    while tally.done < wanted:
        await asyncio.sleep(KILL_EVERY_S)
        victim = stage.arena.rng.choice(stage.arena.members)
        await stage.arena.kill(victim)
        kills += 1
        await asyncio.sleep(0.5)  # The other nodes write without it.
        stage.arena.start_node(victim)
    await asyncio.gather(*tasks)
    await stage.arena.recover()
    wrong, stored = [], 0
    for link in links:
        page = await asyncio.to_thread(page_of, stage.arena.members[0].url + link)
        found = Counter(page["log"])
        stored += found.total()
        wrong += [f"{link}: {uid} is there {n} times" for uid, n in found.items() if n > 1]
        mine = [uid for uid in tally.acknowledged if uid.startswith(f"{link}:")]
        wrong += [f"{link}: {uid} is lost" for uid in mine if uid not in found]
    acked = len(tally.acknowledged)
    figures = f"{kills} kills: {acked:,} acknowledged, {tally.unknown:,} unknown, {stored:,} stored"
    return Seen(not wrong and acked <= stored <= acked + tally.unknown, figures, wrong)


async def _append(stage: Stage, links: list[str], name: int, tally: Tally, wanted: int) -> None:
    rng = stage.arena.rng
    headers = {"Content-Type": "application/json-patch+json", "Docstore-Timeout-Ms": "5000"}
    for number in itertools.count():
        if tally.done >= wanted:
            return
        link = rng.choice(links)
        uid = f"{link}:{name}.{number}"
        body = json.dumps([{"op": "add", "path": "/log/-", "value": uid}])
        url = rng.choice(stage.arena.members).url + link
        status = 0
        with contextlib.suppress(aiohttp.ClientConnectorError):
            status = 504
            with contextlib.suppress(aiohttp.ServerDisconnectedError, TimeoutError, OSError):
                async with stage.session.patch(url, data=body, headers=headers) as answer:
                    await answer.read()
                    status = answer.status
        tally.acknowledged.update([uid] if status == 200 else [])
        tally.unknown += status in (0, 504)
        tally.done += status == 200
        if status != 200:
            await asyncio.sleep(0.05)


@line("R11", "1,000,000 cycles of create and delete with a node down in the middle, purge on:"
             " nothing comes back, versions only grow", retention_s=10.0)  # fmt: skip
async def churn(stage: Stage) -> Seen:
    """Create, delete and create again; let tombstones be trimmed; check every copy; repeat."""
    links = [f"{FACTORY}/churn{number}" for number in range(LINKS)]
    cycles = stage.share_of(1_000_000) // LINKS
    last = dict.fromkeys(links, -1)
    wrong: list[str] = []
    away = stage.arena.members[-1]
    for cycle in range(cycles):
        if cycle == cycles // 3:
            await stage.arena.kill(away)
        if cycle == 2 * cycles // 3:
            stage.arena.start_node(away)
            await stage.arena.recover()
        for verb in ("PUT", "DELETE"):
            wrong += await _all_of(stage, verb, links, cycle, last)
    wrong += await _shown(stage, dict.fromkeys(links, None))
    # Three copies of each; the last row of each slot stays.
    await stage.arena.wait(lambda: _purged(stage) >= 2 * LINKS, "tombstones are trimmed")
    alive = links[: LINKS // 2]
    wrong += await _all_of(stage, "PUT", alive, cycles, last)
    wrong += await _shown(stage, {link: cycles if link in alive else None for link in links})
    figures = f"{cycles * LINKS:,} cycles, {_purged(stage):.0f} copies of tombstones trimmed"
    return Seen(not wrong, figures, wrong)


async def _all_of(
    stage: Stage, verb: str, links: list[str], cycle: int, last: dict[str, int]
) -> list[str]:
    """Do one operation on all links in bulk, until it is done; return wrong answers."""
    wrong: list[str] = []
    left = list(links)
    for _ in range(60):
        lines = [{"op": verb, "link": link} | ({"body": {"n": cycle}} if verb == "PUT" else {})
                 for link in left]  # fmt: skip
        node = stage.arena.rng.choice(stage.arena.running())
        body = b"".join(json.dumps(each).encode() + b"\n" for each in lines)
        url = f"{node.url}/core/bulk"
        async with stage.session.post(url, data=body, headers=NDJSON) as answered:
            answers = [json.loads(each) for each in (await answered.read()).splitlines()]
        again = []
        for link, answer in zip(left, answers, strict=True):
            if answer["status"] in (200, 201):
                version = answer["version"]
                if version <= last[link]:
                    wrong.append(f"{verb} {link} gave {version} after {last[link]}")
                last[link] = version
            elif answer["status"] in (503, 504):
                again.append(link)
            elif (verb, answer["status"]) != ("DELETE", 404):  # After one of unknown fate.
                wrong.append(f"{verb} {link} was answered {answer}")
        left = again
        if not left:
            return wrong
        await asyncio.sleep(0.2)  # A moment for a takeover.
    return [*wrong, f"{len(left)} were never done"]


async def _shown(stage: Stage, wanted: dict[str, int | None]) -> list[str]:
    """Return the differences of any copy from the wanted state, once all are up to date."""
    wrong: list[str] = []

    def differing() -> list[str]:
        found = []
        for node in stage.arena.members:
            for link, n in wanted.items():
                page: dict[str, Any] = page_of(node.url + link, STALE)
                if page.get("n") != n:
                    found.append(f"{node.name} shows {link} as {page.get('n')}, not {n}")
        return found

    for _ in range(20):
        wrong = await asyncio.to_thread(differing)
        if not wrong:
            return []
        await asyncio.sleep(0.5)  # The pause between two checks.
    return wrong


def _purged(stage: Stage) -> float:
    """Return how many tombstones all nodes together have trimmed."""
    name = "docstore_protocol_purged_total"
    return sum(metrics(node).get(name, 0.0) for node in stage.arena.members)
