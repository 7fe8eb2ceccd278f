"""A first look: three nodes, one document, its versions. Run: python examples/quickstart.py."""

import asyncio

from docstore.client import Client, LocalCluster


async def main(urls: list[str]) -> None:
    """Write, change, read and look back."""
    async with Client(urls) as store:
        await store.declare("/notes")
        created = await store.put("/notes/a", {"text": "first"})
        print(f"created  v{created.version} {created.etag} on {created.value['documentOwner']}")
        changed = await store.patch("/notes/a", {"tags": ["new"]})
        print(f"changed  v{changed.version}: {changed.value['text']!r}, {changed.value['tags']}")
        past = await store.get("/notes/a", version=0)
        print(f"the past v{past.version}: {past.value['text']!r}, no tags")
        assert "tags" not in past.value
        versions = [each["documentVersion"] for each in await store.history("/notes/a")]
        print(f"history  {versions}")
        assert versions == [1, 0]


if __name__ == "__main__":
    with LocalCluster(3) as cluster:
        asyncio.run(main(cluster.urls))
