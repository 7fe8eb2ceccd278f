"""`python -m bench.connections`: one node of three that has very many connections.

- PUT and GET by 64 clients of that node, alone, beside 2,000 connections that say nothing, and
  beside as many as there may be, 10,000 less those of the measurement itself;
- what such a connection costs in memory;
- how connections above the limit are refused;
- 2,000 connections that all ask as fast as they are answered, and their answers;
- how soon a node ends after SIGTERM while 2,000 are open.

Exit codes as of `python -m bench`.
"""

import argparse
import asyncio
import contextlib
import resource
import signal
import sys
import time
from collections import Counter
from typing import Any

from bench import alone, documents, machine
from bench.cluster import Failed, Member, Target
from bench.docstores import Docstores
from bench.load import Load, Wrk, percentile
from bench.topics import HttpCaller

DOCUMENTS, CLIENTS = 3_000, 64
FEW, MANY = 2_000, 9_800
TOO_MANY = 400
PER_ADDRESS = 900
"""Connections of one source address, which may have 1,000."""
AT_ONCE = 100
PING = documents.request("GET", "/health/live").encode()


class Connections:
    """Connections to one node, from as many loopback addresses as they need."""

    def __init__(self, member: Member) -> None:
        host, port = member.address.split(":")
        self._address = (host, int(port))
        self.callers: list[HttpCaller] = []

    async def grow(self, more: int) -> dict[str, float]:
        """Make `more` connections, and ask each once; return how fast, and their answers."""
        began, answers = time.perf_counter(), Counter[str]()
        until = len(self.callers) + more
        while len(self.callers) < until:
            numbers = range(len(self.callers), min(until, len(self.callers) + AT_ONCE))
            made = await asyncio.gather(*map(self._connect, numbers))
            answers.update(_status(caller) for caller in made)
            self.callers += made
        return {"made_per_s": more / (time.perf_counter() - began), **answers}

    async def _connect(self, number: int) -> HttpCaller:
        here = (f"127.0.0.{2 + number // PER_ADDRESS}", 0)
        loop = asyncio.get_running_loop()
        _, caller = await loop.create_connection(HttpCaller, *self._address, local_addr=here)
        with contextlib.suppress(Failed):  # Above the limit: refused before it asks, and closed.
            await caller.call(PING)
        return caller

    async def keep_busy(self, target: Target, seconds: float) -> dict[str, Any]:
        """Have each send its next request as soon as the last is answered."""
        took_us: Counter[int] = Counter()
        answers: Counter[str] = Counter()
        until = time.perf_counter() + seconds

        async def work(number: int, caller: HttpCaller) -> None:
            while (asked := time.perf_counter()) < until:
                await caller.call(_request(target, number))
                took_us[round((time.perf_counter() - asked) * 1e6)] += 1
                answers[_status(caller)] += 1
                number += len(self.callers)

        await asyncio.gather(*(work(*each) for each in enumerate(self.callers)))
        p50_ms, p99_ms = (percentile(took_us, share) / 1000 for share in (0.5, 0.99))
        return {"rate": took_us.total() / seconds, "p50_ms": p50_ms, "p99_ms": p99_ms, **answers}

    def close(self) -> None:
        """Hang up all."""
        for caller in self.callers:
            caller.close()
        self.callers.clear()


def _status(caller: HttpCaller) -> str:
    return caller.head[9:12].decode() or "closed"


def _request(target: Target, number: int) -> bytes:
    head = target.heads[number % len(target.heads)]
    if target.tails:
        head += f"{number:0{documents.NUMBER_DIGITS}}{target.tails[number % len(target.tails)]}"
    return head.encode()


class Measured(alone.Rows):
    """One group, the node that has the connections, and what was found."""

    def __init__(self, cluster: Docstores, wrk: Wrk, seconds: float) -> None:
        self._cluster, self._wrk, self._seconds = cluster, wrk, seconds
        self._node = cluster.members[0]
        (self._put, *_), (self._get, *_) = cluster.targets(cluster.links)
        super().__init__()

    async def rows(self) -> None:
        await self._loads("alone")
        before_mib = self._node.rss_mib()
        held = Connections(self._node)
        for count in (FEW, MANY):
            made = await held.grow(count - len(held.callers))
            kib = (self._node.rss_mib() - before_mib) * 1024 / count
            self.note(f"idle_{count}", {"kib_each": kib, **made})
            await self._loads(f"beside_{count}_idle")
            self._check_open(held)
        self.note("too_many", await held.grow(TOO_MANY))
        held.close()
        await held.grow(FEW)
        for row, target in (("put", self._put), ("get", self._get)):
            figures = await held.keep_busy(target, self._seconds)
            self.note(f"{row}_{FEW}_busy", {**figures, "node_mib": self._node.rss_mib()})
        began = time.perf_counter()
        await self._node.end(signal.SIGTERM)
        self.note(f"end_with_{FEW}_idle", {"s": time.perf_counter() - began})
        held.close()

    async def _loads(self, when: str) -> None:
        for row, target in (("put", self._put), ("get", self._get)):
            self.note_load(f"{row}_{when}", await self._drive(target))

    async def _drive(self, target: Target) -> Load:
        return await self._wrk.drive(
            self._cluster, [target], connections=CLIENTS, seconds=self._seconds
        )

    def _check_open(self, held: Connections) -> None:
        closed = sum(caller.is_closed for caller in held.callers)
        if closed:
            raise Failed(f"{closed} connections were closed meanwhile")


def arguments() -> argparse.Namespace:
    parser = alone.parser("bench.connections", __doc__)
    parser.add_argument("--seconds", type=int, default=6, help="per row")
    return parser.parse_args()


async def run(options: argparse.Namespace) -> dict[str, Any]:
    wrk = machine.require("wrk", "wrk")
    with machine.scratch(options.dir) as scratch:
        ports = machine.free_ports(3)
        async with Docstores(ports, scratch / "connections", DOCUMENTS, 0) as cluster:
            measured = Measured(cluster, Wrk(wrk, scratch), options.seconds)
            await measured.rows()
        return measured.figures


def main() -> int:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # Nodes raise theirs.
    return alone.outcome(run, arguments())


if __name__ == "__main__":
    sys.exit(main())
