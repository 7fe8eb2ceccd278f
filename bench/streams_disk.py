"""`python -m bench.streams_disk`: the cost of storing streams on a disk, and beside documents.

large: commits of one batch of 500 records of 200 bytes, one after the other. small: commits of
six batches of ten records, one for each of six partitions. Each by one process, and by three at
once on the same disk, as three nodes on one machine are; `stall_ms` is the longest commit of any.

document: one document after the other, in a commit each: alone; beside streams that are written to
a second file; and together with them in one file, modelled by a small batch among the large ones.
The streams: a hundred large batches a second, or a replica that is filled, by commits of a
megabyte one after the other.
"""

import argparse
import asyncio
import json
import resource
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench import machine
from bench.report import RESULTS
from docstore.model.document import Row
from docstore.model.streams_batch import BatchHeader, place_of, seal
from docstore.storage.partitions import AppendBatches, PartitionRecord, SavePartition
from docstore.storage.sqlite import SqliteStore
from docstore.storage.store import Append
from docstore.storage.streams_sqlite import SqliteStreamStore
from docstore.streams.records import Record, pack

NAMES = [f"flights/{number}@01" for number in range(6)]
SMALL = "notes/0@01"
PROCESSES = 3
LOADS = {"nothing": (0, 0.0), "100 batches/s": (1, 0.01), "a filling": (10, 0.0)}
"""Large batches in a commit, and seconds from one commit to the next."""
PLACES = (
    ("alone", "nothing"),
    ("beside", "100 batches/s"),
    ("together", "100 batches/s"),
    ("beside", "a filling"),
    ("together", "a filling"),
)


@dataclass
class Writer:
    """Appends batches of `records` records of 200 bytes, and notes how long each took."""

    store: SqliteStreamStore
    records: int
    names: Sequence[str]
    ends: dict[str, int] = field(default_factory=dict)
    took_s: list[float] = field(default_factory=list)
    written: int = 0

    async def commit(self) -> None:
        """Append a batch to each partition, as often as its name is there."""
        batches = [(name, self._batch(name)) for name in self.names]
        self.written += sum(len(raw) for _, raw in batches)
        begun = time.perf_counter()
        await self.store.commit([AppendBatches(batches)])
        self.took_s.append(time.perf_counter() - begun)

    def _batch(self, name: str) -> bytes:
        base = self.ends.get(name, 0)
        self.ends[name] = base + self.records
        body = pack(Record(b"key-%09d" % base, b"v" * 190)) * self.records
        header = BatchHeader(base, self.records, 1, 0, 0, "", 0, 0, 0, 0)
        return seal(place_of(name), header, body)


async def opened(path: Path) -> SqliteStreamStore:
    """Return an open store with all partitions."""
    store = SqliteStreamStore(path)
    await store.open()
    await store.commit([SavePartition(PartitionRecord(name, "c")) for name in (*NAMES, SMALL)])
    return store


