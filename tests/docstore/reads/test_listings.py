"""Listings and counts of real nodes with slow links or dead peers."""

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from docstore.client import Client
from tests.chaos.arena import Arena
from tests.docstore.watching import metrics

STABLE = [f"/f/z{number:03}" for number in range(300)]
HELD_S = 0.4


@pytest_asyncio.fixture
async def arena(tmp_path: Path) -> AsyncIterator[Arena]:
    """Three nodes and one slot, with 300 documents in it."""
    arena = Arena(tmp_path, 3, 0, random.Random(1), slots="1")
    try:
        await arena.start()
        async with Client([arena.members[0].url]) as store:
            await store.declare("/f")
            await asyncio.gather(*(store.put(link, {"n": 1}) for link in STABLE))
        yield arena
    finally:
        await arena.stop()


async def asked(url: str, path: str) -> tuple[int, dict[str, Any]]:
    async with aiohttp.ClientSession() as session, session.get(url + path) as answer:
        return answer.status, dict(await answer.json())


async def walked(url: str, path: str) -> list[str]:
    """Return the links of all pages, in their order."""
    links: list[str] = []
    while path:
        status, page = await asked(url, path)
        assert status == 200, page
        links += page["documentLinks"]
        path = page.get("nextPageLink", "")
    return links


@pytest.mark.thorough
async def test_undecided_documents_take_no_place_in_a_page(arena: Arena) -> None:
    owner = await asyncio.to_thread(arena.cluster.owner_of, STABLE[0])
    proposed = metrics(owner)["docstore_protocol_proposed_total"]
    for other in arena.members:
        if other is not owner:
            arena.link(owner, other).delay_s = HELD_S
    async with Client([owner.url]) as store:
        births = [
            asyncio.ensure_future(store.put(f"/f/a{number:02}", {"n": 1})) for number in range(30)
        ]
        deaths = [asyncio.ensure_future(store.delete(link)) for link in STABLE[100:105]]
        while metrics(owner)["docstore_protocol_proposed_total"] < proposed + 35:
            await asyncio.sleep(0.01)
        _, page = await asked(owner.url, "/f?$limit=20&$count=true")
        assert len(page["documentLinks"]) == 20
        assert "nextPageLink" in page
        links = await walked(owner.url, "/f?$limit=150&after=/f/b")
        assert not [link for link in STABLE[:100] + STABLE[105:] if links.count(link) != 1]
        await asyncio.gather(*births, *deaths)
        for link in (arena.link(owner, other) for other in arena.members if other is not owner):
            link.clear()
    page = (await asked(owner.url, "/f?$count=true&$limit=1"))[1]
    assert page["documentCount"] == 325
    assert (await asked(owner.url, page["nextPageLink"]))[1]["documentCount"] == 325


async def test_without_a_majority_listings_and_counts_are_refused(arena: Arena) -> None:
    survivor, *others = arena.members
    for other in others:
        await arena.kill(other)
    for path in ("/f?$limit=20", "/f?$limit=20&$count=true", "/f?$limit=20&expand"):
        status, page = await asked(survivor.url, path)
        assert status == 503
        assert page["type"].endswith("/no-quorum")
