"""Long steady use, in which no resource may grow: python -m tests.chaos.soak --minutes M.

Tenants create documents under names that are never reused, change them, read them and delete them
all, most at level 3 and some at level 2; visitors do unusual things: follow changes and hang up,
request absent documents, send half a request. Old versions are trimmed after a minute, so that as
much is stored at the end as after the first minutes, and any growth is a leak. Reliability line
R39, in minutes instead of a day: from the third quarter of the run to the last no node's memory,
open files or tasks may grow, nor its write-ahead log beyond its bound.
"""

import argparse
import asyncio
import contextlib
import itertools
import json
import random
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

from docstore.client.local import LocalCluster, LocalNode
from tests.chaos.mix import FACTORY, declare
from tests.docstore.watching import metrics

SIZE, STRONG, WEAK, VISITORS = 3, 4, 2, 2
WEAKER = "/weaker"
"""A factory of level 2, where reads may be behind: there only rejections are wrong."""
DOCUMENTS, ROUNDS = 40, 4
RATE = 30.0
"""Requests a second of each tenant, at any load of the machine: data kept for some minutes must not
vary with it."""
SAMPLE_S = 10.0
GROWN_MB_MAX, GROWN_MAX, WAL_MB_MAX = 1.5, 8, 64.0
"""By how much a node's memory, and its open files and tasks, may be more in the last quarter than
in the one before; the largest write-ahead log."""
SWITCHES = {"retention_s": 60.0, "retries_s": 60.0, "small_memory": True}
"""Caches that fill in an hour or a day by default are full after some minutes: see `node.py`."""


@dataclass(slots=True)
class Sample:
    """One node at one moment."""

    memory_mb: float
    files: float
    tasks: float
    wal_mb: float
    disk_mb: float


@dataclass(slots=True)
class Account:
    """Observations of a run."""

    samples: dict[str, list[Sample]] = field(default_factory=dict)
    took_s: list[float] = field(default_factory=list)
    """How long the requests since the last sample took."""
    p99_ms: list[float] = field(default_factory=list)
    told: Counter[int] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


