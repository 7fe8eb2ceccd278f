"""Backups of a group of three under writes have exactly the committed rows, despite kills."""

import asyncio
import itertools
import random
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from docstore.client import Client, ClientError
from docstore.client.local import LocalCluster
from docstore.documents.parts import span_of
from docstore.maintenance.backup.directory import manifest_in, manifests_in, unfinished
from docstore.maintenance.backup.manifest import BackupFile, Manifest
from docstore.maintenance.backup.taking import BackupFailed, BackupRequest, take
from docstore.maintenance.backup.verifying import blocks_of, verify
from docstore.model.document import Row
from tests.docstore.maintenance.backup.groups import restored_group, rows_of
from tests.docstore.watching import start_all, until

pytestmark = pytest.mark.thorough

SLOTS, WRITERS, DOCUMENTS, KEYS = 64, 4, 60, 5


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    settings = ["--slots", str(SLOTS), "--owner-timeout-s", "2"]
    with LocalCluster(3, tmp_path_factory.mktemp("group"), settings) as group:
        asyncio.run(filled(group))
        yield group


@pytest.fixture
def group(whole: LocalCluster) -> LocalCluster:
    start_all(whole)
    return whole


async def filled(group: LocalCluster) -> None:
    async with Client(group.urls) as store:
        await store.declare("/moving")
        await store.declare("/moving-lines:")
        await store.declare("/still")
        lines = [
            {"op": "PUT", "link": f"/still/{n}", "body": {"n": n, "text": "x" * 100}}
            for n in range(6_000)
        ]
        assert {each["status"] for each in await store.bulk(lines)} == {201}


@dataclass(slots=True)
class Writers:
    """Write, delete and recreate documents, and record the acknowledged versions with their times.

    Without keys, since a version under a key is not compacted for ten minutes.
    """

    urls: list[str]
    acknowledged: list[tuple[float, float, str, int]] = field(default_factory=list)
    """Time of the request, time of the answer, link, version."""

    async def write(self, number: int) -> None:
        """Change this writer's own documents, one after the other, for ever."""
        rng = random.Random(number)
        async with Client(self.urls) as store:
            while True:
                link = f"/moving/{number}-{rng.randrange(DOCUMENTS)}"
                began = time.time()
                try:
                    if rng.random() < 0.2:
                        found = await store.delete(link, key="")
                    else:
                        body = {"at": began, "noise": rng.random()}
                        found = await store.put(link, body, key="")
                except ClientError:
                    continue  # Deleted already, or a node that was killed.
                version = found.value["documentVersion"]
                self.acknowledged.append((began, time.time(), link, version))

    async def write_together(self) -> None:
        """Change documents that share a key, three in a batch."""
        async with Client(self.urls) as store:
            for number in itertools.count():
                began = time.time()
                links = [f"/moving-lines:/{number % KEYS}~{n}" for n in range(3)]
                body = {"at": began, "number": number}
                try:
                    made = await store.atomic(
                        [{"link": link, "body": body} for link in links], key=""
                    )
                except ClientError:
                    continue
                found = ((began, time.time(), each["link"], each["version"]) for each in made)
                self.acknowledged.extend(found)


@asynccontextmanager
async def writing(group: LocalCluster) -> AsyncIterator[Writers]:
    """Run writers during the block."""
    writers = Writers(group.urls)
    tasks = [asyncio.create_task(writers.write(number)) for number in range(WRITERS)]
    tasks.append(asyncio.create_task(writers.write_together()))
    try:
        yield writers
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def some_more(writers: Writers, count: int = 40) -> None:
    """Wait until `count` more updates are acknowledged."""
    wanted = len(writers.acknowledged) + count
    async with asyncio.timeout(60):
        while len(writers.acknowledged) < wanted:
            await asyncio.sleep(0.02)


def kept_in(directory: Path) -> dict[tuple[int, int], Row]:
    """Return (slot, n) -> row, for all rows of a chain of backups."""
    chain = manifests_in(directory)
    return {
        (row.slot, row.n): row
        for before, manifest in zip([None, *chain], chain, strict=False)
        for part in manifest.parts
        for block in blocks_of(directory, manifest, part, before)
        for stretch in block.log
        for row in stretch.rows
    }


def parted(rows: dict[tuple[int, int], Row]) -> list[Row]:
    """Return the rows of atomic batches that are not whole; check that some rows are of batches."""
    spans = [(row, span_of(row)) for row in rows.values()]
    assert any(first < last for _, (first, last) in spans)
    return [
        row for row, (first, last) in spans
        if any((row.slot, n) not in rows for n in range(first, last + 1))
    ]  # fmt: skip


def versions_in(rows: dict[tuple[int, int], Row]) -> set[tuple[str, int]]:
    return {(row.link, row.version) for row in rows.values()}


