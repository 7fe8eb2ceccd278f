"""Real nodes that trim old versions: which go, which stay, and copies filled anew with the rest."""

import asyncio
import json
import random
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from docstore.client import Client, RequestFailed
from docstore.client.local import LocalNode
from docstore.config import database_in
from tests.chaos.arena import Arena
from tests.docstore.watching import metrics, until

PATIENCE_S = 40.0
"""Named snapshots are looked at first, and then one slot a tick."""


@asynccontextmanager
async def forgetful(path: Path, seed: int, **times: float) -> AsyncIterator[tuple[Arena, Client]]:
    """Three nodes that keep old versions for a second, and a client of theirs."""
    arena = Arena(path, 3, 0, random.Random(seed))
    arena.retention_s = times.get("retention_s", 1.0)
    arena.retries_s = times.get("retries_s", arena.retries_s)
    try:
        await arena.start()
        async with Client(arena.cluster.urls) as store:
            await store.declare("/notes")
            yield arena, store
    finally:
        await arena.stop()


@pytest.mark.thorough
async def test_old_versions_go_and_the_newest_stay(tmp_path: Path) -> None:
    async with forgetful(tmp_path, 1) as (arena, store):
        for turn in range(5):
            for number in range(20):
                await store.put(f"/notes/{number}", {"turn": turn})
        await store.delete("/notes/0")
        for node in arena.members:
            await asyncio.to_thread(until, lambda node=node: trimmed(node) >= 101, PATIENCE_S)
        assert (await store.get("/notes/7")).value["turn"] == 4
        assert [each["documentVersion"] for each in await store.history("/notes/7")] == [4]
        # A deletion is a version too: the link is not free, and its numbers go on.
        assert (await store.put("/notes/0", {"turn": 9})).version == 6
        # A new disk is filled with what is left, and counts.
        await arena.replace_disk(arena.members[0])
        await arena.recover()
        await arena.kill(arena.members[1])
        for number in range(1, 20):
            document = await store.get(f"/notes/{number}")
            assert (document.version, document.value["turn"]) == (4, 4)


def rows_of(node: LocalNode, link: str) -> int:
    """Return how many versions of a document a node's file has."""
    with sqlite3.connect(f"file:{database_in(node.data)}?mode=ro", uri=True) as file:
        (count,) = file.execute("SELECT count(*) FROM history WHERE link = ?", (link,)).fetchone()
    return int(count)


async def versions(store: Client, link: str) -> list[int]:
    return [each["documentVersion"] for each in await store.history(link)]


async def another_count_is_in_force_at_once(store: Client) -> None:
    await store.declare("/changed")
    for turn in range(6):
        await store.put("/changed/a", {"turn": turn})
    for retention, shown in (
        ({"versions": 4}, [5, 4, 3, 2]), ({"versions": 1}, [5]), ({"versions": 2}, [5, 4]),
    ):  # fmt: skip
        page = await store.json("PATCH", "/core/factories/changed", {"retention": retention})
        assert page["retention"] == retention
        assert await versions(store, "/changed/a") == shown


@pytest.mark.thorough
async def test_a_factory_keeps_and_shows_as_many_versions_as_it_says(tmp_path: Path) -> None:
    # Longer than it takes until all nodes know of the declaration.
    async with forgetful(tmp_path, 7, retention_s=8.0) as (arena, store):
        await another_count_is_in_force_at_once(store)
        await store.declare("/counted", retention={"versions": 3})
        for turn in range(10):
            if turn == 6:
                then = datetime.now(UTC).isoformat().replace("+", "%2B")
            for link in ("/counted/a", "/notes/a"):
                await store.put(link, {"turn": turn})
        # Three are shown at once, whether or not the others are trimmed yet.
        assert await versions(store, "/counted/a") == [9, 8, 7]
        assert (await store.get("/counted/a", version=7)).value["turn"] == 7
        for consistency in ("linearizable", "stale"):
            for query in ("documentVersion=6", f"at={then}"):
                with pytest.raises(RequestFailed) as refused:
                    await store.request(
                        "GET", f"/counted/a?{query}", headers={"Docstore-Consistency": consistency}
                    )
                assert (refused.value.status, refused.value.code) == (410, "version-trimmed")
                assert "version 7 is the earliest" in refused.value.problem["detail"]
        # On every disk three stay, and of other factories the newest.
        for node in arena.members:
            for link, left in (("/counted/a", 3), ("/notes/a", 1)):
                await asyncio.to_thread(
                    until, lambda n=node, k=link, c=left: rows_of(n, k) == c, PATIENCE_S
                )
        # A replica that is filled anew has them as well.
        await arena.replace_disk(arena.members[0])
        await arena.recover()
        await arena.kill(arena.members[1])
        assert await versions(store, "/counted/a") == [9, 8, 7]
        assert await versions(store, "/notes/a") == [9]


async def kinds(store: Client) -> int:
    """Return how many different digests the nodes have."""
    page = await store.json("GET", "/core/management/digests")
    return len({json.dumps(each, sort_keys=True) for each in page.values()})


def purged(node: object) -> float:
    return metrics(node).get("docstore_protocol_purged_total", 0.0)  # type: ignore[arg-type]


def trimmed(node: object) -> float:
    return metrics(node).get("docstore_protocol_trimmed_total", 0.0)  # type: ignore[arg-type]


