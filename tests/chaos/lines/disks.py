"""Disks that are emptied, old, flipped, failing, full: lines R16 to R19."""

import asyncio
import contextlib
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import aiohttp

from docstore.client.local import LocalNode
from tests.chaos import damage
from tests.chaos.arena import empty, put_back
from tests.chaos.lines.stage import Seen, Stage, answered, line
from tests.chaos.mix import FACTORY
from tests.chaos.verdict import gap_s
from tests.docstore.watching import disk_fault, page_of

DOCUMENTS, FLIPS = 2_000, 1_000
STALE = {"Docstore-Consistency": "stale"}


async def _until(condition: Callable[[], bool], limit_s: float) -> float:
    """Return after how long it was true, the limit if it never was."""
    begun = time.monotonic()
    while time.monotonic() < begun + limit_s:
        if await asyncio.to_thread(condition):
            return time.monotonic() - begun
        await asyncio.sleep(0.05)
    return limit_s


def _ended(node: LocalNode) -> bool:
    return node.process is not None and node.process.poll() is not None


def _links(name: str, count: int) -> list[str]:
    return [f"{FACTORY}/{name}{number}" for number in range(count)]


@line("R16", "one disk emptied, an old copy put on another, or its journal or tables alone: none"
             " counts as what it was, 0 loss, said within 5 s", copies="all")  # fmt: skip
async def lost_disks(stage: Stage) -> Seen:
    """Empty a disk, restore an older copy on another; then halves of copies, one by one."""
    holds, figures, wrong = await _emptied_and_restored(stage)
    for part in (damage.JOURNAL, damage.TABLES):
        its, more, problems = await _put_back(stage, part)
        holds, figures, wrong = holds and its, f"{figures}; {more}", wrong + problems
    return Seen(holds and not wrong, figures, wrong)


async def _emptied_and_restored(stage: Stage) -> tuple[bool, str, list[str]]:
    """Start both nodes with the usual command."""
    links = _links("lost", 24)
    emptied, restored = stage.arena.rng.sample(stage.arena.members, 2)
    copy = await _copied(stage, restored)
    async with stage.load(stage.others(emptied, restored), links) as story:
        await asyncio.sleep(3.0)  # The copy is to be older than the disk.
        await stage.arena.kill(emptied)
        await stage.arena.kill(restored)
        empty(emptied.data)
        put_back(copy, restored.data)
        # As a supervisor does: the same command again.
        stage.arena.start_node(emptied)
        stage.arena.start_node(restored)
        old_s, new_s = await asyncio.gather(
            _until(lambda: _ended(restored), 30.0),
            _until(lambda: _ended(emptied) or _says_why(emptied), 30.0),
        )
        codes = restored.process and restored.process.poll()
        for node in (emptied, restored):
            await stage.arena.replace_disk(node)
            await stage.arena.recover()
    wrong = story.errors + await stage.judged(links, story.ops)
    figures = (
        f"the old copy's process ended with {codes} after {old_s:.1f} s, the empty disk was named"
        f" after {new_s:.1f} s; both replaced, {len(story.ops):,} operations"
    )
    return codes == 74 and max(old_s, new_s) <= 5.0, figures, wrong


async def _put_back(stage: Stage, part: str) -> tuple[bool, str, list[str]]:
    """Restore one half of an older copy of a disk: its node ends, or is whole again."""
    links = _links(f"{part}-", 24)
    node = stage.arena.rng.choice(stage.arena.members)
    copy = await _copied(stage, node)
    async with stage.load(stage.arena.members, links) as story:
        await asyncio.sleep(3.0)  # The copy is to be older than the disk.
        await stage.arena.kill(node)
        damage.put_back_part(copy, node.data, part)
        stage.arena.start_node(node)
        took_s = await _until(lambda: _ended(node) or _is_whole(node), 30.0)
        code = node.process and node.process.poll()
        await stage.arena.recover()
        await asyncio.sleep(3.0)  # Operations on the restored disk, for the history.
    wrong = story.errors + await stage.judged(links, story.ops)
    said = "it was whole" if code is None else f"it ended with {code}"
    # The journal makes older tables whole; nothing makes an older journal whole.
    holds = code == 74 if part == damage.JOURNAL else code in (74, None)
    figures = f"{part} alone put back: {said} after {took_s:.1f} s, {len(story.ops):,} operations"
    return holds and took_s <= 5.0, figures, wrong


