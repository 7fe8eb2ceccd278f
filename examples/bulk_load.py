"""Two thousand documents through /core/bulk: a result for each line, in order."""

import asyncio
import time
from typing import Any

from docstore.client import Client, LocalCluster


async def main(urls: list[str]) -> None:
    """Load, count, and look at a line that is wrong."""
    async with Client(urls) as store:
        await store.declare("/orders")
        lines = [
            {"op": "PUT", "link": f"/orders/{number}", "body": {"amount": number}}
            for number in range(2000)
        ]
        started = time.perf_counter()
        results = await store.bulk(lines)
        rate = len(results) / (time.perf_counter() - started)
        print(f"{len(results)} documents, {rate:,.0f}/s, durable on a majority")
        assert {result["status"] for result in results} == {201}
        page = await store.json("GET", "/orders?$count&$limit=1")
        assert page["documentCount"] == 2000
        wrong: list[dict[str, Any]] = [
            {"op": "PUT", "link": "/orders/1", "body": {"amount": -1}, "ifVersion": 7},
            {"op": "PATCH", "link": "/orders/2", "body": {"amount": -2}},
        ]
        for result in await store.bulk(wrong):
            print(f"{result['link']}: {result['status']} {result.get('detail', '')}")


if __name__ == "__main__":
    with LocalCluster(3) as cluster:
        asyncio.run(main(cluster.urls))
