"""Record streams whose files are lost or older, or have no room: lines S3, S4."""

import asyncio
import shutil
import time
from pathlib import Path
from typing import Any

from docstore.client.local import LocalNode
from tests.chaos.lines.disks import filled
from tests.chaos.lines.flights import (
    PAGE,
    PARTITIONS,
    counts,
    entries,
    fetched,
    flying,
    judged,
    leader,
    led_by,
    shown,
)
from tests.chaos.lines.stage import Seen, Stage, line


@line("S3", "a node's streams.db lost, or put back from an older copy, node after node: out of the"
            " live replica sets as that copy, filled, in again only then; nothing lost",
            size=3)  # fmt: skip
async def files_lost(stage: Stage) -> Seen:
    """Lose the file of one node after the other, under load."""
    wrong: list[str] = []
    times: list[float] = []
    kinds = ("older", "lost", "uncounted")
    async with flying(stage) as flown:
        for number in range(max(2, stage.share_of(12))):
            node = stage.arena.members[number % len(stage.arena.members)]
            kind = kinds[number % len(kinds)]
            times.append(await _lose(stage, node, kind, wrong))
            if wrong or flown.wrong:
                break
    wrong += await judged(stage, flown)
    said = f"{len(times)} files: in step again after {max(times):.1f} s at most"
    return Seen(not wrong, f"{said}; {counts(flown)}", wrong)


async def _lose(stage: Stage, node: LocalNode, kind: str, wrong: list[str]) -> float:
    """Damage a node's file of streams and start it; return after how long it is in sync again.

    kind: lost; older; or older, and the count of starts beside it is lost.
    """
    arena = stage.arena
    await _in_step(stage, node, {}, wrong)
    kept = arena.directory / "older"
    await arena.kill(node)
    if kind != "lost":
        kept.mkdir(exist_ok=True)
        for file in _files(node):
            shutil.copy(file, kept)
        arena.start_node(node)
        await arena.recover()
        await _in_step(stage, node, {}, wrong)
        await asyncio.sleep(1.0)
        await arena.kill(node)
    for file in _files(node):
        if kind != "older" or file.name != "streams.db.life":
            file.unlink()
    if kind != "lost":
        for name in ("streams.db", "streams.db-wal"):
            if (kept / name).exists():
                shutil.copy(kept / name, node.data)
    lost = {each["partition"]: _copy(each, node) for each in await shown(stage)}
    arena.start_node(node)
    begun = time.monotonic()
    await _in_step(stage, node, lost, wrong)
    return time.monotonic() - begun


def _files(node: LocalNode) -> list[Path]:
    return sorted(node.data.glob("streams.db*"))


def _copy(entry: dict[str, Any], node: LocalNode) -> str:
    return next((copy for name, copy in entry["lrs"] if name == node.name), "")


async def _in_step(stage: Stage, node: LocalNode, lost: dict[int, str], wrong: list[str]) -> None:
    """Wait until a node is in all live replica sets, with another copy than the lost one.

    Whenever it is in a set with a new copy, this must have all records committed by then.
    """
    deadline = time.monotonic() + 60.0
    high = [-1] * PARTITIONS
    while time.monotonic() < deadline:
        found = await shown(stage)
        for each in found:
            copy, partition = _copy(each, node), each["partition"]
            mine = next((one for one in each["followers"] if one["id"] == node.name), None)
            if lost and copy and copy != lost[partition] and mine and mine["leo"] < high[partition]:
                wrong.append(f"{partition}: {mine} is in the set, and lacks {high[partition]}")
            high[partition] = max(high[partition], each["hw"] or -1)
        copies = [_copy(each, node) for each in found]
        if all(copy and copy != lost.get(at, "") for at, copy in enumerate(copies)):
            return
        await asyncio.sleep(0.05)
    wrong.append(f"{node.name} is not in step after a minute: {await shown(stage)}")


# Room


@line("S4", "the disk of a leader full for a minute: OutOfStorage, its records are read, produce is"
            " 503 partition-full; Online within 10 s of there being room, nothing lost",
            size=3, small_disk="320m")  # fmt: skip
async def no_room(stage: Stage) -> Seen:
    """Let the node with the small disk lead half of the partitions; fill its disk."""
    node = stage.arena.members[-1]
    span_s = max(8.0, 60 * stage.share)
    async with flying(stage) as flown:
        for partition in (0, 2, 4):
            await _lead(stage, node, partition)
        its = [partition for partition, _ in await led_by(stage, node)]
        with filled(node.data):
            full_at = time.monotonic()
            noticed_s = await _resolved(stage, node, its, "OutOfStorage", span_s)
            refused, read = await _tried(stage, node, its, full_at + span_s)
        room_at = time.monotonic()
        online_s = await _resolved(stage, node, its, "Online", 60.0)
    others = [each for each in range(PARTITIONS) if each not in its]
    away_s = max((flown.away_s(each, full_at, room_at) for each in others), default=0.0)
    wrong = await judged(stage, flown)
    only = set(refused) == {"503 partition-full not_applied"}
    reads = read["200"] / max(1, sum(read.values()))
    said = (
        f"{span_s:.0f} s: noticed after {noticed_s:.1f} s, produce {refused}, {reads:.1%} of reads"
        f" answered, other partitions away for {away_s:.1f} s; Online after {online_s:.1f} s"
    )
    holds = not wrong and only and reads >= 0.99 and noticed_s < span_s and online_s <= 10.0
    return Seen(holds, f"{said}; {counts(flown)}", wrong)


async def _lead(stage: Stage, node: LocalNode, partition: int) -> None:
    """Make a node the leader of a partition."""
    deadline = time.monotonic() + 30.0
    asked = {"kind": "MoveLeaderRequest", "to": node.name}
    while (await leader(stage, partition)) is not node:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{node.name} does not lead {partition}")
        async with stage.session.patch(f"{node.url}{PAGE}/{partition}", json=asked) as answer:
            await answer.read()
        await asyncio.sleep(0.5)


async def _resolved(
    stage: Stage, node: LocalNode, its: list[int], resolution: str, limit_s: float
) -> float:
    """Return after how long a node's partitions are all in a state."""
    begun = time.monotonic()
    while time.monotonic() < begun + limit_s:
        found = await entries(stage, stage.others(node)[0])
        if found and all(found[each]["resolution"] == resolution for each in its):
            return time.monotonic() - begun
        await asyncio.sleep(0.05)
    return limit_s


async def _tried(
    stage: Stage, node: LocalNode, its: list[int], until: float
) -> tuple[dict[str, int], dict[str, int]]:
    """Produce to partitions, and read them, through all nodes; return the outcomes."""
    refused: dict[str, int] = {}
    read: dict[str, int] = {"200": 0}
    number = 0
    while time.monotonic() < until:
        number += 1
        through = stage.arena.members[number % len(stage.arena.members)]
        partition = its[number % len(its)]
        body = {"key": "room", "value": {"mark": None}}
        url = f"{through.url}{PAGE}/{partition}/records"
        async with stage.session.post(url, json=body) as answer:
            page = await answer.json(content_type=None)
            what = f"{answer.status} {page.get('errorCode')} {page.get('outcome')}"
        refused[what] = refused.get(what, 0) + 1
        status, _, _ = await fetched(stage, through, partition, "beginning", maxRecords=10)
        read[str(status)] = read.get(str(status), 0) + 1
        await asyncio.sleep(0.05)
    return refused, read