class Caller:
    """Sends requests to random nodes."""

    def __init__(
        self, name: str, urls: list[str], session: aiohttp.ClientSession, account: Account
    ) -> None:
        self.name, self.account, self.session = name, account, session
        self.rng = random.Random(name)
        self.urls = urls
        self.numbers = itertools.count()
        self._next_at = time.monotonic()

    async def turn(self) -> None:
        """Wait until the next request is due."""
        self._next_at = max(self._next_at + 1 / RATE, time.monotonic() - 1.0)
        await asyncio.sleep(max(0.0, self._next_at - time.monotonic()))

    async def ask(
        self,
        verb: str,
        path: str,
        body: object = None,
        wanted: Collection[int] = (),
        **headers: str,
    ) -> bytes:
        """Send one request, note its answer and duration, and return the body."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        begun = time.perf_counter()
        url = self.rng.choice(self.urls) + path
        async with self.session.request(verb, url, data=data, headers=JSON | named) as answer:
            said = await answer.read()
        self.account.took_s.append(time.perf_counter() - begun)
        self.account.told[answer.status] += 1
        if wanted and answer.status not in wanted:
            self.account.wrong.append(f"{verb} {path}: {answer.status} {said[:200]!r}")
        return said


JSON = {"Content-Type": "application/json"}
LEVEL_2 = ["PERSISTENCE", "REPLICATION", "OWNER_SELECTION"]
STALE = {"Docstore_Consistency": "stale"}


async def live(caller: Caller, factory: str, *also: int) -> None:
    """Create some documents, change and read them again and again, and delete them.

    also: statuses that are right, beside those of success.
    """
    generation = next(caller.numbers)
    links = [f"{factory}/{caller.name}-{generation}-{number}" for number in range(DOCUMENTS)]
    text = "x" * 200
    there = (200, *also)
    for link in links:
        await caller.ask("PUT", link, {"n": 0, "text": text, "tenant": caller.name}, wanted=(201,))
        await caller.turn()
    for turn in range(ROUNDS):
        for link in links:
            key = f"{link}-{turn}"
            await caller.ask("PATCH", link, {"n": turn}, wanted=there, Idempotency_Key=key)
            await caller.turn()
            await caller.ask("GET", link, wanted=there)
            await caller.turn()
            await caller.ask("GET", link, wanted=there, **STALE)
            await caller.turn()
    for link in links:
        await caller.ask("DELETE", link, wanted=there)
        await caller.turn()


async def visit(caller: Caller) -> None:
    """Do one unusual thing, and hang up."""
    number = next(caller.numbers)
    fresh = f"{FACTORY}/{caller.name}-visit-{number}"
    odd: list[Callable[[], Awaitable[object]]] = [
        lambda: caller.ask("GET", fresh, wanted=(404,)),
        lambda: caller.ask("GET", f"/nowhere-{number}/at-all", wanted=(404,)),
        lambda: caller.ask("PUT", fresh, b"{not json", wanted=(400,)),
        lambda: _post_twice(caller, fresh),
        lambda: caller.ask("GET", f"{FACTORY}?$limit=20&expand", wanted=(200,)),
        lambda: caller.ask("POST", "/core/bulk", _create_and_delete(fresh), wanted=(200,)),
        lambda: _listen(caller, "application/x-ndjson"),
        lambda: _listen(caller, "text/event-stream"),
        lambda: _half(caller),
    ]
    await odd[number % len(odd)]()
    await asyncio.sleep(0.1)


async def _post_twice(caller: Caller, key: str) -> None:
    """Create a document under a key and once more under the same, which is the same; delete it."""
    for _ in range(2):
        said = await caller.ask("POST", FACTORY, {"n": 1}, wanted=(201,), Idempotency_Key=key)
    await caller.ask("DELETE", json.loads(said)["documentSelfLink"], wanted=(200,))


def _create_and_delete(fresh: str) -> bytes:
    links = [f"{fresh}-{number}" for number in range(20)]
    lines: list[object] = [{"op": "PUT", "link": link, "body": {"n": 1}} for link in links]
    lines += [{"op": "DELETE", "link": link} for link in links]
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


async def _listen(caller: Caller, accept: str) -> None:
    """Follow changes for a moment."""
    url = f"{caller.rng.choice(caller.urls)}/core/changes?prefix={FACTORY}&since=latest"
    headers = {"Accept": accept, "Prefer": "wait=20"}
    with contextlib.suppress(TimeoutError):
        async with (
            asyncio.timeout(1.0),
            caller.session.get(url, headers=headers) as answer,
        ):
            await answer.content.readline()


async def _half(caller: Caller) -> None:
    """Send half a request."""
    host, _, port = caller.rng.choice(caller.urls).removeprefix("http://").partition(":")
    _, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"PUT /chaos/half HTTP/1.1\r\nHost: localhost\r\nContent-Le")
    await writer.drain()
    writer.close()


Work = Callable[[Caller], Awaitable[None]]


async def _repeat(work: Work, caller: Caller, until: float) -> None:
    while time.monotonic() < until and not caller.account.wrong:
        await work(caller)


async def _look(nodes: list[LocalNode], account: Account, until: float) -> None:
    began = time.monotonic()
    while time.monotonic() < until and not account.wrong:
        await asyncio.sleep(SAMPLE_S)
        took, account.took_s = sorted(account.took_s), []
        account.p99_ms.append(1000 * took[int(0.99 * len(took))] if took else 0.0)
        for node in nodes:
            seen = await asyncio.to_thread(_sample, node)
            account.samples.setdefault(node.name, []).append(seen)
        newest = "; ".join(_said(each[-1]) for each in account.samples.values())
        at_s = time.monotonic() - began
        print(f"{at_s:6.0f} s, p99 {account.p99_ms[-1]:.1f} ms: {newest}", flush=True)


def _sample(node: LocalNode) -> Sample:
    seen = metrics(node)
    sizes = {path.name: path.stat().st_size / 1e6 for path in node.data.iterdir()}
    wal_mb = max((size for name, size in sizes.items() if name.endswith("-wal")), default=0.0)
    return Sample(
        seen["process_resident_memory_bytes"] / 1e6,
        seen["process_open_fds"],
        seen["docstore_tasks"],
        wal_mb,
        sum(sizes.values()),
    )


def _said(each: Sample) -> str:
    return (
        f"{each.memory_mb:.1f} MB, {each.files:.0f} files, {each.tasks:.0f} tasks,"
        f" log {each.wal_mb:.1f} MB of {each.disk_mb:.0f}"
    )


def grown(values: list[float]) -> float:
    """Return by what the last quarter's median is above that of the quarter before it."""
    quarter = len(values) // 4
    if not quarter:
        return 0.0
    return statistics.median(values[-quarter:]) - statistics.median(values[-2 * quarter : -quarter])


