"""Real nodes whose links are cut, each by its own proxy."""

import asyncio
import random
import time
from pathlib import Path

import aiohttp
import pytest

from docstore.client import Client
from tests.chaos.arena import Arena
from tests.docstore.watching import page_of


async def test_who_cannot_reach_an_owner_says_so_and_another_node_can(tmp_path: Path) -> None:
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
                break  # And it stays so: nobody is to be given the slot back.
        # The first still hears the second: it knows who owns, and cannot speak to it.
        arena.cut([(first, second)], gossip=False)
        async with aiohttp.ClientSession() as session:
            for _ in range(3):
                begun = time.monotonic()
                async with session.put(first.url + link, json={"a": 1}) as answer:
                    refusal = await answer.json()
                if answer.status != 504:  # What left before the first noticed the cut is in doubt.
                    break
            assert answer.status == 503
            assert refusal["type"].endswith("/owner-unreachable")
            assert refusal["outcome"] == "not_applied"
            # Long before the deadline of ten seconds, so that another node can be asked.
            assert time.monotonic() - begun < 5.0
        async with Client([first.url, third.url]) as store:
            assert (await store.put(link, {"a": 1})).version == 0
        arena.mend()
        await arena.recover()
        async with Client([first.url]) as store:
            assert (await store.get(link)).value["a"] == 1
    finally:
        await arena.stop()


@pytest.mark.thorough
async def test_a_link_that_stands_half_open_is_dialled_anew(tmp_path: Path) -> None:
    arena = Arena(tmp_path, 3, 0, random.Random(2))
    try:
        await arena.start()
        first, second, third = arena.members
        async with Client([third.url]) as store:
            await store.declare("/notes")
            for link in (arena.link(first, second), arena.link(first, third)):
                link.frozen = True
            # The second and third go on without the first, whatever it owned.
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
