"""`python -m bench.recovery`: how a group gets over a kill with much on its disks.

return: a node is down for 10,000 writes and 2,000 deletes on 100,000 documents, and comes back.
takeover: an owner of a third of a million documents is killed.
join: an empty node joins three that hold a million documents, and is filled.
"""

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from docstore.client import Client, LocalCluster, RequestFailed
from docstore.client.local import LocalNode

FACTORY = "/documents"
AT_ONCE, BATCH, SLOTS = 8, 500, 1024


@dataclass(slots=True)
class Foreground:
    """One client after the other request, and how long each took."""

    took_s: list[float] = field(default_factory=list)
    stop: bool = False

    async def run(self, urls: Sequence[str], documents: int, rng: random.Random) -> None:
        """Read and write documents at random."""
        async with Client(urls) as store:
            while not self.stop:
                link = f"{FACTORY}/{rng.randrange(documents)}"
                begun = time.perf_counter()
                try:
                    if rng.random() < 0.5:
                        await store.get(link)
                    else:
                        await store.put(link, {"text": "foreground"})
                except RequestFailed as error:
                    if error.status != 404:
                        raise
                self.took_s.append(time.perf_counter() - begun)
                await asyncio.sleep(0.005)

    def p99_ms(self) -> float:
        """Return what 99 of 100 requests did not exceed, and forget them."""
        ordered = sorted(self.took_s)
        self.took_s = []
        return 1000 * ordered[int(len(ordered) * 0.99)] if ordered else 0.0


def page(node: LocalNode, path: str) -> dict[str, Any]:
    """Return one of a node's pages."""
    with urllib.request.urlopen(node.url + path, timeout=30) as answer:
        return dict(json.load(answer))


def bytes_sent(nodes: Sequence[LocalNode]) -> int:
    """Return what these nodes have sent to each other."""
    return sum(page(node, "/core/management")["peerLinks"].get("bytes_sent", 0) for node in nodes)


async def send(store: Client, batch: list[dict[str, Any]]) -> None:
    """Send operations until all have been taken; each may be repeated."""
    for pause_s in (0.2, 1.0, 3.0, 5.0):
        results = await store.bulk(batch)
        batch = [o for o, r in zip(batch, results, strict=True) if r["status"] in (503, 504)]
        wrong = [r for r in results if r["status"] >= 400 and r["status"] not in (404, 503, 504)]
        if wrong:
            raise RuntimeError(str(wrong[0]))
        if not batch:
            return
        await asyncio.sleep(pause_s)
    raise RuntimeError("the group takes no more")


async def change(cluster: LocalCluster, operations: list[dict[str, Any]]) -> None:
    """Send operations in bulk, several requests at once."""
    batches = iter([operations[n : n + BATCH] for n in range(0, len(operations), BATCH)])
    urls = [node.url for node in cluster.nodes if node.process is not None]

    async def work() -> None:
        async with Client(urls, timeout_s=120) as store:
            for batch in batches:
                await send(store, batch)

    await asyncio.gather(*(work() for _ in range(AT_ONCE)))


def put(number: int, text: str) -> dict[str, Any]:
    """Return one line of a bulk request."""
    return {"op": "PUT", "link": f"{FACTORY}/{number}", "body": {"text": text}}


async def filled(cluster: LocalCluster, documents: int) -> None:
    """Declare the factory and put that many documents of 500 bytes into it."""
    async with Client(cluster.urls) as store:
        await store.declare(FACTORY, put_creates=True)
    begun = time.perf_counter()
    for first in range(0, documents, 100_000):
        last = min(documents, first + 100_000)
        await change(cluster, [put(number, "x" * 480) for number in range(first, last)])
    took_s = time.perf_counter() - begun
    print(f"loaded {documents} documents in {took_s:.0f} s", flush=True)


async def come_true(condition: Callable[[], bool], every_s: float = 0.02) -> None:
    """Return when the condition holds."""
    while not await asyncio.to_thread(condition):  # noqa: ASYNC110 - seen from outside only
        await asyncio.sleep(every_s)


def digests_equal(cluster: LocalCluster) -> bool:
    """Say whether all nodes hold the same in every slot."""
    found = page(cluster.nodes[0], "/core/management/digests")
    return len(found) == len(cluster.nodes) and len({json.dumps(v, sort_keys=True)
                                                     for v in found.values()}) == 1  # fmt: skip


