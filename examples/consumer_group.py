"""Records of a topic, shared by processes that go on where others left.

Run: python examples/consumer_group.py. Three read 300 records side by side, and one
of them leaves in the middle.
"""

import asyncio
from collections import Counter

from docstore.client import Client, LocalCluster

TOPIC, RECORDS = "flights", 300


class Seen(Counter[int]):
    """The records that any member has read, and how often each."""

    def __init__(self) -> None:
        super().__init__()
        self.all = asyncio.Event()

    def add(self, number: int) -> None:
        """Count a record."""
        self[number] += 1
        if len(self) == RECORDS:
            self.all.set()


async def read(client: Client, name: str, seen: Seen, count: int = 0) -> None:
    """Read `count` records; 0 for no end."""
    own = 0
    async with client.group("etl", [TOPIC], commit_s=1.0) as group:
        async for record in group:
            seen.add(record.value)
            own += 1
            if own == count:
                break
    print(f"{name} has read {own} records, and leaves")


async def produce(client: Client, first: int, until: int) -> None:
    """Append numbers."""
    async with client.producer(TOPIC) as producer:
        for number in range(first, until):
            await producer.send(f"k{number}", number)


async def main(urls: list[str]) -> None:
    """Share the records between three."""
    async with Client(urls) as client:
        await client.json("POST", "/core/streams", {"name": TOPIC, "partitions": 6})
        await produce(client, 0, 150)
        seen = Seen()
        reading = [
            asyncio.create_task(read(client, "ann", seen, 20)),
            asyncio.create_task(read(client, "bob", seen)),
            asyncio.create_task(read(client, "cat", seen)),
        ]
        await reading[0]
        await produce(client, 150, RECORDS)
        await seen.all.wait()
        for each in reading[1:]:
            each.cancel()
        await asyncio.gather(*reading, return_exceptions=True)
        print(f"{len(seen)} records, {sum(times > 1 for times in seen.values())} of them twice")


if __name__ == "__main__":
    with LocalCluster(3) as cluster:
        asyncio.run(main(cluster.urls))
