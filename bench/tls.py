"""`python -m bench.tls`: what TLS costs, beside the same group in plain text, in turns.

PUT and GET by 64 clients of one node of three, of documents anywhere, so that clients' connections
and links take part; and new connections with one request each. Exit codes as of `python -m bench`.
"""

import argparse
import asyncio
import statistics
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from bench import alone, documents, machine
from bench.cluster import Failed, Target
from bench.load import Wrk
from docstore.client import Client, LocalCluster
from docstore.runtime.tls.authority import make_authority, make_certificate

DOCUMENTS, CLIENTS, CONNECTIONS = 3_000, 64, 300
PING = documents.request("GET", "/health/live").encode()


class Group(LocalCluster):
    """Three nodes, and the processor time that they have used."""

    def cpu_s(self) -> float:
        """Return it, user and system, in seconds."""
        running = [node.process.pid for node in self.nodes if node.process is not None]
        return sum(map(machine.cpu_s, running))

    async def prepare(self) -> None:
        """Store what is read and replaced."""
        async with Client(self.urls, ssl=self.ssl, timeout_s=60) as client:
            await client.declare("/bench")
            rows = [(link, {"number": "0", "text": link}) for link in documents.links(DOCUMENTS)]
            for first in range(0, DOCUMENTS, 500):
                batch = rows[first : first + 500]
                await asyncio.gather(*(client.put(link, value) for link, value in batch))

    async def connect(self, count: int) -> float:
        """Make connections one after the other, each for one request; return their processor time.

        In microseconds of all nodes, for each.
        """
        host, port = self.nodes[0].url.partition("://")[2].split(":")
        began = self.cpu_s()
        for _ in range(count):
            # asyncio keeps no sessions: each handshake is a whole one.
            reader, writer = await asyncio.open_connection(host, int(port), ssl=self.ssl)
            writer.write(PING)
            if not (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200"):
                raise Failed("a new connection was not answered")
            writer.transport.abort()
        return (self.cpu_s() - began) / count * 1e6


async def rounds(groups: Sequence[Group], wrk: Wrk, options: argparse.Namespace) -> dict[str, Any]:
    """Measure the groups in turn; return the medians."""
    links, tails = documents.links(DOCUMENTS), documents.tails(1)
    found: dict[str, list[float]] = {}
    for group in groups:
        await group.prepare()
    for _ in range(options.rounds):
        for name, group in zip(("plain", "tls"), groups, strict=True):
            url = group.nodes[0].url
            for row, target in (
                ("put", Target(url, [documents.put(link) for link in links], tails)),
                ("get", Target(url, [documents.request("GET", link) for link in links])),
            ):
                load = await wrk.drive(
                    group, [target], connections=CLIENTS, seconds=options.seconds
                )
                if load.errors:
                    raise Failed(f"{row} {name}: {load.errors} requests failed")
                figures = {
                    "per_s": load.rate, "p50_ms": load.p50_ms, "p99_ms": load.p99_ms,
                    "cpu_us": load.cpu_s / load.requests * 1e6,
                }  # fmt: skip
                for figure, value in figures.items():
                    found.setdefault(f"{row}_{name}_{figure}", []).append(value)
            new = found.setdefault(f"connection_{name}_cpu_us", [])
            new.append(await group.connect(CONNECTIONS))
    for name, values in found.items():
        print(f"{name:24} {statistics.median(values):10,.2f}   {[round(v, 2) for v in values]}")
    return {name: statistics.median(values) for name, values in found.items()}


async def run(options: argparse.Namespace) -> dict[str, Any]:
    wrk = machine.require("wrk", "wrk")
    with machine.scratch(options.dir) as scratch, ExitStack() as stack:
        certs = scratch / "certs"
        make_authority(certs, "bench", 1)
        for node in ("n1", "n2", "n3"):
            make_certificate(certs, [node], ["127.0.0.1"], 1)
        plain = stack.enter_context(Group(3, scratch / "plain"))
        with_tls = stack.enter_context(Group(3, scratch / "tls", certs=certs))
        return await rounds([plain, with_tls], Wrk(wrk, scratch), options)


def main() -> int:
    parser = alone.parser("bench.tls", __doc__)
    parser.add_argument("--seconds", type=int, default=4, help="per row")
    parser.add_argument("--rounds", type=int, default=2)
    return alone.outcome(run, parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
