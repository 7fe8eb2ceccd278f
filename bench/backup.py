"""`python -m bench.backup`: how fast a group is backed up and made anew, and what clients notice.

Three nodes; the commands run on the same machine, as users start them. PUTs of 16 connections
alone, beside a backup as fast as it goes, and beside one that is held back.

Exit codes as of `python -m bench`.
"""

import argparse
import asyncio
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from bench import alone, documents, machine
from bench.bulk import bulk_load
from bench.cluster import Failed
from bench.docstores import Docstores
from bench.load import Wrk

WRITERS = 16
CHANGED = 10_000
"""Documents that change before the increment."""
SLOWLY = 5_000
"""Rows a second."""


class Backups(alone.Rows):
    """A cluster, where its backups go, and what was measured."""

    def __init__(self, cluster: Docstores, wrk: Wrk, directory: Path, seconds: float) -> None:
        self.cluster, self.wrk, self.directory, self.seconds = cluster, wrk, directory, seconds
        super().__init__()
        self.links: list[str] = []

    async def load(self, count: int, prefix: str) -> None:
        """Store `count` documents, or replace them."""
        bulk = await bulk_load(self.cluster, self.cluster.batches(count, prefix))
        if bulk.errors:
            raise Failed(f"{bulk.errors} documents of a load were not stored")
        self.links = documents.links(count, prefix)

    async def run(self, name: str, *command: str) -> None:
        """Run a command, and note how many rows it did in a second."""
        began = time.perf_counter()
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "docstore", *command, "--json", stdout=asyncio.subprocess.PIPE
        )
        printed, _ = await process.communicate()
        if process.returncode:
            raise Failed(f"{name} ended with {process.returncode}")
        took_s = time.perf_counter() - began
        found = json.loads(printed)
        rows = sum(each["rows"] for each in (found if isinstance(found, list) else [found]))
        self.note(name, {"rows": rows, "seconds": took_s, "rate": rows / took_s})

    async def create(self, name: str, directory: str, *options: str) -> None:
        """Take a backup."""
        urls = ",".join(f"http://{member.address}" for member in self.cluster.members)
        where = str(self.directory / directory)
        await self.run(name, "backup", "create", where, "--url", urls, *options)

    async def put(self, name: str) -> None:
        """Replace documents meanwhile."""
        targets, _ = self.cluster.targets(self.links)
        load = await self.wrk.drive(
            self.cluster, targets, connections=WRITERS, seconds=self.seconds, per_s=0
        )
        self.note_load(name, load)

    async def put_beside(self, name: str, *options: str) -> None:
        """Replace documents while backup after backup is taken."""
        is_over = asyncio.Event()

        async def back_up() -> None:
            turn = 0
            while not is_over.is_set():
                turn += 1
                await self.create(f"{name}_backup{turn}", f"{name}{turn}", *options)

        backing_up = asyncio.create_task(back_up())
        try:
            await asyncio.sleep(1)
            await self.put(name)
        finally:
            is_over.set()
            await backing_up


async def measure(backups: Backups, count: int) -> None:
    await backups.load(count, "d")
    chain = str(backups.directory / "chain")
    await backups.create("create", "chain")
    length = sum(each.stat().st_size for each in (backups.directory / "chain").glob("*/*"))
    backups.note("size", {"bytes": length / count})
    await backups.load(CHANGED, "d")
    await backups.create("increment", "chain")
    await backups.run("verify", "backup", "verify", chain)
    data = str(backups.directory / "data")
    await backups.run("restore", "restore", chain, "--data", data)
    await backups.put("put")
    await backups.put_beside("put_beside")
    slowly = ("--rows-per-second", str(SLOWLY))
    await backups.put_beside("put_beside_slow", *slowly)


def arguments() -> argparse.Namespace:
    parser = alone.parser("bench.backup", __doc__)
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--seconds", type=int, default=5, help="per row")
    return parser.parse_args()


async def run(options: argparse.Namespace) -> dict[str, Any]:
    wrk = machine.require("wrk", "wrk")
    os.environ.pop("DOCSTORE_URL", None)
    with machine.scratch(options.dir) as scratch:
        cluster = Docstores(machine.free_ports(3), scratch / "group", 100, 0)
        async with cluster:
            backups = Backups(cluster, Wrk(wrk, scratch), scratch / "backups", options.seconds)
            await measure(backups, options.documents)
        return backups.figures


if __name__ == "__main__":
    sys.exit(alone.outcome(run, arguments()))