async def decided(urls: list[str], manifest: Manifest) -> dict[tuple[int, int], Row]:
    async with Client(urls) as store:
        return await rows_of(store, manifest.ends)


async def every_version(urls: list[str], links: set[str]) -> dict[str, list[dict[str, Any]]]:
    """Return link -> its history, as a client reads it."""
    found = {}
    async with Client(urls) as store:
        for link in sorted(links):
            found[link] = await store.history(link)
    return found


def nothing(part: BackupFile) -> None:
    """Ignore a part."""


def test_a_chain_taken_under_writes_is_the_group_at_its_cut(
    group: LocalCluster, tmp_path: Path
) -> None:
    backups = tmp_path / "backups"

    async def work() -> tuple[Writers, list[tuple[float, float]]]:
        moments = []
        async with writing(group) as writers, Client(group.urls) as store:
            for _ in range(3):
                await some_more(writers)
                began = time.time()
                await take(store, backups, BackupRequest(), nothing)
                moments.append((began, time.time()))
            await some_more(writers)
        return writers, moments

    writers, moments = asyncio.run(work())
    chain = verify(backups)
    assert all(0 < each.rows < chain[0].rows for each in chain[1:])
    kept = kept_in(backups)
    assert kept == asyncio.run(decided(group.urls, chain[-1]))
    assert parted(kept) == []
    versions = versions_in(kept)
    began, ended = moments[-1]
    for sent, answered, link, version in writers.acknowledged:
        if answered < began:
            assert (link, version) in versions
        if sent > ended:
            assert (link, version) not in versions

    links = {row.link for row in kept.values() if row.link.startswith("/moving/")}
    shown = asyncio.run(every_version(group.urls, links))
    newest = {link: max(v for each, v in versions if each == link) for link in links}
    expected = {
        link: [each for each in history if each["documentVersion"] <= newest[link]]
        for link, history in shown.items()
    }
    with restored_group(backups, tmp_path / "anew", 3, SLOTS) as anew:
        assert asyncio.run(decided(anew.urls, chain[-1])) == kept
        assert asyncio.run(every_version(anew.urls, links)) == expected
        asyncio.run(goes_on(anew.urls, newest, chain))


async def goes_on(urls: list[str], newest: dict[str, int], chain: list[Manifest]) -> None:
    """Write to a restored group; check that versions continue and epochs are new."""
    async with Client(urls) as store:
        for link, version in newest.items():
            found = (await store.put(link, {"anew": True})).value
            assert found["documentVersion"] == version + 1
            assert found["documentEpoch"] > chain[-1].epoch
        assert len([each async for each in store.links("/still")]) == 6_000


def test_a_backup_as_of_a_time_has_no_newer_row(group: LocalCluster, tmp_path: Path) -> None:
    backups = tmp_path / "backups"

    async def work() -> tuple[Writers, float]:
        async with writing(group) as writers, Client(group.urls) as store:
            await some_more(writers)
            moment = time.time()
            await some_more(writers)
            as_of = datetime.fromtimestamp(moment, UTC).isoformat()
            await take(store, backups, BackupRequest(as_of=as_of), nothing)
        return writers, moment

    writers, moment = asyncio.run(work())
    kept = kept_in(backups)
    assert parted(kept) == []
    assert max(row.updated_us for row in kept.values()) <= moment * 1e6
    versions = versions_in(kept)
    assert all(
        (link, version) in versions
        for _, answered, link, version in writers.acknowledged
        if answered < moment
    )
    assert any((link, version) not in versions for _, _, link, version in writers.acknowledged)


def test_a_backup_continues_when_a_node_is_killed(group: LocalCluster, tmp_path: Path) -> None:
    backups = tmp_path / "backups"
    killed: list[int] = []

    async def work() -> Manifest:
        def kill(part: BackupFile) -> None:
            killed.append(part.first_slot)
            if len(killed) == 8:
                group.kill(group.nodes[1])

        async with writing(group) as writers, Client(group.urls) as store:
            await some_more(writers)
            slowly = BackupRequest(rows_per_second=4_000)
            return await take(store, backups, slowly, kill)

    taken = asyncio.run(work())
    assert len(killed) > 8
    assert group.nodes[1].process is None
    verify(backups)
    assert kept_in(backups) == asyncio.run(decided([group.nodes[0].url], taken))