async def _copied(stage: Stage, node: LocalNode) -> Path:
    """Copy a disk while its node is down."""
    copy = stage.arena.directory / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    await stage.arena.kill(node)
    shutil.copytree(node.data, copy)
    stage.arena.start_node(node)
    await stage.arena.recover()
    return copy


def _says_why(node: LocalNode) -> bool:
    return "not a member's" in page_of(f"{node.url}/health/ready").get("detail", "")


@line("R17", "1,000 bits flipped in a replica's files: 0 wrong bytes served, all repaired within"
             " 120 s")  # fmt: skip
async def flipped(stage: Stage) -> Seen:
    """Flip bits while a node is down; then read all documents through it again and again."""
    texts = {link: f"{link} " * 40 for link in _links("flip", DOCUMENTS)}
    for link, text in texts.items():
        async with stage.session.put(stage.arena.members[0].url + link, json={"text": text}) as put:
            assert put.status == 201
    victim = stage.arena.rng.choice(stage.arena.members)
    await stage.arena.kill(victim)
    damage.flip(victim.data / damage.TABLES, FLIPS, stage.arena.rng)
    stage.arena.start_node(victim)
    begun = time.monotonic()
    repaired = asyncio.create_task(_repaired(stage, victim))
    wrong: list[str] = []
    reads = 0
    while not repaired.done():
        found = await _read_all(stage, victim, texts)
        reads += len(found)
        wrong += [link for link, text in found.items() if text != texts[link]]
        await asyncio.sleep(0.2)  # Readers that do not slow a repair down.
    replaced = await repaired
    took_s = time.monotonic() - begun
    found = await _read_all(stage, victim, texts)
    missing = len(texts) - len(found)
    figures = (
        f"{reads:,} reads through it, {len(wrong)} wrong; whole after {took_s:.0f} s"
        f" ({'its disk was given up and replaced' if replaced else 'by repair'})"
    )
    return Seen(not wrong and not missing and took_s <= 120, figures, wrong)


async def _repaired(stage: Stage, node: LocalNode) -> bool:
    """Return once every row was verified and is right; say whether it took another disk."""
    process = node.process
    await stage.arena.recover()
    await stage.arena.scrubbed(node)
    await stage.arena.recover()
    return node.process is not process


async def _read_all(stage: Stage, node: LocalNode, texts: dict[str, str]) -> dict[str, str]:
    """Return the answers of a node's own copy and of the owners, where there are any."""
    found: dict[str, str] = {}
    gate = asyncio.Semaphore(32)

    async def read(link: str, headers: dict[str, str]) -> None:
        async with gate:
            with contextlib.suppress(aiohttp.ClientError, TimeoutError):
                async with stage.session.get(node.url + link, headers=headers) as answer:
                    if answer.status == 200:
                        text = (await answer.json())["text"]
                        # A wrong text is never forgotten.
                        found[link] = text if found.get(link, text) == texts[link] else "wrong"

    await asyncio.gather(*(read(link, headers) for link in texts for headers in (STALE, {})))
    return found


@line("R18", "EIO when a disk is synced: the process is gone within 1 s, nothing acknowledged after"
             " it, the others serve on")  # fmt: skip
