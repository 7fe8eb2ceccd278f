"""A weaker level: two nodes that cannot see each other both write, and nothing disappears.

    python examples/both_sides_write.py

Level 1 asks for no majority. Every replica keeps what was written on both sides: it shows one
branch and lists the other, until a client merges them.
"""

import asyncio

from docstore.client import Client, ClientError, LocalCluster

ANYWHERE = ["PERSISTENCE", "REPLICATION"]


async def main() -> None:
    """Write a shopping cart on two nodes that are never up together, and merge it."""
    with LocalCluster(3) as cluster:
        ann, bob, _ = cluster.nodes
        async with Client(cluster.urls) as store:
            await store.declare("/carts", options=ANYWHERE)
            await store.put("/carts/1", {"items": ["tea"]})
        await known_on(cluster)

        for node in cluster.nodes:
            cluster.kill(node)
        for alone, item in ((ann, "bread"), (bob, "cheese")):
            cluster.start(alone)
            async with Client([alone.url]) as store:
                await reachable(store)
                await store.put("/carts/1", {"items": ["tea", item]})
            print(f"{alone.name}, all alone, took {item}")
            cluster.kill(alone)

        for node in cluster.nodes:
            cluster.start(node)
        cluster.wait_ready()
        async with Client(cluster.urls) as store:
            lost: list[dict[str, list[str]]] = []
            while not lost:  # Until the two have heard of each other.
                lost = (await store.json("GET", "/carts/1/conflicts"))["conflicts"]
                await asyncio.sleep(0.1)
            shown = (await store.get("/carts/1")).value
            print(f"shown: {shown['items']}, kept beside it: {lost[0]['items']}")
            items = sorted({*shown["items"], *lost[0]["items"]})
            await store.put("/carts/1", {"items": items})
            await store.json("DELETE", "/carts/1/conflicts")
            print(f"put together: {(await store.get('/carts/1')).value['items']}")


async def known_on(cluster: LocalCluster) -> None:
    """Return when each node has the cart on its own disk."""
    for node in cluster.nodes:
        async with Client([node.url]) as store:
            await reachable(store)


async def reachable(store: Client) -> None:
    """Return when a node shows the cart; one that was just started may take a moment."""
    while True:
        try:
            await store.get("/carts/1")
        except ClientError:
            await asyncio.sleep(0.1)
        else:
            return


if __name__ == "__main__":
    asyncio.run(main())
