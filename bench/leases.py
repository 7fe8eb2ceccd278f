"""Ten thousand leases kept alive by one process, beside etcd's: what it costs the three members.

All are renewed every two seconds: docstore's a thousand in one request, through one of its nodes;
etcd's at its leader by the stream of its gateway, which takes a message for each. It hears no more
of a request's messages than the first 512 bytes once it has begun to answer, so 25 at a time.
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from bench.cluster import Failed, Processes
from bench.docstores import Docstores
from bench.etcd import Etcd

COUNT, AT_ONCE = 10_000, 64
TTL_S, EVERY_S = 60, 2.0
"""The interval is that of a TTL of ten seconds; the longer TTL lasts until all are granted."""


class Leases(Protocol):
    """Leases of a system, by their numbers."""

    batch: int
    """How many are kept alive by one request."""

    async def grant(self, number: int) -> None:
        """Make one."""

    async def keep(self, numbers: range) -> int:
        """Keep some alive by one request; return how many are."""


@dataclass
class DocstoreLeases:
    """Leases of docstore: made through any node, kept alive through one."""

    nodes: Docstores
    batch: int = 1_000

    async def grant(self, number: int) -> None:
        """By an id of our own."""
        members = self.nodes.members
        url = f"http://{members[number % len(members)].address}/core/leases"
        asked = {"documentSelfLink": f"kept{number}", "ttlMs": TTL_S * 1000}
        await self.nodes.ask("POST", url, json=asked)

    async def keep(self, numbers: range) -> int:
        """All by one request."""
        url = f"http://{self.nodes.members[0].address}/core/leases/keep-alive"
        asked = {"leases": [f"kept{number}" for number in numbers]}
        alive = (await self.nodes.ask("POST", url, json=asked))["alive"]
        assert isinstance(alive, list)
        return len(alive)


@dataclass
class EtcdLeases:
    """Leases of etcd, at its leader."""

    members: Etcd
    batch: int = 25

    async def grant(self, number: int) -> None:
        """By an id of our own; 0 would be none."""
        url = f"http://{self.members.leader}/v3/lease/grant"
        await self.members.ask("POST", url, json={"TTL": TTL_S, "ID": number + 1})

    async def keep(self, numbers: range) -> int:
        """One message for each in one stream; what has ended is answered without a TTL."""
        url = f"http://{self.members.leader}/v3/lease/keepalive"
        asked = "\n".join(json.dumps({"ID": number + 1}) for number in numbers)
        async with self.members.session.post(url, data=asked) as response:
            return (await response.text()).count('"TTL"')


async def measure(leases: Leases, members: Processes, seconds: float) -> Mapping[str, float]:
    """Return shares of a core, of all members together, in percent, and memory of the largest.

    Without any lease, with all at rest, and while all are kept alive. Raises Failed if one ends.
    mib: by which the memory of a member has grown, at the most, once all are there.
    """
    found = {"without": await _share(members.cpu_s, asyncio.sleep(seconds))}
    before = [member.rss_mib() for member in members.members]
    room, began = asyncio.Semaphore(AT_ONCE), time.perf_counter()

    async def grant(number: int) -> None:
        async with room:
            await leases.grant(number)

    await asyncio.gather(*map(grant, range(COUNT)))
    found["granted"] = COUNT / (time.perf_counter() - began)
    await _keep(leases, 0.0)  # The first time of each is not measured.
    found["at_rest"] = await _share(members.cpu_s, asyncio.sleep(seconds))
    after = [member.rss_mib() for member in members.members]
    found["mib"] = max(now - was for was, now in zip(before, after, strict=True))
    found["kept"] = await _share(members.cpu_s, _keep(leases, seconds))
    return found


async def _share(cpu_s: Callable[[], float], work: Awaitable[None]) -> float:
    """Return the share of a core that the members take while something is done, in percent."""
    before, began = cpu_s(), time.perf_counter()
    await work
    return (cpu_s() - before) / (time.perf_counter() - began) * 100


async def _keep(leases: Leases, seconds: float) -> None:
    """Keep all leases alive for `seconds`, and once at least."""
    end = time.perf_counter() + seconds
    while True:
        next_at = time.perf_counter() + EVERY_S
        for first in range(0, COUNT, leases.batch):
            kept = await leases.keep(range(first, first + leases.batch))
            if kept != leases.batch:
                raise Failed(f"{leases.batch - kept} of {leases.batch} leases have ended")
        if seconds:
            await asyncio.sleep(next_at - time.perf_counter())
        if time.perf_counter() >= end:
            return
