"""The owner of a document is killed: another node takes over, and nothing acknowledged is lost."""

import asyncio
import time

from docstore.client import Client, LocalCluster


async def main(cluster: LocalCluster) -> None:
    """Write, kill, write on."""
    async with Client(cluster.urls) as store:
        await store.declare("/notes")
        before = await store.put("/notes/a", {"text": "before"})
        owner = cluster.owner_of("/notes/a")
        print(f"{owner.name} owns /notes/a at v{before.version}")
        cluster.kill(owner)
        others = [node.url for node in cluster.nodes if node is not owner]
        started = time.perf_counter()
        async with Client(others) as survivors:
            after = await survivors.put("/notes/a", {"text": "after"})
            gap_ms = (time.perf_counter() - started) * 1000
            heir = after.value["documentOwner"]
            print(f"{heir} took over: v{after.version} was accepted {gap_ms:.0f} ms after the kill")
            assert after.version == before.version + 1
            assert heir != owner.name
            assert (await survivors.get("/notes/a", version=0)).value["text"] == "before"


if __name__ == "__main__":
    with LocalCluster(3) as group:
        asyncio.run(main(group))