async def sync_fails(stage: Stage) -> Seen:
    """Let every sync of a node fail, under load."""
    times: list[float] = []
    codes: set[int | None] = set()
    wrong: list[str] = []
    shares: list[float] = []
    for number in range(stage.share_of(25)):
        victim = stage.arena.rng.choice(stage.arena.members)
        links = _links(f"eio{number}-", 12)
        rest = stage.others(victim)
        async with stage.load(rest, links) as story, stage.load([victim], links, 2) as its:
            await asyncio.sleep(3.0)
            assert victim.process is not None
            with disk_fault(victim, "error=EIO"):
                failing_at = time.monotonic()
                times.append(await _until(lambda: _ended(victim), 10.0))  # noqa: B023
                codes.add(victim.process.poll())
            await asyncio.sleep(4.0)
        since = failing_at + times[-1]
        late = [op for op in its.ops if 200 <= op.status < 300 and op.start > since]
        wrong += [f"{op.uid} was accepted after the end" for op in late]
        before = answered(story.ops, failing_at - 2, failing_at)
        shares.append(answered(story.ops, since + 2, since + 4) / max(1, before))
        await stage.arena.kill(victim)
        stage.arena.start_node(victim)
        await stage.arena.recover()
        wrong += story.errors + await stage.judged(links, story.ops + its.ops)
    figures = (
        f"{len(times)} times: ended with {codes}, after {sorted(times)[len(times) // 2]:.2f} s,"
        f" at most {max(times):.2f} s; the others then at {min(shares):.0%} or more of before"
    )
    holds = codes == {74} and max(times) <= 1.0 and min(shares) >= 0.7 and not wrong
    return Seen(holds, figures, wrong)


@line("R19", "a disk full for 60 s: 99 % of reads answered, its mutations served elsewhere within"
             " 3 s, well again within 10 s", small_disk="256m")  # fmt: skip
async def full_disk(stage: Stage) -> Seen:
    """Fill the small disk of one node, and make room again."""
    node = stage.arena.members[-1]
    its, _ = await stage.owned(node, 8, name="full")
    span_s = max(12.0, 60 * stage.share)
    async with stage.load(stage.arena.members, its) as story:
        await asyncio.sleep(3.0)
        with filled(node.data):
            full_at = time.monotonic()
            yielded_s = await _until(lambda: _owned(node) == 0, span_s)
            await asyncio.sleep(max(0.0, full_at + span_s - time.monotonic()))
            room_at = time.monotonic()
        well_s = await _until(lambda: _is_whole(node), 60.0)
        await asyncio.sleep(1.0)
    span = [op for op in story.ops if full_at <= op.start < room_at]
    reads = [op for op in span if op.kind == "read"]
    read_share = sum(200 <= op.status < 500 for op in reads) / len(reads)
    changes = [op for op in story.ops if op.kind != "read"]
    names = {each.name for each in stage.arena.members}
    moved_s = gap_s(changes, names, its, full_at, room_at)
    wrong = story.errors + await stage.judged(its, story.ops)
    figures = (
        f"{span_s:.0f} s, slots given away after {yielded_s:.1f} s: {read_share:.1%} of"
        f" {len(reads):,} reads answered, a document without a mutation for {moved_s:.1f} s at"
        f" most; well again after {well_s:.1f} s"
    )
    in_time = yielded_s < span_s and moved_s <= 3.0 and well_s <= 10.0
    return Seen(read_share >= 0.99 and in_time and not wrong, figures, wrong)


@contextlib.contextmanager
def filled(data: Path) -> Iterator[None]:
    """Leave a file system without room, for a while."""
    ballast = data / "ballast"
    with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as out:
        while out.write(bytes(4096)):
            pass
    try:
        yield
    finally:
        ballast.unlink()


def _owned(node: LocalNode) -> int:
    return int(page_of(f"{node.url}/core/management").get("slots", {}).get("owned", -1))


def _is_whole(node: LocalNode) -> bool:
    slots = page_of(f"{node.url}/core/management").get("slots", {"faulty": 1})
    return page_of(f"{node.url}/health/ready").get("ready") is True and not slots["faulty"]
