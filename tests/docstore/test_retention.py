"""Real nodes that let go of old versions: what goes, what stays, who is filled with the rest."""

import asyncio
import json
import random
from pathlib import Path

from docstore.client import Client
from tests.chaos.arena import Arena
from tests.docstore.test_node import metrics, until


async def test_old_versions_go_and_the_newest_stay(tmp_path: Path) -> None:
    arena = Arena(tmp_path, 3, 0, random.Random(1))
    arena.retention_s = 1.0
    try:
        await arena.start()
        async with Client(arena.cluster.urls) as store:
            await store.declare("/notes")
            for turn in range(5):
                for number in range(20):
                    await store.put(f"/notes/{number}", {"turn": turn})
            await store.delete("/notes/0")
            for node in arena.members:
                await asyncio.to_thread(until, lambda node=node: trimmed(node) >= 80)
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
    finally:
        await arena.stop()


def trimmed(node: object) -> float:
    return metrics(node).get("docstore_protocol_trimmed_total", 0.0)  # type: ignore[arg-type]


async def test_a_restart_finds_what_was_kept(tmp_path: Path) -> None:
    arena = Arena(tmp_path, 3, 0, random.Random(2))
    arena.retention_s = 1.0
    try:
        await arena.start()
        async with Client(arena.cluster.urls) as store:
            await store.declare("/notes")
            for turn in range(30):
                await store.put("/notes/a", {"turn": turn})
            for node in arena.members:
                await asyncio.to_thread(until, lambda node=node: trimmed(node) >= 25)
            for node in arena.members:
                await arena.kill(node)
            for node in arena.members:
                arena.start_node(node)
            await arena.recover()
            document = await store.get("/notes/a")
            assert (document.version, document.value["turn"]) == (29, 29)
            assert (await store.put("/notes/a", {"turn": 30})).version == 30
            page = await store.json("GET", "/core/management/digests")
            assert len({json.dumps(each, sort_keys=True) for each in page.values()}) == 1
    finally:
        await arena.stop()