def judge(account: Account) -> list[str]:
    """Return the resources that grow, and other problems."""
    wrong = account.wrong[:10]
    print(
        f"p99 {statistics.median(account.p99_ms):.1f} ms, {grown(account.p99_ms):+.1f} at the end"
    )
    for name, samples in account.samples.items():
        memory_mb = grown([each.memory_mb for each in samples])
        files, tasks = (grown([getattr(s, of) for s in samples]) for of in ("files", "tasks"))
        wal_mb = max(each.wal_mb for each in samples)
        print(f"{name}: memory {memory_mb:+.1f} MB, files {files:+.0f}, tasks {tasks:+.0f},"
              f" greatest write-ahead log {wal_mb:.1f} MB")  # fmt: skip
        if memory_mb > GROWN_MB_MAX or max(files, tasks) > GROWN_MAX or wal_mb > WAL_MB_MAX:
            wrong.append(f"{name} grows")
    return wrong


async def soak(minutes: float, directory: Path) -> Account:
    """Use a group for this time."""
    account = Account()
    cluster = LocalCluster(SIZE, directory)
    for node in cluster.nodes:
        switches = directory / f"{node.name}.switches"
        await asyncio.to_thread(switches.write_text, json.dumps(SWITCHES))
        node.command = ("-m", "tests.chaos.node", str(switches))
        cluster.start(node)
    try:
        await asyncio.to_thread(cluster.wait_ready)
        timeout = aiohttp.ClientTimeout(total=30)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            await declare(session, cluster.nodes[0].url)
            until = time.monotonic() + 60 * minutes
            weaker = {"path": WEAKER, "options": LEVEL_2, "putCreates": True}
            await Caller("admin", cluster.urls, session, account).ask(
                "POST", "/core/factories", weaker, wanted=(201,)
            )
            works: list[tuple[str, Work]] = [
                *((f"s{n}", lambda caller: live(caller, FACTORY)) for n in range(STRONG)),
                *((f"w{n}", lambda caller: live(caller, WEAKER, 404)) for n in range(WEAK)),
                *((f"v{n}", visit) for n in range(VISITORS)),
            ]
            await asyncio.gather(
                _look(cluster.nodes, account, until),
                *(
                    _repeat(work, Caller(name, cluster.urls, session, account), until)
                    for name, work in works
                ),
            )
    finally:
        await asyncio.to_thread(cluster.stop)
    return account


def main() -> int:
    """Parse the command line and run; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="docstore-soak-", dir="/var/tmp") as directory:
        account = asyncio.run(soak(options.minutes, Path(directory)))
    print(f"{account.told.total():,} requests: {dict(sorted(account.told.items()))}")
    wrong = judge(account)
    print(*wrong, sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
