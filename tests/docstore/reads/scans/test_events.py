"""A feed with a condition, against queries at its positions, while nodes are killed."""

import asyncio
from pathlib import Path
from random import Random
from typing import Any

import pytest

from docstore.client import Client, ClientError, LocalCluster, NotFound
from tests.docstore.watching import start_all

SETTINGS = ["--replication-factor", "3", "--slots", "64", "--history-retention-s", "3600"]


@pytest.mark.thorough
async def test_replayed_over_kills_it_is_the_matching_set_at_every_token(tmp_path: Path) -> None:
    """5,000 changes of 200 documents, while each node in turn is killed."""
    with LocalCluster(4, tmp_path, settings=SETTINGS) as group:
        async with Client(group.urls) as store:
            await store.declare("/films")
            await _replay_over_kills(group, store, "/films")


async def _replay_over_kills(group: LocalCluster, store: Client, factory: str) -> None:
    where, rng, unknown = "n > 4", Random(1), 0

    async def write() -> None:
        nonlocal unknown
        for turn in range(125):
            links = rng.sample(range(200), 40)
            changes = (_change(store, f"{factory}/{each}", rng.randrange(10)) for each in links)
            unknown += sum(await asyncio.gather(*changes))
            if turn % 30 == 29:
                node = group.nodes[turn // 30 % len(group.nodes)]
                group.kill(node)
                await asyncio.to_thread(start_all, group)

    writing = asyncio.create_task(write())
    found: dict[str, Any] = {}
    compared = seen = 0
    async for stretch in store.changes(factory, since="earliest", where=where, wait_s=1):
        for change in stretch.changes:
            if change["event"] == "leave":
                found.pop(change["documentSelfLink"], None)
            else:
                found[change["documentSelfLink"]] = change["body"]["n"]
        seen += len(stretch.changes)
        is_last = writing.done() and not stretch.changes
        if is_last or seen // 500 > compared:
            compared += 1
            wanted = [each async for each in store.query(factory, where=where, as_of=stretch.next)]
            assert found == {each["documentSelfLink"]: each["n"] for each in wanted}
        if is_last:
            break
    await writing
    assert compared > 3
    assert unknown < 500, "most updates have an answer"


async def _change(store: Client, link: str, n: int) -> bool:
    """Put or delete a document; return whether the outcome is unknown."""
    try:
        if n == 9:
            await store.delete(link)
        else:
            await store.put(link, {"n": n})
    except NotFound:
        return False
    except ClientError:
        return True
    return False
