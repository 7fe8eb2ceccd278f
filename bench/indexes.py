"""`python -m bench.indexes`: what an index gives to queries, and what it costs a write.

Three nodes with films-like documents; one client asks any node for pages of 50 whole documents.
With PostgreSQL's server installed (Debian: postgresql), the same pages of one node of it. Then
PUTs of 64 connections, in turn without an index, with one whose member no write changes, and with
one whose member each write changes; their costs are medians of the ratios within a round.

Exit codes as of `python -m bench`.
"""

import argparse
import asyncio
import json
import os
import random
import statistics
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import aiohttp

from bench import alone, machine, postgres
from bench.cluster import Failed
from bench.docstores import Docstores
from bench.load import Load, Wrk

INDEXES = ["year", "year desc, title", "genres[*]"]
ROWS, WRITERS, BATCH = 50, 64, 1_000
GOAL_MS, GOAL_COST = 20.0, 0.05
BUILT_LIMIT_S = 300.0
CHANGED, UNCHANGED = "number", "status"
"""Members of the documents that are put: each write changes the first; none has the second."""

_WORDS = "The Last Night Star of City Love War Day House Man Girl River Dark Blue King".split()
_GENRES = "Action Comedy Drama Horror Western Romance Thriller Documentary Animation".split()

Asked = Callable[[], Awaitable[dict[str, Any]]]


def film(number: int) -> dict[str, Any]:
    """Return one document, of some 500 bytes."""
    rng = random.Random(number)
    return {
        "title": f"{' '.join(rng.sample(_WORDS, 3))} {number}", "year": rng.randrange(1920, 2025),
        "genres": rng.sample(_GENRES, rng.randrange(1, 4)), "rating": rng.randrange(100) / 10,
        "cast": [f"{rng.choice(_WORDS)} {rng.choice(_WORDS)}son" for _ in range(4)],
        "extract": " ".join(rng.choices(_WORDS, k=60)),
    }  # fmt: skip


class Films:
    """The documents of a cluster, and one client."""

    def __init__(self, cluster: Docstores, http: aiohttp.ClientSession) -> None:
        self.urls = [f"http://{member.address}" for member in cluster.members]
        self.http = http
        self.rng = random.Random(1)

    async def load(self, count: int) -> None:
        """Declare the factory, and store the documents."""
        await self._post("/core/factories", json.dumps({"path": "/films", "indexes": INDEXES}))
        for first in range(0, count, BATCH):
            numbers = range(first, min(first + BATCH, count))
            lines = [
                json.dumps({"op": "PUT", "link": f"/films/{n:07}", "body": film(n)})
                for n in numbers
            ]
            await self._post("/core/bulk", "\n".join(lines), "application/x-ndjson")

    async def _post(self, path: str, body: str, media: str = "application/json") -> None:
        headers = {"Content-Type": media}
        async with self.http.post(self.urls[0] + path, data=body, headers=headers) as answer:
            if answer.status >= 300:
                raise Failed(f"{path}: {await answer.text()}")
            await answer.read()

    async def page(self, **query: str) -> dict[str, Any]:
        """Ask any node for a page."""
        query = {"$limit": str(ROWS), "$expand": "true", **query}
        url = aiohttp.client.URL(f"{self.rng.choice(self.urls)}/films").with_query(query)
        return await self._get(url)

    async def _get(self, url: Any) -> dict[str, Any]:
        async with self.http.get(url) as answer:
            page: dict[str, Any] = await answer.json()
            if answer.status != 200:
                raise Failed(f"{url}: {page}")
            return page

    async def built(self) -> float:
        """Wait until each index has everything; return the seconds that it took."""
        began = time.perf_counter()
        for query in ({"$orderby": "year"}, {"$orderby": "year desc,title"}):
            while True:
                found = await self.page(**query, **{"$explain": "true"})
                if found["explain"]["index"] and not found["explain"]["changed"]:
                    break
                if time.perf_counter() > began + BUILT_LIMIT_S:
                    raise Failed(f"the index was not built in time: {found['explain']}")
                await asyncio.sleep(0.25)
        return time.perf_counter() - began

    async def pages(self, order: str) -> AsyncIterator[None]:
        """Read page after page, each at any node."""
        found = await self.page(**{"$orderby": order})
        while "nextPageLink" in found:
            yield
            following = self.rng.choice(self.urls) + found["nextPageLink"]
            found = await self._get(aiohttp.client.URL(following, encoded=True))

    def year(self) -> str:
        return f"year eq {self.rng.randrange(1920, 2025)}"

    def years(self) -> str:
        first = self.rng.randrange(1920, 2020)
        return f"year ge {first} and year lt {first + 5}"


def summed(times: list[float]) -> dict[str, float]:
    """Return figures of durations in seconds."""
    p95 = statistics.quantiles(times, n=20)[-1]
    return {"p50_ms": 1000 * statistics.median(times), "p95_ms": 1000 * p95, "times": len(times)}


async def timed(ask: Asked, count: int) -> dict[str, float]:
    """Return figures of `count` pages, one after the other."""
    times = []
    for _ in range(count):
        began = time.perf_counter()
        await ask()
        times.append(time.perf_counter() - began)
    return summed(times)


def note(figures: dict[str, Any], name: str, found: dict[str, Any]) -> None:
    """Keep and show figures."""
    figures[name] = found
    print(name, {key: round(value, 2) for key, value in found.items()}, flush=True)


