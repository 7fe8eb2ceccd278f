"""The demo's act about ownership: a job that runs once, and a killed holder's late write."""

import asyncio
import os
import signal
import sys
import time
from asyncio.subprocess import PIPE, Process

from rich.console import Console

from docstore.cli.claims import DemoClaims
from docstore.client import Client, LocalCluster, RequestFailed

LOCK = "nightly-report"
FACTORY, REPORT = "/reports", "/reports/today"
TTL_S = 1.5
SUCCESSION_S_MAX = TTL_S + 3.0
HOLDER = "import os, time; print(os.environ['DOCSTORE_FENCE'], flush=True); time.sleep(600)"
"""What `docstore lock` runs while it holds the lock: it tells its fence, and works for long."""


async def show(cluster: LocalCluster, out: Console, claims: DemoClaims) -> None:
    """Hold a lock by a process, kill it, hold it here, and play the write it had under way."""
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
