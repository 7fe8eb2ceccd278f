"""Levels 1 and 2 on both sides of a cut: line R26.

The promise (docs/guarantees.md): every side continues to write; 30 s after healing all replicas
show the same winner and the same branches that lost; no acknowledged update is missing from all of
them; at level 2 a document is in conflict exactly if both sides had an update of it acknowledged;
and updates acknowledged there with two copies survive the loss of a disk.
"""

import asyncio
import itertools
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from itertools import permutations
from typing import Any

import aiohttp

from docstore.client.local import LocalNode
from tests.chaos.arena import Arena
from tests.chaos.lines.stage import Seen, Stage, line
from tests.docstore.watching import page_of

FACTORIES = {1: "/level1", 2: "/level2"}
OPTIONS = {
    1: ["PERSISTENCE", "REPLICATION"],
    2: ["PERSISTENCE", "REPLICATION", "OWNER_SELECTION"],
}
CUT_S, SURE_S, EQUAL_S = 6.0, 1.5, 30.0
LINKS, CLIENTS = 8, 4
STALE = {"Docstore-Consistency": "stale"}


@dataclass(slots=True)
class Update:
    """One append: the side of its client, and its answer."""

    link: str
    uid: str
    side: int
    start: float
    end: float = 0.0
    status: int = 0
    copies: int = 0


@dataclass(slots=True)
class Round:
    """Operations of clients in a round."""

    number: int
    updates: list[Update] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    stop: bool = False

    def links(self, level: int) -> list[str]:
        """Return the documents of this round."""
        return [f"{FACTORIES[level]}/{self.number}-{each}" for each in range(LINKS)]


async def _write(
    turn: Round, side: int, nodes: list[LocalNode], session: aiohttp.ClientSession,
    rng: random.Random, name: str,
) -> None:  # fmt: skip
    """Append to the lists of random documents, through the nodes of one side."""
    links = turn.links(1) + turn.links(2)
    headers = {"Content-Type": "application/json-patch+json", "Docstore-Timeout-Ms": "5000"}
    for number in itertools.count():
        if turn.stop:
            return
        update = Update(rng.choice(links), f"{name}.{number}", side, time.monotonic())
        turn.updates.append(update)
        patch = [{"op": "add", "path": "/log/-", "value": update.uid}]
        node = rng.choice(nodes)
        try:
            async with session.patch(node.url + update.link, json=patch, headers=headers) as answer:
                update.status = answer.status
                update.copies = int(answer.headers.get("Docstore-Replicas", 0))
                if answer.status == 500:
                    turn.wrong.append(f"500: {(await answer.text())[:200]}")
        except (aiohttp.ClientError, TimeoutError, ConnectionError):
            await asyncio.sleep(0.05)
        update.end = time.monotonic()
        await asyncio.sleep(rng.random() * 0.02)


async def _round(
    arena: Arena, session: aiohttp.ClientSession, number: int
) -> tuple[Round, float, Counter[str]]:
    """Cut, write on both sides, kill one, heal; return the problems and the time to be equal."""
    turn = Round(number)
    for link in turn.links(1) + turn.links(2):
        async with session.put(arena.members[0].url + link, json={"log": []}) as made:
            assert made.status == 201, await made.text()
    for level in FACTORIES:
        await _equal(arena, turn.links(level))
    some = arena.rng.sample(arena.members, 2)
    sides = [some, [node for node in arena.members if node not in some]]
    pairs = permutations(arena.members, 2)
    arena.cut([(a, b) for a, b in pairs if (a in some) != (b in some)], gossip=True)
    await asyncio.sleep(SURE_S)
    tasks = [
        asyncio.create_task(
            _write(turn, side, nodes, session, random.Random(arena.rng.random()), f"{side}{n}")
        )
        for side, nodes in enumerate(sides)
        for n in range(CLIENTS)
    ]
    await asyncio.sleep(CUT_S / 2)
    victim = arena.rng.choice(arena.members)
    await arena.kill(victim)
    arena.start_node(victim)
    await asyncio.sleep(CUT_S / 2)
    turn.stop = True
    await asyncio.gather(*tasks)
    healed_at = time.monotonic()
    arena.mend()
    await arena.recover()
    documents: dict[str, dict[str, Any]] = {}
    for level in FACTORIES:
        documents |= await _equal(arena, turn.links(level))
    took_s = time.monotonic() - healed_at
    counted = _judge(turn, documents)
    return turn, took_s, counted