async def queries(films: Films, figures: dict[str, Any], count: int) -> None:
    """Measure pages of every kind."""
    note(figures, "built", {"seconds": await films.built()})
    kinds: dict[str, Callable[[], dict[str, str]]] = {
        "equality": lambda: {"$filter": films.year()},
        "range": lambda: {"$filter": films.years()},
        "element": lambda: {"$filter": f"genres/any(g: g eq '{films.rng.choice(_GENRES)}')"},
        "equality_in_order": lambda: {"$filter": films.year(), "$orderby": "title"},
        "unindexed": lambda: {"$filter": f"rating eq {films.rng.randrange(100) / 10}"},
        "unindexed_order": lambda: {"$orderby": "rating desc"},
    }
    for name, query in kinds.items():
        some = count // 10 if name.startswith("unindexed") else count
        note(figures, name, await timed(lambda query=query: films.page(**query()), some))
    times, began = [], time.perf_counter()
    async for _ in films.pages("year desc,title"):
        now = time.perf_counter()
        times.append(now - began)
        began = now
    part = max(10, len(times) // 10)
    note(figures, "order_first_pages", summed(times[:part]))
    note(figures, "order_last_pages", summed(times[-part:]))


class _WithScanners:
    """The nodes and their scanning processes."""

    def __init__(self, cluster: Docstores) -> None:
        self.nodes = [each.process.pid for each in cluster.members if each.process is not None]

    def cpu_s(self) -> float:
        """Return the processor time that all have used."""
        ticks = 0
        for path in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):  # The process has ended.
                fields = path.read_text("utf-8").rpartition(")")[2].split()
                if int(fields[1]) in self.nodes or int(path.parent.name) in self.nodes:
                    ticks += int(fields[11]) + int(fields[12])
        return ticks / machine.TICKS_PER_S


async def writes(cluster: Docstores, wrk: Wrk, figures: dict[str, Any], options: Any) -> None:
    """Measure PUTs without an index and with one, in turn."""
    link = f"http://{cluster.members[0].address}/core/factories/bench"
    found: dict[str, list[Load]] = {"none": [], UNCHANGED: [], CHANGED: []}
    for turn in range(options.rounds):
        every = list(found.items())
        for index, loads in every[::-1] if turn % 2 else every:
            indexes = [] if index == "none" else [index]
            await cluster.ask("PATCH", link, json={"indexes": indexes})
            await asyncio.sleep(3)
            targets, _ = cluster.targets(cluster.links)
            load = await wrk.drive(
                _WithScanners(cluster), targets, connections=WRITERS, seconds=options.seconds
            )
            if load.errors:
                raise Failed(f"{load.errors} requests failed")
            loads.append(load)
            us = 1e6 * load.cpu_s / load.requests
            print(f"put, index {index}: {load.rate:.0f}/s, {us:.0f} us of processor", flush=True)
    for index, loads in found.items():
        rate, cpu_us = _summed(loads)
        pairs = [_ratios(*each) for each in zip(found["none"], loads, strict=True)]
        cost, cpu_cost = (statistics.median(each) for each in zip(*pairs, strict=True))
        figures[f"put_{index}"] = {
            "rate": rate, "cpu_us": cpu_us, "cost": cost, "cpu_cost": cpu_cost,
            "runs": [asdict(load) for load in loads],
        }  # fmt: skip
        print(f"put_{index}: {rate:.0f}/s ({-100 * cost:+.1f} %), {cpu_us:.0f} us"
              f" of processor ({100 * cpu_cost:+.1f} %)", flush=True)  # fmt: skip


def _summed(loads: list[Load]) -> tuple[float, float]:
    """Return the rate of PUTs, and the processor time of one in microseconds."""
    return statistics.median(load.rate for load in loads), statistics.median(map(_cpu_us, loads))


def _cpu_us(load: Load) -> float:
    return 1e6 * load.cpu_s / load.requests


def _ratios(plain: Load, load: Load) -> tuple[float, float]:
    """Return what an index costs in one round: a part of the rate, and of processor time."""
    return 1 - load.rate / plain.rate, _cpu_us(load) / _cpu_us(plain) - 1


def arguments() -> argparse.Namespace:
    parser = alone.parser("bench.indexes", __doc__)
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=200, help="per row")
    parser.add_argument("--seconds", type=int, default=10, help="per round of writes")
    parser.add_argument("--rounds", type=int, default=6, help="rounds of writes")
    parser.add_argument("--short", action="store_true", help="20,000 documents, short rounds")
    options = parser.parse_args()
    if options.short:
        options.documents, options.queries, options.seconds = 20_000, 50, 4
    return options


async def run(options: argparse.Namespace) -> dict[str, Any]:
    wrk = machine.require("wrk", "wrk")
    os.environ.pop("DOCSTORE_URL", None)
    figures: dict[str, Any] = {}
    with machine.scratch(options.dir) as scratch:
        cluster = Docstores(machine.free_ports(3), scratch / "group", 1_000, 0)
        async with cluster, aiohttp.ClientSession() as http:
            films = Films(cluster, http)
            began = time.perf_counter()
            await films.load(options.documents)
            note(figures, "load", {"seconds": time.perf_counter() - began})
            await queries(films, figures, options.queries)
            await writes(cluster, Wrk(wrk, scratch), figures, options)
    lines = (json.dumps({"link": f"/films/{n:07}", **film(n)}) for n in range(options.documents))
    for name, found in postgres.measured(lines, ROWS).items():
        note(figures, f"postgres_{name}", found)
    tell_goals(figures)
    return figures


def tell_goals(figures: dict[str, Any]) -> None:
    """Print the rows that miss their goal."""
    paged = ("equality", "range", "order_first_pages", "order_last_pages")
    missed = [name for name in paged if figures[name]["p50_ms"] > GOAL_MS]
    missed += [name for name in figures if figures[name].get("cost", 0.0) > GOAL_COST]
    for name in missed:
        print(f"{name} misses its goal", flush=True)


if __name__ == "__main__":
    sys.exit(alone.outcome(run, arguments()))
