"""Two writers, one document: the one that read an old version gets 412. Nothing is lost."""

import asyncio

from docstore.client import Client, LocalCluster, PreconditionFailed


async def add(store: Client, link: str, amount: int) -> int:
    """Add to a counter with compare-and-set; return how many tries it took."""
    tries = 0
    while True:
        tries += 1
        current = await store.get(link)
        try:
            await store.patch(
                link, {"total": current.value["total"] + amount}, if_match=current.etag
            )
        except PreconditionFailed:
            continue  # Another client has changed it since it was read.
        return tries


async def main(urls: list[str]) -> None:
    """Let twenty additions race through three nodes."""
    clients = [Client([url]) for url in urls]
    for client in clients:
        await client.__aenter__()
    try:
        await clients[0].declare("/counters")
        await clients[0].put("/counters/a", {"total": 0})
        tries = await asyncio.gather(
            *(add(clients[index % 3], "/counters/a", 1) for index in range(20))
        )
        final = await clients[1].get("/counters/a")
        print(f"20 additions in {sum(tries)} tries, total {final.value['total']}")
        assert final.value["total"] == 20
    finally:
        for client in clients:
            await client.__aexit__(None, None, None)


if __name__ == "__main__":
    with LocalCluster(3) as cluster:
        asyncio.run(main(cluster.urls))
