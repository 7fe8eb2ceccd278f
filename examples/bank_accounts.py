"""A service with rules of its own: accounts that are never overdrawn, while their owner is killed.

`Accounts` runs on the nodes: on the owner of each account, for one request after the other.
"""

import asyncio
import os
import random
from pathlib import Path

from docstore.client import Client, Conflict, LocalCluster
from docstore.service import UNCHANGED, Refused, Request, Service, State, Unchanged

MOVES = 200


class Accounts(Service):
    """Deposits and withdrawals come as PATCH; no request sets a balance."""

    path = "/accounts"
    kind = "bank:Account"
    methods = ("POST", "PATCH", "DELETE")

    def on_create(self, body: State, request: Request) -> State:
        return {"owner": body.get("owner", ""), "balance": 0}

    def on_patch(self, state: State, body: State, request: Request) -> State | Unchanged:
        amount = body.get("amount")
        if type(amount) is not int:
            raise Refused(400, "amount is a whole number, below 0 for a withdrawal")
        if state["balance"] + amount < 0:
            raise Refused(409, f"there are only {state['balance']} in it")
        state["balance"] += amount
        return state if amount else UNCHANGED

    def on_delete(self, state: State, request: Request) -> None:
        if state["balance"]:
            raise Refused(409, "an account with money in it is not closed")


async def move(store: Client, link: str, amount: int) -> int:
    """Return the amount that was moved, 0 for a refused withdrawal.

    The client repeats a move that gets no answer under the same key, so it happens once.
    """
    try:
        await store.patch(link, {"amount": amount})
    except Conflict:
        return 0
    return amount


async def main(cluster: LocalCluster) -> None:
    async with Client(cluster.urls) as store:
        made = await store.post("/accounts", {"owner": "ann", "balance": 1_000_000})
        link = made.value["documentSelfLink"]
        rng = random.Random(1)
        amounts = [rng.randrange(1, 100) * rng.choice((1, -1, -1)) for _ in range(MOVES)]
        moves = [asyncio.create_task(move(store, link, amount)) for amount in amounts]
        await asyncio.wait(moves, return_when=asyncio.FIRST_COMPLETED)
        cluster.kill(owner := cluster.owner_of(link))
        moved = await asyncio.gather(*moves)
        account, versions = await store.get(link), await store.history(link)
    refused, balance = moved.count(0), account.value["balance"]
    print(f"{owner.name} was killed; {MOVES - refused} moves, {refused} refused: {balance} is left")
    assert balance == sum(moved)
    assert all(version["balance"] >= 0 for version in versions)


if __name__ == "__main__":
    os.chdir(Path(__file__).parent)  # Where the nodes find this very file.
    with LocalCluster(3, settings=("--service", "bank_accounts:Accounts")) as group:
        asyncio.run(main(group))
