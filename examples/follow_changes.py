"""Stock levels kept up to date by following changes, while the node that is followed dies."""

import asyncio
from collections import Counter
from collections.abc import Iterable

from docstore.client import Client, LocalCluster

ORDERS = 60
SHELVES = ("apples", "bread", "coffee")


async def order(store: Client) -> None:
    """Place orders; every fifth is cancelled."""
    for number in range(ORDERS):
        link = f"/orders/{number}"
        placed = {"shelf": SHELVES[number % 3], "count": 1 + number % 4}
        await store.put(link, placed)
        if number % 5 == 0:
            await store.delete(link)


async def follow(store: Client, cluster: LocalCluster) -> Counter[str]:
    """Return how much of each shelf is ordered, once every order has been seen."""
    placed: dict[str, tuple[str, int]] = {}
    cancelled: set[str] = set()
    async for change in store.follow("/orders", since="earliest"):
        if change.body is None:
            placed.pop(change.link)
            cancelled.add(change.link)
        else:
            placed[change.link] = (change.body["shelf"], change.body["count"])
        if len(placed) >= ORDERS // 3 and cluster.nodes[0].process is not None:
            print(f"{len(placed)} orders seen; the node that is followed is killed")
            cluster.kill(cluster.nodes[0])
        if len(placed) + len(cancelled) == ORDERS and len(cancelled) == ORDERS // 5:
            break
    return counted(placed.values())


def counted(orders: Iterable[tuple[str, int]]) -> Counter[str]:
    """Return shelf -> how much is ordered of it."""
    levels: Counter[str] = Counter()
    for shelf, count in orders:
        levels[shelf] += count
    return levels


async def main(cluster: LocalCluster) -> None:
    """Order through two nodes and follow from the third, until it is gone."""
    others = [node.url for node in cluster.nodes[1:]]
    async with Client(others) as orders, Client(cluster.urls) as follower:
        await orders.declare("/orders")
        _, followed = await asyncio.gather(order(orders), follow(follower, cluster))
        stored = counted([(each["shelf"], each["count"]) async for each in orders.ls("/orders")])
        print(f"followed: {dict(followed)}, stored: {dict(stored)}")
        assert followed == stored


if __name__ == "__main__":
    with LocalCluster(3) as group:
        asyncio.run(main(group))
