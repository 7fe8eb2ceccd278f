"""Share the publishing of prices between processes that come and go, by non-exclusive roles.

Run: python examples/prices.py. Each of 12 currency pairs always has a publisher, and for a moment
two when one takes over from another: a price that is published twice does no harm.
"""

import asyncio
from collections import Counter

from docstore.client import Client, LocalCluster

PAIRS = [f"{a}{b}" for a in ("EUR", "USD", "GBP", "CHF") for b in ("JPY", "SEK", "NOK")]


class Publisher:
    """One process that publishes what it leads."""

    def __init__(self, client: Client, name: str) -> None:
        self.name = name
        self.role = client.role("prices", roles=60, mode="nonExclusive", session_s=2.0)

    def leads(self) -> list[str]:
        """Return the pairs that are this one's to publish, at this moment."""
        return [pair for pair in PAIRS if self.role.leads_key(pair)]


async def shared(publishers: list[Publisher]) -> dict[str, int]:
    """Return how many pairs each publishes, once all do and each pair has one publisher."""
    while True:
        loads = {each.name: len(each.leads()) for each in publishers}
        leaders = Counter(pair for each in publishers for pair in each.leads())
        if min(loads.values()) and leaders == dict.fromkeys(PAIRS, 1):
            return loads
        await asyncio.sleep(0.02)


async def main(urls: list[str]) -> None:
    """Let three publishers share the pairs, and one of them leave."""
    async with Client(urls) as client:
        ann, bob, cat = (Publisher(client, name) for name in ("ann", "bob", "cat"))
        async with ann.role, cat.role:
            async with bob.role:
                print(f"three publishers: {await shared([ann, bob, cat])}")
            print(f"bob has left: {await shared([ann, cat])}")


if __name__ == "__main__":
    with LocalCluster(3) as cluster:
        asyncio.run(main(cluster.urls))
