"""Updates through the client while nodes are killed: each takes effect once, without a loop."""

import asyncio
from itertools import cycle

import pytest

from docstore.client import Client, LocalCluster

UPDATES, BETWEEN_KILLS = 400, 40


@pytest.mark.thorough
async def test_each_update_takes_effect_once_while_nodes_are_killed() -> None:
    with LocalCluster(3, settings=("--slots", "16")) as group:
        async with Client(group.urls) as client:
            await client.declare("/stock")
            for link in ("/stock/a", "/stock/b", "/stock/c"):
                await client.put(link, {"sold": 0})
            victims, sold = cycle(group.nodes), dict[str, int]()
            for sale in range(UPDATES):
                if sale % BETWEEN_KILLS == 0:
                    group.kill(victim := next(victims))
                elif sale % BETWEEN_KILLS == BETWEEN_KILLS // 2:
                    group.start(victim)
                    await asyncio.to_thread(group.wait_ready)
                link = f"/stock/{'abc'[sale % 3]}"
                sold[link] = (await client.patch(link, {"sold": sale})).version
            for link, version in sold.items():
                assert len(await client.history(link)) == version + 1
            assert sum(sold.values()) == UPDATES