@pytest.mark.thorough
async def test_old_tombstones_go_and_numbers_go_on(tmp_path: Path) -> None:
    async with forgetful(tmp_path, 3, retries_s=1.0) as (arena, store):
        for number in range(30):
            await store.put(f"/notes/{number}", {"turn": 0})
            await store.put(f"/notes/{number}", {"turn": 1})
            await store.delete(f"/notes/{number}")
        for number in range(200):  # The last row of a log always stays.
            await store.put(f"/notes/x{number}", {})
        for node in arena.members:
            await asyncio.to_thread(until, lambda node=node: purged(node) >= 30, PATIENCE_S)
        for number in range(30):
            with pytest.raises(RequestFailed) as gone:
                await store.get(f"/notes/{number}")
            assert gone.value.status == 404
            # It was 2 when it was deleted, and no number is given twice.
            assert (await store.put(f"/notes/{number}", {"turn": 9})).version >= 3
        async with asyncio.timeout(PATIENCE_S):
            while await kinds(store) > 1:
                await asyncio.sleep(0.1)
        # A replica that is filled anew learns the floor as well.
        await store.delete("/notes/0")
        last = (await store.put("/notes/0", {})).version
        await arena.replace_disk(arena.members[0])
        await arena.recover()
        await arena.kill(arena.members[1])
        assert (await store.put("/notes/0", {})).version == last + 1


@pytest.mark.thorough
async def test_a_new_disk_is_filled_when_nothing_but_tombstones_is_left(tmp_path: Path) -> None:
    async with forgetful(tmp_path, 5, retries_s=1.0) as (arena, store):
        for number in range(100):
            await store.put(f"/notes/{number}", {})
            await store.delete(f"/notes/{number}")
        for node in arena.members:
            await asyncio.to_thread(until, lambda node=node: trimmed(node) >= 200, PATIENCE_S)
            await asyncio.to_thread(until, lambda node=node: purged(node) >= 50, PATIENCE_S)
        await arena.replace_disk(arena.members[0])
        await arena.recover()
        await arena.kill(arena.members[1])
        assert (await store.put("/notes/7", {})).version >= 2


@pytest.mark.thorough
async def test_a_trimmed_version_is_gone_and_a_restart_finds_the_rest(
    tmp_path: Path,
) -> None:
    async with forgetful(tmp_path, 4) as (arena, store):
        for turn in range(30):
            await store.put("/notes/a", {"turn": turn})
        await store.put("/notes/b", {})
        for node in arena.members:
            await asyncio.to_thread(until, lambda node=node: trimmed(node) >= 29, PATIENCE_S)
        assert (await store.get("/notes/a", version=29)).value["turn"] == 29
        for link, version, status in (
            ("/notes/a", 2, 410), ("/notes/a", 31, 404), ("/notes/b", 7, 404),
            ("/notes/none", 0, 404),
        ):  # fmt: skip
            with pytest.raises(RequestFailed) as refused:
                await store.get(link, version=version)
            assert refused.value.status == status, (link, version)
        with pytest.raises(RequestFailed) as refused:
            await store.get("/notes/a", at="2020-01-01T00:00:00Z")
        assert refused.value.status == 410
        stale = {"Docstore-Consistency": "stale"}
        with pytest.raises(RequestFailed) as refused:
            await store.request("GET", "/notes/a?documentVersion=2", headers=stale)
        assert refused.value.status == 410
        for node in arena.members:
            await arena.kill(node)
        for node in arena.members:
            arena.start_node(node)
        await arena.recover()
        document = await store.get("/notes/a")
        assert (document.version, document.value["turn"]) == (29, 29)
        assert (await store.put("/notes/a", {"turn": 30})).version == 30
        async with asyncio.timeout(PATIENCE_S):
            while await kinds(store) > 1:
                await asyncio.sleep(0.1)


@pytest.mark.thorough
async def test_a_named_snapshot_is_kept_until_it_is_deleted(tmp_path: Path) -> None:
    arena = Arena(tmp_path, 3, 0, random.Random(6))
    arena.retention_s = 5.0
    try:
        await arena.start()
        async with Client(arena.cluster.urls) as store:
            await store.declare("/notes")
            for turn in range(3):
                await store.bulk(
                    [{"link": f"/notes/{n}", "body": {"turn": turn}} for n in range(20)]
                )
            cut = (await store.json("GET", "/core/spark/plan"))["cut"]
            await store.put("/core/snapshots/third", {"cut": cut})
            await store.bulk([{"link": f"/notes/{n}", "body": {"turn": 9}} for n in range(20)])
            # Versions before the snapshot's go, and later ones wait.
            for node in arena.members:
                await asyncio.to_thread(until, lambda node=node: trimmed(node) >= 40, PATIENCE_S)
            assert await turns(store, "third") == {2}
            await store.delete("/core/snapshots/third")
            async with asyncio.timeout(40):
                while await turns(store, cut) is not None:
                    await asyncio.sleep(0.1)
            assert await turns(store, "latest") == {9}
    finally:
        await arena.stop()


async def turns(store: Client, as_of: str) -> set[int] | None:
    """Return the turns of the notes in a snapshot, None if it is gone."""
    plan = await store.json("GET", f"/core/spark/plan?asOf={as_of}")
    asked = {
        "prefix": "/notes/", "cut": list(enumerate(plan["ends"])), "columns": ["body"],
    }  # fmt: skip
    raw, kind = json.dumps(asked).encode(), {"Content-Type": "application/json"}
    try:
        _, _, content = await store.request("POST", "/core/spark/scan", raw, kind)
    except RequestFailed as error:
        if error.problem.get("errorCode") != "snapshot-gone":
            raise
        return None
    *rows, ending = map(json.loads, content.splitlines())
    assert ending == {"complete": True, "rows": 20}
    return {row["body"]["turn"] for row in rows}