def test_a_killed_backup_continues_at_its_cut(group: LocalCluster, tmp_path: Path) -> None:
    backups = tmp_path / "backups"
    slowly = ["backup", "create", str(backups), "--url", ",".join(group.urls)]
    command = [sys.executable, "-m", "docstore", *slowly, "--rows-per-second", "3000"]
    path = unfinished(backups, 1)
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        until(lambda: path.is_dir() and len(list(path.glob("slots-?????-?????"))) > 4)
        process.send_signal(signal.SIGKILL)
    plan = manifest_in(path / "plan.json")
    there = {each.name: each.stat().st_mtime_ns for each in path.glob("slots-?????-?????")}

    async def go_on() -> Manifest:
        async with writing(group) as writers, Client(group.urls) as store:
            await some_more(writers)
            return await take(store, backups, BackupRequest(), nothing)

    taken = asyncio.run(go_on())
    assert taken.with_parts([]) == plan
    assert [each.name for each in backups.iterdir() if each.is_dir()] == ["000001"]
    for name, written in there.items():
        assert (backups / "000001" / name).stat().st_mtime_ns == written
    verify(backups)
    assert kept_in(backups) == asyncio.run(decided(group.urls, taken))


def test_history_is_compacted_except_what_backups_hold(group: LocalCluster, tmp_path: Path) -> None:
    held, loose, late = (tmp_path / name for name in ("held", "loose", "late"))

    async def backed_up(directory: Path, hold_s: float = 0.0) -> Manifest:
        async with writing(group) as writers:
            await some_more(writers, 200)
        async with Client(group.urls) as store:
            return await take(store, directory, BackupRequest(hold_s=hold_s), nothing)

    asyncio.run(nothing_is_held(group))
    asyncio.run(backed_up(loose))
    asyncio.run(backed_up(held, 3_600.0))
    asyncio.run(compacted(group))
    with pytest.raises(BackupFailed, match="was compacted; begin anew in an empty directory"):
        asyncio.run(backed_up(loose))
    taken = asyncio.run(backed_up(held))
    assert verify(held)[-1] == taken
    asyncio.run(backed_up(late))
    chain = manifests_in(late)
    kept = kept_in(late)
    assert any(row.n > 1 and (row.slot, row.n - 1) not in kept for row in kept.values())
    with restored_group(late, tmp_path / "anew", 3, SLOTS) as anew:
        assert asyncio.run(decided(anew.urls, chain[-1])) == kept
        newest: dict[str, int] = {}
        for row in kept.values():
            if row.link.startswith("/moving/"):
                newest[row.link] = max(row.version, newest.get(row.link, 0))
        asyncio.run(goes_on(anew.urls, newest, chain))


async def nothing_is_held(group: LocalCluster) -> None:
    """Delete the holds of earlier backups."""
    async with Client(group.urls) as store:
        for link in [each async for each in store.links("/core/snapshots")]:
            await store.delete(link)


async def compacted(group: LocalCluster) -> None:
    """Return when all nodes have compacted the versions that were replaced before now."""
    asked = {"kind": "CompactRequest", "beforeMicros": time.time_ns() // 1000}
    for node in group.nodes:
        async with Client([node.url]) as store:
            await store.json("PATCH", "/core/management", asked)
            async with asyncio.timeout(90):
                while True:
                    found = (await store.json("GET", "/core/management"))["compaction"]
                    if found["beforeMicros"] == asked["beforeMicros"] and not found["slotsLeft"]:
                        break
                    await asyncio.sleep(0.1)


def test_one_founder_is_restored_and_others_join(group: LocalCluster, tmp_path: Path) -> None:
    backups = tmp_path / "backups"

    async def work() -> Manifest:
        async with Client(group.urls) as store:
            return await take(store, backups, BackupRequest(), nothing)

    taken = asyncio.run(work())
    with restored_group(backups, tmp_path / "anew", 1, SLOTS) as anew:
        for _ in range(2):
            joined = anew.add()
            until(lambda: len(asyncio.run(members(anew.urls))) == len(anew.nodes), 60)
        anew.wait_ready()
        assert asyncio.run(decided([joined.url], taken)) == kept_in(backups)


async def members(urls: list[str]) -> list[Any]:
    async with Client(urls) as store:
        page = await store.json("GET", "/core/node-groups/default")
    configuration = page["configuration"]
    return list(configuration["members"]) if configuration["stage"] == "stable" else []


def test_founders_store_only_their_slots(group: LocalCluster, tmp_path: Path) -> None:
    """The new group of five founders with three replicas each differs from the old one."""
    backups = tmp_path / "backups"

    async def work() -> Manifest:
        async with Client(group.urls) as store:
            return await take(store, backups, BackupRequest(), nothing)

    taken = asyncio.run(work())
    share = ("--replication-factor", "3")
    with restored_group(backups, tmp_path / "anew", 5, SLOTS, *share) as anew:

        async def again() -> Manifest:
            async with Client(anew.urls) as store:
                return await take(store, tmp_path / "again", BackupRequest(), nothing)

        second = asyncio.run(again())
        assert second.group != taken.group
        before, after = kept_in(backups), kept_in(tmp_path / "again")
        assert before.items() <= after.items()
        assert verify(tmp_path / "again")