async def _equal(arena: Arena, links: list[str]) -> dict[str, dict[str, Any]]:
    """Return the documents with their branches, once all replicas show the same."""
    found: dict[str, dict[str, Any]] = {}

    def shown(node: LocalNode, link: str) -> dict[str, Any]:
        document = page_of(node.url + link, STALE)
        lost = page_of(f"{node.url}{link}/conflicts", STALE).get("conflicts", [])
        return {"log": document.get("log"), "version": document.get("documentVersion"),
                "lost": [each["log"] for each in lost]}  # fmt: skip

    def agree() -> bool:
        for link in links:
            seen = [shown(node, link) for node in arena.members]
            if seen[0]["log"] is None or any(each != seen[0] for each in seen):
                return False
            found[link] = seen[0]
        return True

    await arena.wait(agree, "all replicas show the same")
    return found


def _judge(turn: Round, documents: dict[str, dict[str, Any]]) -> Counter[str]:
    """Compare the answers with the documents."""
    counted: Counter[str] = Counter()
    for link, document in documents.items():
        heads = [document["log"], *document["lost"]]
        present = {uid for log in heads for uid in log}
        mine = [update for update in turn.updates if update.link == link]
        acked = [update for update in mine if 200 <= update.status < 300]
        counted["acked"] += len(acked)
        for update in acked:
            if update.uid not in present:
                turn.wrong.append(f"{update.uid} of {link} is lost")
        for update in mine:
            if 400 <= update.status < 504 and update.uid in present:
                turn.wrong.append(f"{update.uid} of {link}: {update.status} and took effect")
        for log in heads:
            if len(log) != len(set(log)):
                turn.wrong.append(f"{link}: applied twice on a branch")
        if link.startswith(FACTORIES[2]):
            sides = {update.side for update in acked}
            counted["marks"] += len(document["lost"]) > 0
            counted["branches"] += len(sides) > 1
            if len(sides) > 1 and not document["lost"]:
                turn.wrong.append(f"{link} was written on both sides and is not in conflict")
            if len({update.side for update in mine}) < 2 and document["lost"]:
                turn.wrong.append(f"{link} was written on one side and is in conflict")
    return counted


async def _lose_a_disk(arena: Arena, session: aiohttp.ClientSession, number: int) -> list[str]:
    """Write at level 2, lose a disk at once; documents on two replicas must remain."""
    copies_of: dict[str, int] = {}
    links = [f"{FACTORIES[2]}/d{number}-{each}" for each in range(60)]
    for link in links:
        node = arena.rng.choice(arena.members)
        async with session.put(node.url + link, json={"log": []}) as made:
            if made.status == 201:
                copies_of[link] = int(made.headers["Docstore-Replicas"])
    await arena.replace_disk(arena.rng.choice(arena.members))
    await arena.recover()
    safe = [link for link, copies in copies_of.items() if copies >= 2]
    found = await _equal(arena, safe)
    return [f"{link} is lost with a disk" for link in safe if link not in found]


@line("R26", "levels 1 and 2: both sides of a cut write on, equal within 30 s, nothing disappears,"
             " marks are exact; two copies outlive a disk")  # fmt: skip
async def weaker_levels(stage: Stage) -> Seen:
    """Cut, write on both sides, kill one, heal, lose a disk; again and again."""
    for level, path in FACTORIES.items():
        body = {"path": path, "options": OPTIONS[level]}
        url = f"{stage.arena.members[0].url}/core/factories"
        async with stage.session.post(url, json=body) as made:
            assert made.status == 201, await made.text()
    times: list[float] = []
    problems: list[str] = []
    counted: Counter[str] = Counter()
    for number in range(stage.share_of(50)):
        turn, took_s, found = await _round(stage.arena, stage.session, number)
        turn.wrong += await _lose_a_disk(stage.arena, stage.session, number)
        times.append(took_s)
        problems += turn.wrong
        counted += found
    late = sum(took > EQUAL_S for took in times)
    figures = (
        f"{len(times)} cuts and lost disks: {counted['acked']:,} acknowledged updates,"
        f" {counted['marks']} conflicts; equal after at most {max(times):.1f} s"
    )
    return Seen(not problems and late <= 1, figures, problems)
