"""One job in the whole cluster: an exclusive role, and a fence for what it writes.

Run: python examples/single_job.py. The process that has the job stops in the middle of a write and
loses the role; its write arrives when another one has the job, and is refused.
"""

import asyncio

from docstore.client import Client, Conflict, LocalCluster

LINK = "/reports/today"


async def main(urls: list[str]) -> None:
    """Let one have the job, stand still, and be succeeded."""
    async with Client(urls) as client, Client(urls) as other:
        await client.declare("/reports")
        async with client.role("reports", session_s=1.0) as first:
            fence = await first.led(0)
            await client.put(LINK, {"by": "the first"}, fence=fence)
            print(f"the first has the job, under {fence}")
            async with other.role("reports", session_s=1.0) as second:
                client.urls = ["http://127.0.0.1:9"]  # It is cut off.
                later = await second.led(0)
                assert not first.leads(0)
                print(f"it was not heard for a second: the next one, under {later}")
                await other.put(LINK, {"by": "the second"}, fence=later)
                client.urls = urls  # Its write of before arrives.
                answer = ""
                try:
                    await client.put(LINK, {"by": "the first, late"}, fence=fence)
                except Conflict as refused:
                    answer = f"{refused.status} {refused.code}"
                print(f"the late write of the first: {answer}")
                assert answer == "409 fenced"
                found = await other.get(LINK)
                print(f"the report is by {found.value['by']}")
                assert found.value["by"] == "the second"


if __name__ == "__main__":
    with LocalCluster(3) as cluster:
        asyncio.run(main(cluster.urls))
