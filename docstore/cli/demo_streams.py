"""The demo's act about streams: real records, a killed leader, nothing lost and nothing twice."""

import asyncio
import csv
import time
from importlib.resources import files
from pathlib import Path
from typing import Any

from rich.console import Console

from docstore.cli.claims import DemoClaims
from docstore.client import Client, LocalCluster

TOPIC = "weather"
PARTITIONS = 3
GAP_S_MAX = 3.0
PACE_S = 0.002
"""Between two records while the leader is killed, so that it dies in the middle."""


async def show(cluster: LocalCluster, out: Console, claims: DemoClaims) -> None:
    """Produce, kill the leader of partition 0, produce on, consume, compare."""
    out.rule("a stream of records, and kill -9 of a leader")
    days = _days()
    async with Client(cluster.urls) as client:
        await client.json(
            "POST", "/core/streams", {"name": TOPIC, "partitions": PARTITIONS, "minInSync": 2}
        )
        out.print(f"POST /core/streams makes {TOPIC}: {PARTITIONS} partitions, 3 replicas each")
        killed, gap_s = await _produce(cluster, client, days)
        out.print(f"{killed}, the leader of partition 0, is killed in the middle")
        read = [record async for record in client.consume(TOPIC, since="beginning", follow=False)]
    claims.check(
        "every record is read once, in order for each key",
        holds=_by_key((record.key, record.value) for record in read)
        == _by_key((day["weather"], day) for day in days),
        seen=f"{len(days)} produced, {len(read)} read",
    )
    claims.check(
        "another replica leads",
        holds=gap_s < GAP_S_MAX,
        seen=f"longest pause {gap_s * 1000:.0f} ms",
    )
    cluster.start(cluster.node(killed))
    await asyncio.to_thread(cluster.wait_ready)


async def _produce(
    cluster: LocalCluster, client: Client, days: list[dict[str, Any]]
) -> tuple[str, float]:
    """Return which node was killed, and the longest time between two acknowledgements."""
    killed, longest_s = "", 0.0
    async with client.producer(TOPIC, id="demo") as producer:
        for number, day in enumerate(days):
            began = time.perf_counter()
            sent = await producer.send(day["weather"], day)
            if number == len(days) // 2:
                page = await client.json("GET", f"/core/streams/{TOPIC}/partitions/0")
                killed = page["leader"]
                cluster.kill(cluster.node(killed))
            if number % 10 == 0:
                await sent
                longest_s = max(longest_s, time.perf_counter() - began)
                await asyncio.sleep(PACE_S)
    return killed, longest_s


def _by_key(pairs: Any) -> dict[Any, list[Any]]:
    found: dict[Any, list[Any]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found


def _days() -> list[dict[str, Any]]:
    """Return four years of weather in Seattle, from the vega_datasets package: a day a record."""
    path = Path(str(files("vega_datasets") / "_data" / "seattle-weather.csv"))
    with path.open(newline="", encoding="utf-8") as lines:
        return list(csv.DictReader(lines))