def figures(took_s: list[float], seconds: float) -> dict[str, float]:
    """Return a row of the table: rates and latencies of commits."""
    ordered = sorted(took_s)
    return {
        "commits_per_s": round(len(ordered) / seconds, 1),
        "p50_ms": round(statistics.median(ordered) * 1000, 3),
        "p99_ms": round(ordered[len(ordered) * 99 // 100] * 1000, 3),
        "stall_ms": round(ordered[-1] * 1000, 1),
    }


async def append(path: Path, kind: str, seconds: float) -> dict[str, float]:
    """Commit one after the other; the work of one process."""
    store = await opened(path)
    writer = Writer(store, 500, NAMES[:1]) if kind == "large" else Writer(store, 10, NAMES)
    used, begun = _cpu_s(), time.perf_counter()
    while time.perf_counter() - begun < seconds:
        await writer.commit()
    took = time.perf_counter() - begun
    found = figures(writer.took_s, took)
    found["mb_per_s"] = round(writer.written / took / 1e6, 1)
    found["cpu_us"] = round((_cpu_s() - used) / len(writer.took_s) * 1e6)
    await store.close()
    return found


def _cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


async def side_by_side(folder: Path, kind: str, seconds: float, number: int) -> dict[str, float]:
    """Run `number` processes at once; return the sum, or the worst, of their figures."""

    async def one(turn: int) -> dict[str, float]:
        command = [sys.executable, "-m", "bench.streams_disk", "--worker", kind]
        place = ["--seconds", str(seconds), "--dir", str(folder / f"{kind}{number}-{turn}.db")]
        process = await asyncio.create_subprocess_exec(
            *command, *place, stdout=asyncio.subprocess.PIPE
        )
        output, _ = await process.communicate()
        found: dict[str, float] = json.loads(output)
        return found

    each = await asyncio.gather(*map(one, range(number)))
    summed = {"commits_per_s", "mb_per_s"}
    return {
        key: round(sum(found[key] for found in each), 1) if key in summed
        else max(found[key] for found in each)
        for key in each[0]
    }  # fmt: skip


async def documents(folder: Path, kind: str, load: str, seconds: float) -> dict[str, float]:
    """Commit one document after the other, in the same file as the load of streams or not."""
    path = folder / f"{kind} {LOADS[load][0]}"
    streams, store = await opened(path.with_suffix(".streams")), SqliteStore(path)
    await store.open()
    small, large = Writer(streams, 1, [SMALL]), Writer(streams, 500, NAMES[:1] * LOADS[load][0])
    took_s: list[float] = []
    lock = asyncio.Lock()  # A store takes one commit at a time.
    begun = time.perf_counter()

    async def flow() -> None:
        turn = 0
        while large.names and (now := time.perf_counter()) < begun + seconds:
            turn += 1
            await asyncio.sleep(max(0.0, begun + turn * LOADS[load][1] - now))
            async with lock:
                await large.commit()

    async def write() -> None:
        n = 0
        while (asked := time.perf_counter()) < begun + seconds:
            n += 1
            if kind == "together":
                async with lock:
                    await small.commit()
            else:
                await store.commit([Append([_row(n)])])
            took_s.append(time.perf_counter() - asked)

    await asyncio.gather(write(), flow())
    await streams.close()
    await store.close()
    return figures(took_s, seconds)


def _row(n: int) -> Row:
    link, state = f"/notes/{n}", b'{"text":"%b"}' % (b"x" * 200)
    return Row(1, n, 1, "n1", link, 0, "PUT", n, False, b"s" * 16, b"o" * 16, b"d" * 32, state)


async def measure(folder: Path, seconds: float, rounds: int) -> dict[str, dict[str, float]]:
    """Return the median of each figure over all rounds."""
    found: dict[str, list[dict[str, float]]] = {}
    for turn in range(rounds):
        place = folder / str(turn)
        place.mkdir()
        for kind in ("large", "small"):
            for number in (1, PROCESSES):
                row = await side_by_side(place, kind, seconds, number)
                found.setdefault(f"{kind}, {number} at once", []).append(row)
        for kind, load in PLACES:
            row = await documents(place, kind, load, seconds)
            found.setdefault(f"document, {kind}, {load}", []).append(row)
    return {
        name: {key: statistics.median(row[key] for row in rows) for key in rows[0]}
        for name, rows in found.items()
    }


def main() -> None:
    """Measure, print the table, keep the figures if a name is given."""
    parser = argparse.ArgumentParser(prog="python -m bench.streams_disk", description=__doc__)
    parser.add_argument("--dir", default="/var/tmp", help="a directory on a real disk")
    parser.add_argument("--seconds", type=float, default=6.0, help="per row and round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--name", help="keep the figures under bench/results/")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        print(json.dumps(asyncio.run(append(Path(options.dir), options.worker, options.seconds))))
        return
    with machine.scratch(options.dir) as folder:
        rows = asyncio.run(measure(folder, options.seconds, options.rounds))
    for name, row in rows.items():
        print(f"{name:34}", "  ".join(f"{key} {value:,g}" for key, value in row.items()))
    if options.name:
        facts: dict[str, Any] = {
            **machine.box(),
            "filesystem": machine.filesystem(Path(options.dir)),
        }
        facts["plan"] = {"seconds": options.seconds, "rounds": options.rounds}
        text = json.dumps({"facts": facts, "medians": rows}, indent=1)
        (RESULTS / f"{options.name}.json").write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    main()
