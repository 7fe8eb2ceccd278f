"""Bulk load: streams of prepared batches, each stream one request at a time.

The bytes are made before the clock starts and answers are only counted, so that the loader
takes little of the processors that it shares with the cluster.
"""

import asyncio
import time
from dataclasses import dataclass

from bench.cluster import Batch, Cluster


@dataclass(frozen=True)
class Bulk:
    """Documents per second of the clock and per second of the servers' processor time."""

    rate: float
    rate_per_core_s: float
    documents: int
    errors: int


async def bulk_load(cluster: Cluster, streams: list[list[Batch]]) -> Bulk:
    """Create the documents of all `streams` side by side; what was not stored is an error."""
    cpu_s, before = cluster.cpu_s(), time.perf_counter()
    stored = sum(await asyncio.gather(*(_stream(cluster, batches) for batches in streams)))
    took_s, cpu_s = time.perf_counter() - before, cluster.cpu_s() - cpu_s
    wanted = sum(batch.documents for batches in streams for batch in batches)
    return Bulk(
        rate=stored / took_s,
        rate_per_core_s=stored / cpu_s if cpu_s else 0.0,
        documents=stored,
        errors=wanted - stored,
    )


async def _stream(cluster: Cluster, batches: list[Batch]) -> int:
    stored = 0
    for batch in batches:
        async with cluster.session.post(
            batch.url, data=batch.payload, headers={"Content-Type": batch.media}
        ) as response:
            answer = await response.read()
            if 200 <= response.status < 300:
                stored += cluster.accepted(batch, answer)
    return stored
