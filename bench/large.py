"""`python -m bench.large`: what changes when a million documents are stored.

- PUT with 64 connections, of 3,000 documents and then of all;
- the load itself, in bulk, as long as it takes;
- GETs of documents that their owner has evicted from memory (most of a million are), alone,
  beside 2,000 PUT/s, and beside a bulk load.

The same script measures an older version: PYTHONPATH names the tree whose nodes are started.
Exit codes as of `python -m bench`.
"""

import argparse
import asyncio
import random
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from bench import alone, documents, machine
from bench.bulk import bulk_load
from bench.cluster import Failed, Target
from bench.docstores import Docstores
from bench.load import Load, Wrk

WARM, SAMPLE = 3_000, 30_000
"""Documents that are replaced at first; and of a million, those that one row may ask for."""
PACE_PER_S, PACED, READERS, WRITERS = 2_000, 48, 6, 64
BESIDE_DOCUMENTS = 60_000


class Large(alone.Rows):
    """One cluster, filled step by step, and what was measured on it."""

    def __init__(self, cluster: Docstores, wrk: Wrk, seconds: float) -> None:
        self.cluster, self.wrk, self.seconds = cluster, wrk, seconds
        super().__init__()
        self.links: list[str] = []

    async def load(self, count: int, name: str) -> None:
        """Store `count` new documents in bulk."""
        prefix = name.replace("_", "")
        batches = self.cluster.batches(count, prefix)
        bulk = await bulk_load(self.cluster, batches)
        if bulk.errors:
            raise Failed(f"{bulk.errors} documents of a load were not stored")
        self.links += documents.links(count, prefix)
        self.note(name, asdict(bulk))

    async def put(self, name: str, links: Sequence[str]) -> None:
        """Replace documents as fast as 64 connections can."""
        targets, _ = self._targets(links)
        self.note_load(name, await self._drive(targets, WRITERS))

    async def get(self, name: str) -> None:
        """Read documents of all that are stored, those that are asked for drawn anew."""
        _, targets = self._targets(_sample(name, self.links))
        self.note_load(name, await self._drive(targets, READERS))

    async def get_beside_puts(self, name: str) -> None:
        """Read while others write at a steady pace."""
        puts, _ = self._targets(_sample(f"{name}-puts", self.links))
        writing = asyncio.create_task(
            self._drive(puts, PACED, seconds=self.seconds + 2, per_s=PACE_PER_S)
        )
        await asyncio.sleep(1)
        await self.get(name)
        self.note_load(f"{name}_puts", await writing)

    async def get_beside_bulk(self, name: str) -> None:
        """Read while new documents are stored in bulk, over and over."""
        is_over = asyncio.Event()

        async def store() -> None:
            turn = 0
            while not is_over.is_set():
                turn += 1
                await self.load(BESIDE_DOCUMENTS, f"{name}_bulk{turn}")

        storing = asyncio.create_task(store())
        try:
            await asyncio.sleep(1)
            await self.get(name)
        finally:
            is_over.set()
            await storing

    def _targets(self, links: Sequence[str]) -> tuple[list[Target], list[Target]]:
        return self.cluster.targets(list(links))

    async def _drive(
        self, targets: list[Target], connections: int, *, seconds: float = 0, per_s: float = 0
    ) -> Load:
        return await self.wrk.drive(
            self.cluster, targets,
            connections=connections, seconds=seconds or self.seconds, per_s=per_s,
        )  # fmt: skip


async def measure(large: Large, count: int) -> None:
    cluster = large.cluster
    await large.load(WARM, "few")
    await large.put("put_of_few", large.links)
    await large.load(count, "many")
    large.note("memory", {"mib": max(member.rss_mib() for member in cluster.members)})
    await large.get("get_cold")
    await large.put("put_of_many", _sample("put", large.links))
    await large.get_beside_puts("get_beside_puts")
    await large.get_beside_bulk("get_beside_bulk")


def _sample(seed: str, links: Sequence[str]) -> list[str]:
    return random.Random(seed).sample(links, min(SAMPLE, len(links)))


def arguments() -> argparse.Namespace:
    parser = alone.parser("bench.large", __doc__)
    parser.add_argument("--documents", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=int, default=8, help="per row")
    return parser.parse_args()


async def run(options: argparse.Namespace) -> dict[str, Any]:
    wrk = machine.require("wrk", "wrk")
    with machine.scratch(options.dir) as scratch:
        cluster = Docstores(machine.free_ports(3), scratch / "large", 100, 0)
        async with cluster:
            large = Large(cluster, Wrk(wrk, scratch), options.seconds)
            await measure(large, options.documents)
        return large.figures


if __name__ == "__main__":
    sys.exit(alone.outcome(run, arguments()))
