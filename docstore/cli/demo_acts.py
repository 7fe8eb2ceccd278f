"""The demo's acts about streams and about ownership, and the claims that all acts check."""

import asyncio
import csv
import os
import signal
import sys
import time
from asyncio.subprocess import PIPE, Process
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from docstore.client import Client, LocalCluster, RequestFailed

TOPIC = "weather"
PARTITIONS = 3
PAUSE_S_MAX = 3.0
PACE_S = 0.002
"""Seconds between two records, so that the leader dies in the middle of them."""

LOCK = "nightly-report"
FACTORY, REPORT = "/reports", "/reports/today"
TTL_S = 1.5
SUCCESSION_S_MAX = TTL_S + 3.0
HOLDER = "import os, time; print(os.environ['DOCSTORE_FENCE'], flush=True); time.sleep(600)"
"""Program to run under `docstore lock`: it prints its fence, then works for ten minutes."""


@dataclass(slots=True)
class DemoClaims:
    """The claims of the demo, each with whether it held and the evidence."""

    rows: list[tuple[str, bool, str]] = field(default_factory=list)

    def check(self, claim: str, holds: bool, seen: str) -> None:
        self.rows.append((claim, holds, seen))

    @property
    def hold(self) -> bool:
        return all(holds for _, holds, _ in self.rows)

    def page(self) -> dict[str, Any]:
        """Return the claims as `--json` prints them."""
        rows = [{"claim": what, "holds": holds, "seen": seen} for what, holds, seen in self.rows]
        return {"holds": self.hold, "claims": rows}

    def table(self) -> Table:
        table = Table("", "claim", "seen", title="claims")
        for claim, holds, seen in self.rows:
            table.add_row("[green]✓[/]" if holds else "[red]✗[/]", claim, seen)
        return table


async def show_streams(cluster: LocalCluster, out: Console, claims: DemoClaims) -> None:
    """Kill the leader of partition 0 while records are produced; consume and compare them."""
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
        holds=gap_s < PAUSE_S_MAX,
        seen=f"longest pause {gap_s * 1000:.0f} ms",
    )
    cluster.start(cluster.node(killed))
    await asyncio.to_thread(cluster.wait_ready)


async def _produce(
    cluster: LocalCluster, client: Client, days: list[dict[str, Any]]
) -> tuple[str, float]:
    """Return the killed node, and the longest time between two acknowledgements in seconds."""
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
    """Return the weather of 1,461 days in Seattle from the vega_datasets package."""
    path = Path(str(files("vega_datasets") / "_data" / "seattle-weather.csv"))
    with path.open(newline="", encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


async def show_ownership(cluster: LocalCluster, out: Console, claims: DemoClaims) -> None:
    """Take over the lock of a killed process; then send a late write with that process's fence."""
    out.rule("a job that runs once: a lock, kill -9 of its holder, a fence")
    async with Client(cluster.urls) as client:
        await client.declare(FACTORY)
        holder = await _holder(cluster)
        try:
            assert holder.stdout is not None
            old = (await holder.stdout.readline()).decode().strip()
            await client.put(REPORT, {"by": "the first holder"}, fence=old)
            out.print(f"docstore lock {LOCK} -- report: a process holds the lock; Fence: {old}")
        finally:
            os.killpg(holder.pid, signal.SIGKILL)
            killed_at = time.perf_counter()
            await holder.wait()
        async with client.lock(LOCK, ttl_s=TTL_S) as lock:
            waited_s = time.perf_counter() - killed_at
            out.print(f"it is killed; the next in the queue holds it with Fence: {lock.fence()}")
            await client.put(REPORT, {"by": "the second holder"}, fence=lock.fence())
            late = await _status_of_late_write(client, old)
        report = (await client.get(REPORT)).value["by"]
    claims.check(
        "the lock of a killed holder goes to the next",
        holds=waited_s < SUCCESSION_S_MAX,
        seen=f"{waited_s:.1f} s after the kill, of a lease of {TTL_S} s",
    )
    claims.check(
        "the write that the killed holder had under way changes nothing",
        holds=late == 409 and report == "the second holder",
        seen=f"status {late}; the report is by {report}",
    )


async def _holder(cluster: LocalCluster) -> Process:
    command = (
        sys.executable, "-m", "docstore", "lock", LOCK, "--ttl", str(TTL_S),
        "--url", ",".join(cluster.urls), "--", sys.executable, "-c", HOLDER,
    )  # fmt: skip
    return await asyncio.create_subprocess_exec(*command, stdout=PIPE, start_new_session=True)


async def _status_of_late_write(client: Client, fence: str) -> int:
    try:
        await client.put(REPORT, {"by": "a dead man's write"}, fence=fence)
    except RequestFailed as error:
        return error.status
    return 200
