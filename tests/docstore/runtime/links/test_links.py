"""Real nodes whose links are cut, each by its own proxy."""

import asyncio
import random
import time
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from docstore.client import Client
from tests.chaos.arena import Arena
from tests.docstore.watching import page_of


@pytest.mark.thorough
async def test_a_node_reaches_an_owner_through_another_node_or_refuses(
    tmp_path: Path,
) -> None:
    arena = Arena(tmp_path, 3, 0, random.Random(1))
    try:
        await arena.start()
        first, second, third = arena.members
        async with Client([third.url]) as store:
            await store.declare("/notes")
        async with Client([first.url]) as store:
            await store.put("/notes/known", {"a": 1})  # By now the first knows the factory.
        link = ""
        for number in range(100):
            link = f"/notes/{number}"
            page = await asyncio.to_thread(page_of, f"{third.url}{link}/explain")
            if page["owner"] == page["preferredOwner"] == second.name:
                break  # The owner is the preferred one, so the slot stays.
        async with aiohttp.ClientSession() as session:

            async def put() -> tuple[int, Any, float]:
                begun = time.monotonic()
                async with session.put(first.url + link, json={"a": 1}) as answer:
                    return answer.status, await answer.json(), time.monotonic() - begun

            # Messages from the first to the second are lost, but not those to the first.
            arena.link(first, second).frozen = True
            for _ in range(3):
                status, page, took_s = await put()
                assert status in (200, 201), page
                assert took_s < 5.0  # Long before the deadline of ten seconds.
            page = await asyncio.to_thread(page_of, f"{first.url}/core/management")
            assert page["peerLinks"]["detours"] >= 1
            # No other node can relay for the first: it refuses with that reason.
            arena.cut([(first, second), (first, third)], gossip=False)
            for _ in range(3):
                status, page, took_s = await put()
                if status != 504:  # Updates sent before the first noticed the cut are in doubt.
                    break
            assert (status, page["outcome"]) == (503, "not_applied")
            assert page["type"].endswith("/owner-unreachable")
            assert took_s < 5.0  # In time to ask another node.
        async with Client([first.url, third.url]) as store:
            assert (await store.put(link, {"a": 2})).version >= 1
        arena.mend()
        await arena.recover()
        async with Client([first.url]) as store:
            assert (await store.get(link)).value["a"] == 2
    finally:
        await arena.stop()


@pytest.mark.thorough
async def test_a_half_open_link_is_dialled_anew(tmp_path: Path) -> None:
    arena = Arena(tmp_path, 3, 0, random.Random(2))
    try:
        await arena.start()
        first, second, third = arena.members
        async with Client([third.url]) as store:
            await store.declare("/notes")
            for link in (arena.link(first, second), arena.link(first, third)):
                link.frozen = True
            # The second and third serve all slots without the first.
            for number in range(30):
                assert (await store.put(f"/notes/{number}", {"a": 1})).version == 0

            def noticed() -> bool:
                pages = [page_of(f"{node.url}/core/management") for node in (second, third)]
                return all(page["peerLinks"].get("links_silent", 0) >= 1 for page in pages)

            await arena.wait(noticed, "the silent links are closed")
            arena.mend()
            await arena.recover()
    finally:
        await arena.stop()