async def come_back(cluster: LocalCluster, documents: int) -> dict[str, float]:
    """Return the figures of a node's return."""
    rng = random.Random(1)
    await filled(cluster, documents)
    foreground = Foreground()
    urls = [node.url for node in cluster.nodes[:2]]
    task = asyncio.create_task(foreground.run(urls, documents // 10, rng))
    lost = cluster.nodes[2]
    await asyncio.to_thread(cluster.kill, lost)
    await asyncio.sleep(5.0)
    before_ms = foreground.p99_ms()
    touched = rng.sample(range(documents // 10, documents), 12_000)
    operations = [put(number, "changed" * 60) for number in touched[:10_000]]
    operations += [{"op": "DELETE", "link": f"{FACTORY}/{n}"} for n in touched[10_000:]]
    await change(cluster, operations)
    changed = sum(len(json.dumps(operation)) for operation in operations)
    foreground.p99_ms()
    await asyncio.sleep(5.0)
    before_ms = foreground.p99_ms()
    sent = await asyncio.to_thread(bytes_sent, cluster.nodes[:2])
    begun = time.perf_counter()
    cluster.start(lost)
    await asyncio.to_thread(cluster.wait_ready, 60.0)
    ready_s = time.perf_counter() - begun
    # The digests are never equal while writes go on: these pause while the digests are compared.
    await asyncio.sleep(3.0)
    during_ms = foreground.p99_ms()
    foreground.stop = True
    await task
    await come_true(lambda: digests_equal(cluster))
    equal_s = time.perf_counter() - begun
    moved = await asyncio.to_thread(bytes_sent, cluster.nodes[:2]) - sent
    return {
        "ready after s": ready_s, "digests equal after s": equal_s,
        "moved bytes / changed bytes": moved / changed,
        "foreground p99 before ms": before_ms, "while it returns ms": during_ms,
    }  # fmt: skip


async def take_over(cluster: LocalCluster, documents: int) -> dict[str, float]:
    """Return the figures of a kill."""
    await filled(cluster, documents)
    await asyncio.sleep(2.0)
    victim, survivors = cluster.nodes[0], cluster.nodes[1:]
    sent = await asyncio.to_thread(bytes_sent, survivors)
    begun = time.perf_counter()
    await asyncio.to_thread(cluster.kill, victim)

    def all_open() -> bool:
        pages = [page(node, "/core/management") for node in survivors]
        return sum(each["slots"]["owned"] for each in pages) == SLOTS

    await come_true(all_open)
    open_s = time.perf_counter() - begun
    moved = await asyncio.to_thread(bytes_sent, survivors) - sent
    begun = time.perf_counter()
    cluster.start(victim)
    await asyncio.to_thread(cluster.wait_ready, 120.0)
    back_s = time.perf_counter() - begun
    return {
        "all slots open after s": open_s, "exchanged MB": moved / 1e6,
        "ready again after s": back_s,
    }  # fmt: skip


async def join(cluster: LocalCluster, documents: int) -> dict[str, float]:
    """Return the figures of a newcomer that is filled."""
    await filled(cluster, documents)
    foreground = Foreground()
    urls = cluster.urls
    task = asyncio.create_task(foreground.run(urls, documents, random.Random(1)))
    await asyncio.sleep(2.0)
    foreground.p99_ms()
    await asyncio.sleep(10.0)
    before_ms = foreground.p99_ms()
    begun = time.perf_counter()
    newcomer = cluster.add()

    def full() -> bool:
        group = page(cluster.nodes[0], "/core/node-groups/default")["configuration"]
        names = [each["id"] for each in group["members"]]
        return group["stage"] == "stable" and newcomer.name in names

    await come_true(full, 0.5)
    full_s = time.perf_counter() - begun
    during_ms = foreground.p99_ms()
    foreground.stop = True
    await task
    return {
        "a full member after s": full_s,
        "foreground p99 before ms": before_ms, "while it is filled ms": during_ms,
    }  # fmt: skip


async def run(what: str, documents: int) -> None:
    """Measure on a cluster of three, and print."""
    measure = {"return": come_back, "takeover": take_over, "join": join}[what]
    with tempfile.TemporaryDirectory(prefix="docstore-recovery-", dir="/var/tmp") as directory:
        cluster = LocalCluster(3, Path(directory))
        try:
            for node in cluster.nodes:
                cluster.start(node)
            await asyncio.to_thread(cluster.wait_ready)
            for name, value in (await measure(cluster, documents)).items():
                print(f"{what}: {name}: {value:.2f}", flush=True)
        finally:
            await asyncio.to_thread(cluster.stop)


def main() -> int:
    """Parse the command line and measure."""
    parser = argparse.ArgumentParser(prog="python -m bench.recovery", description=__doc__)
    parser.add_argument("what", choices=["return", "takeover", "join"])
    parser.add_argument("--documents", type=int, default=0)
    options = parser.parse_args()
    usual = 100_000 if options.what == "return" else 1_000_000
    asyncio.run(run(options.what, options.documents or usual))
    return 0


if __name__ == "__main__":
    sys.exit(main())
