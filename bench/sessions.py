"""Leases at a group on this machine: what it costs to keep them, to have them, and to end them.

    python -m bench.sessions [--leases 10000] [--seconds 20] [--nodes 3]

One process holds them all and keeps them alive in batches of 1,000, as `docstore.client` does. The
figure is the processor time of the nodes (for one node, that of the busiest), so that the
load's own does not count.
"""

import argparse
import asyncio
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp

from docstore.client import Client, LocalCluster

LEASES = "/core/leases"
AT_ONCE = 64
BATCH = 1_000
TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


def processor_s(group: LocalCluster) -> dict[str, float]:
    """Return node -> seconds of processor time so far."""
    found = {}
    for node in group.nodes:
        assert node.process is not None
        fields = Path(f"/proc/{node.process.pid}/stat").read_text().rpartition(")")[2].split()
        found[node.name] = (int(fields[11]) + int(fields[12])) / TICKS
    return found


def resident_mb(group: LocalCluster) -> dict[str, float]:
    """Return node -> resident memory."""
    found = {}
    for node in group.nodes:
        assert node.process is not None
        pages = int(Path(f"/proc/{node.process.pid}/statm").read_text().split()[1])
        found[node.name] = pages * PAGE / (1 << 20)
    return found


async def cores(group: LocalCluster, seconds: float, work: Any = None) -> Mapping[str, float]:
    """Return node -> share of a core over `seconds`, while `work` goes on."""
    task = asyncio.ensure_future(work) if work is not None else None
    before, began = processor_s(group), time.monotonic()
    await asyncio.sleep(seconds)
    took = time.monotonic() - began
    after = processor_s(group)
    if task is not None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    return {name: round((after[name] - before[name]) / took, 4) for name in after}


async def grant(client: Client, names: list[str], ttl_ms: int) -> float:
    """Make leases; return how many a second."""
    room, began = asyncio.Semaphore(AT_ONCE), time.monotonic()

    async def one(name: str) -> None:
        async with room:
            await client.json("POST", LEASES, {"ttlMs": ttl_ms, "documentSelfLink": name})

    await asyncio.gather(*map(one, names))
    return len(names) / (time.monotonic() - began)


async def keep_alive(client: Client, names: list[str], every_s: float, late: list[float]) -> None:
    """Keep all leases alive every `every_s`; note how long each batch took."""

    async def batch(first: int) -> None:
        began = time.monotonic()
        asked = {"leases": names[first : first + BATCH]}
        page = await client.json("POST", f"{LEASES}/keep-alive", asked)
        assert len(page["alive"]) == len(asked["leases"]), (page["gone"], len(page["unknown"]))
        late.append(time.monotonic() - began)

    while True:
        began = time.monotonic()
        for first in range(0, len(names), BATCH):
            await batch(first)
        await asyncio.sleep(max(0.0, every_s - (time.monotonic() - began)))


async def figures(client: Client) -> dict[str, float]:
    """Return the sum over nodes of what they count of sessions."""
    found: dict[str, float] = {}
    async with aiohttp.ClientSession() as session:
        for url in client.urls:
            async with session.get(f"{url}/metrics") as answer:
                for line in (await answer.text()).splitlines():
                    if line.startswith("docstore_sessions_"):
                        name, value = line.rsplit(" ", 1)
                        found[name] = found.get(name, 0.0) + float(value)
    return found


async def measure(group: LocalCluster, count: int, seconds: float) -> dict[str, Any]:
    """Return all figures."""
    found: dict[str, Any] = {"leases": count, "nodes": len(group.nodes)}
    async with Client(group.urls) as client:
        found["idle_without_cores"] = await cores(group, seconds / 2)
        before = resident_mb(group)
        names = [f"idle-{number}" for number in range(count)]
        found["granted_per_s"] = round(await grant(client, names, 3_600_000))
        await asyncio.sleep(2.0)
        found["idle_cores"] = await cores(group, seconds / 2)
        after = resident_mb(group)
        found["idle_mb"] = {name: round(after[name] - before[name], 1) for name in after}
        late: list[float] = []
        work = keep_alive(client, names, 2.0, late)  # As for a TTL of 10 s.
        found["kept_cores"] = await cores(group, seconds, work)
        late.sort()
        found["batch_ms"] = {
            "p50": round(late[len(late) // 2] * 1000, 1), "max": round(late[-1] * 1000, 1)
        }  # fmt: skip
        was = await figures(client)
        await grant(client, [f"brief-{number}" for number in range(200)], 1_000)
        await asyncio.sleep(3.0)
        now = await figures(client)
        ended = now["docstore_sessions_expired_total"] - was.get(
            "docstore_sessions_expired_total", 0.0
        )
        lag = "docstore_sessions_expiry_lag_seconds_total"
        found["expired"] = ended
        found["expiry_lag_ms"] = round((now[lag] - was[lag]) / ended * 1000, 1)
    return found


def main() -> None:
    """Start a group, measure, print JSON."""
    parser = argparse.ArgumentParser(prog="python -m bench.sessions", description=__doc__)
    parser.add_argument("--leases", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--nodes", type=int, default=3)
    arguments = parser.parse_args()
    with LocalCluster(arguments.nodes) as group:
        found = asyncio.run(measure(group, arguments.leases, arguments.seconds))
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
