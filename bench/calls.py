"""`python -m bench.calls`: how many functions a request calls in the event loops of three nodes.

Each kind of work runs for itself on three real nodes that count (`counted_node.py`), with 16
clients. What the nodes call at rest is measured as well and subtracted, by time. Counts hardly
depend on what else the machine does, unlike rates. They are kept in bench/results/calls.json.
"""

import argparse
import asyncio
import itertools
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

import orjson

from docstore.client import Client
from docstore.client.local import LocalCluster

CLIENTS, DOCUMENTS, BULK_LINES = 16, 2000, 500
NODE = ("-m", "bench.counted_node")
ANSWER_LIMIT_S = 10.0
JSON = {"Content-Type": "application/json"}
BODY = {"text": "x" * 170, "number": 1}
Counts = Counter[str]
Work = Callable[[int], Awaitable[object]]
"""Does one request: the number of the client is given."""


class Counting:
    """Three nodes that count, and what they have counted."""

    def __init__(self, group: LocalCluster, directory: Path) -> None:
        self._group, self._directory = group, directory
        self.rest: Counts = Counter()
        """Calls in a second in which clients ask nothing."""

    async def snapshot(self) -> Counts:
        """Return the calls of all nodes since their start."""
        ask = self._directory / "ask"
        kept = [
            self._directory / f"{node.process.pid}.json"
            for node in self._group.nodes
            if node.process
        ]
        ask.touch()
        async with asyncio.timeout(ANSWER_LIMIT_S):
            while not all(each.exists() for each in kept):  # noqa: ASYNC110 - files, of other processes
                await asyncio.sleep(0.01)
        ask.unlink()
        found: Counts = Counter()
        for each in kept:
            found.update(json.loads(each.read_text()))
            each.unlink()
        return found

    async def count(self, work: Work, seconds: float, units: int = 1) -> tuple[Counts, int]:
        """Have all clients work; return the calls less those at rest, and how much was done."""
        numbers, until = itertools.count(), time.monotonic() + seconds

        async def client(number: int) -> None:
            while time.monotonic() < until:
                await work(number)
                next(numbers)

        before, begun = await self.snapshot(), time.monotonic()
        await asyncio.gather(*(client(number) for number in range(CLIENTS)))
        found, took_s = await self.snapshot() - before, time.monotonic() - begun
        for name, calls in self.rest.items():
            found[name] -= int(calls * took_s)
        return +found, next(numbers) * units

    async def note_rest(self, seconds: float) -> None:
        """Measure what the nodes call without any client."""
        before = await self.snapshot()
        await asyncio.sleep(seconds)
        found = await self.snapshot() - before
        self.rest = Counter({name: round(calls / seconds) for name, calls in found.items()})


async def works(client: Client) -> dict[str, tuple[Work, int]]:
    """Prepare what is asked of; return kind -> (what does one request, what it counts as)."""
    for path in ("/documents", "/bulk"):
        await client.declare(path)
    topic = b'{"name": "records", "partitions": 6}'
    await client.request("POST", "/core/streams", topic, JSON | {"Prefer": "wait=10"})
    links, lines = itertools.count(), itertools.count()
    for number in range(DOCUMENTS):
        await client.put(f"/documents/{number}", BODY)

    async def put(_: int) -> None:
        await client.put(f"/documents/{next(links) % DOCUMENTS}", BODY)

    async def get(_: int) -> None:
        await client.get(f"/documents/{next(links) % DOCUMENTS}")

    async def bulk(_: int) -> None:
        asked = b"".join(
            orjson.dumps({"op": "put", "link": f"/bulk/{next(lines)}", "body": BODY}) + b"\n"
            for _ in range(BULK_LINES)
        )
        await client.request("POST", "/core/bulk", asked, {"Content-Type": "application/x-ndjson"})

    async def record(number: int) -> None:
        body = orjson.dumps({"key": f"k{number}", "value": BODY})
        await client.request("POST", "/core/streams/records/records", body, JSON)

    async def lock(number: int) -> None:
        async with client.lock(f"calls-{number}"):
            pass

    return {
        "PUT": (put, 1),
        "GET": (get, 1),
        "bulk line": (bulk, BULK_LINES),
        "record": (record, 1),
        "lock and unlock": (lock, 1),
    }


async def measure(
    group: LocalCluster, directory: Path, seconds: float, top: int
) -> dict[str, object]:
    """Measure each kind; print its table."""
    counting, table = Counting(group, directory), {}
    async with Client(group.urls) as client:
        kinds = await works(client)
        await asyncio.sleep(seconds)
        await counting.note_rest(seconds)
        for kind, (work, units) in kinds.items():
            found, done = await counting.count(work, seconds, units)
            calls = sum(found.values()) / done
            first = [(name, round(count / done, 2)) for name, count in found.most_common(top)]
            files = {
                name.partition(":")[0] for name, count in found.items() if count >= done / units
            }
            ours = len([each for each in files if each.startswith("docstore/")])
            table[kind] = {
                "calls": round(calls, 1),
                "files": ours,
                "done": done,
                "top": dict(first),
            }
            print(f"{kind}: {calls:,.1f} calls in {ours} of our files ({done} done)")
            for name, count in first:
                print(f"  {count:8.2f}  {name}")
    return table


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.calls", description=__doc__)
    parser.add_argument("--seconds", type=float, default=4.0, help="duration of each kind of work")
    parser.add_argument("--top", type=int, default=12, help="functions that are shown")
    parser.add_argument("--name", help="a file name in bench/results/; default: none is kept")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["COUNTS_KEPT_IN"] = scratch
        group = LocalCluster(3)
        for node in group.nodes:
            node.command = NODE
        with group:
            table = asyncio.run(measure(group, Path(scratch), options.seconds, options.top))
    if options.name:
        kept = Path(__file__).with_name("results") / f"{options.name}.json"
        kept.write_text(json.dumps(table, indent=1) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
