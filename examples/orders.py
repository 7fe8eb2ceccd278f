"""A shop: no item is sold twice, while two of its three nodes are killed, one after the other.

An order asks its item for pieces, by an effect of its commit; the item answers by an effect too. So
an order is decided once, whatever fails in between, and no code here repeats anything.
"""

import asyncio
from collections import Counter

from docstore.client import Client, LocalCluster
from docstore.service import Change, Refused, Request, Service, State

STOCK = {"tea": 100, "cups": 40, "spoons": 5}
ORDERS = 120


class Items(Service):
    """Pieces of an item, which only orders take."""

    path = "/items"
    methods = ("POST", "PATCH")

    def on_create(self, body: State, request: Request) -> State:
        return {"left": body["left"], "decided": 0}

    def on_patch(self, state: State, body: State, request: Request) -> State:
        order, count = body["order"], body["take"]
        is_here = count <= state["left"]
        decision = "reserved" if is_here else "sold out"
        request.after_commit(Change("PATCH", order, {"state": decision}))
        left = state["left"] - count if is_here else state["left"]
        return {"left": left, "decided": state["decided"] + 1}


class Orders(Service):
    """Orders, which are decided by the item that they name."""

    path = "/orders"
    methods = ("POST", "PATCH")

    def on_create(self, body: State, request: Request) -> State:
        item, count = body.get("item"), body.get("count")
        if item not in STOCK or type(count) is not int or count < 1:
            raise Refused(400, f"an order has an item of {sorted(STOCK)} and a count from 1")
        asked = {"take": count, "order": request.link}
        request.after_commit(Change("PATCH", f"/items/{item}", asked))
        return {"item": item, "count": count, "state": "new"}

    def on_patch(self, state: State, body: State, request: Request) -> State:
        if state["state"] != "new":
            raise Refused(409, "this order is decided")
        return state | {"state": body["state"]}


async def order(store: Client) -> None:
    """Place the orders of many customers at once."""
    items = sorted(STOCK)
    placed = ({"item": items[n % 3], "count": 1 + n % 2} for n in range(ORDERS))
    await asyncio.gather(*(store.post("/orders", each) for each in placed))


async def follow(store: Client) -> Counter[tuple[str, str]]:
    """Return (item, state) -> pieces of all orders, once each is decided."""
    pieces, decided = Counter[tuple[str, str]](), set[str]()
    async for change in store.follow("/orders", since="earliest", where="state <> 'new'"):
        assert change.body is not None
        if change.link not in decided:
            pieces[change.body["item"], change.body["state"]] += change.body["count"]
            decided.add(change.link)
        if len(decided) == ORDERS:
            break
    return pieces


async def fail(cluster: LocalCluster, store: Client) -> None:
    """Kill the owner of the tea; start it again, and kill another node."""
    for link in ("/items/tea", "/items/cups"):
        await asyncio.sleep(0.5)
        owner = cluster.owner_of(link)
        cluster.kill(owner)
        print(f"{owner.name}, the owner of {link}, was killed")
        await asyncio.sleep(2)
        cluster.start(owner)
        await asyncio.to_thread(cluster.wait_ready)


async def main(cluster: LocalCluster) -> None:
    async with Client(cluster.urls) as store:
        for item, had in STOCK.items():
            await store.post("/items", {"documentSelfLink": item, "left": had})
        pieces, *_ = await asyncio.gather(follow(store), order(store), fail(cluster, store))
        for item, had in STOCK.items():
            left, reserved = (await store.get(f"/items/{item}"))["left"], pieces[item, "reserved"]
            print(f"{item}: {had} in stock, {reserved} reserved, {left} left")
            assert reserved + left == had


if __name__ == "__main__":
    with LocalCluster(3, services=[Items, Orders]) as group:
        asyncio.run(main(group))
