"""Locks and leases beside etcd's: one machine, one run, one system loaded at a time.

`python -m bench.owners` prints the table and keeps the figures in bench/results/owners.json. Both
have three members with their defaults. etcd is asked at its leader, docstore at the owner of each
lock and through any node. A holder that dies is one that is not heard any more: its lease is never
renewed, and what is measured is the time from its last word until the next one has the lock.

Exit codes: 0 every line is met, 1 one is missed, a request failed or a system broke, 2 something is
missing on this machine. Without etcd docstore is measured alone, and what is a comparison is not
judged.
"""

import argparse
import asyncio
import itertools
import json
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from typing import Protocol

from bench import alone, leases, machine
from bench.cluster import Failed, Processes
from bench.docstores import ANY, Docstores, slot
from bench.etcd import Etcd, encode
from bench.generator import Writer, keep_busy
from bench.report import DOCSTORE, THROUGH_ANY, Report, Row
from bench.topics import HttpCaller

MEMBERS, CLIENTS = 3, 16
TTL_S, LONG_TTL_S = 3, 600
WARM_UP_S = 1.0
AT_ONCE = 8
"""Holders that die in one turn."""
ETCD = "etcd"


class Locks(Protocol):
    """The locks of a system that is measured."""

    async def place(self, number: int) -> str:
        """Return the address that a client asks about a lock."""

    async def pair(self, number: int) -> tuple[bytes, bytes]:
        """Return what acquires and releases a lock of its own, over and over."""

    async def die(self, number: int) -> float:
        """Take a lock, fall silent, and return for how long the next one waited."""


@dataclass
class DocstoreLocks:
    """Locks of docstore. is_knowing: whether its clients know the owners."""

    nodes: Docstores
    is_knowing: bool = True

    async def place(self, number: int) -> str:
        """The owner of the lock's document, or each node in turn."""
        members = self.nodes.members
        owner = self.nodes.table[slot(f"l{number}", len(self.nodes.table))]
        owners = [each for each in members if each.name == owner]
        return (owners[0] if self.is_knowing else members[number % MEMBERS]).address

    async def _lease(self, name: str, ttl_s: int) -> str:
        url = f"http://{self.nodes.members[0].address}/core/leases"
        link = f"/core/leases/{name}"
        await self.nodes.ask("POST", url, json={"documentSelfLink": link, "ttlMs": ttl_s * 1000})
        return link

    async def pair(self, number: int) -> tuple[bytes, bytes]:
        """A release by the lease needs no token, so that both requests are the same each time.

        The lease has the partition key of the lock, as one that the client of docstore makes.
        """
        lease = await self._lease(f"l{number}~pair{self.is_knowing}", LONG_TTL_S)
        acquire, release = (
            _request("PATCH", f"/core/locks/l{number}",
                     {"kind": kind, "candidate": f"c{number}", "lease": lease})
            for kind in ("AcquireRequest", "ReleaseRequest")
        )  # fmt: skip
        return acquire, release

    async def die(self, number: int) -> float:
        """Wait behind a holder whose lease was granted, and then never renewed."""
        url = f"http://{await self.place(number)}/core/locks/d{number}"
        patient = await self._lease(f"d{number}~next", LONG_TTL_S)
        heard_at = time.perf_counter()
        mortal = await self._lease(f"d{number}~dies", TTL_S)
        for candidate, lease in (("dies", mortal), ("next", patient)):
            asked = {"kind": "AcquireRequest", "candidate": candidate, "lease": lease}
            page = await self.nodes.ask("PATCH", url, json=asked, headers={"Prefer": "wait=60"})
        assert page["won"]
        return time.perf_counter() - heard_at


@dataclass
class EtcdLocks:
    """Locks of etcd, through its gateway, at the leader."""

    members: Etcd

    async def place(self, number: int) -> str:
        """The leader."""
        return self.members.leader

    async def _lease(self, ttl_s: int) -> str:
        url = f"http://{self.members.leader}/v3/lease/grant"
        granted = await self.members.ask("POST", url, json={"TTL": ttl_s})
        if int(str(granted["TTL"])) != ttl_s:
            raise Failed(f"etcd grants {granted['TTL']} s, not {ttl_s}")
        return str(granted["ID"])

    async def pair(self, number: int) -> tuple[bytes, bytes]:
        """Return the requests; the key ends with the id of its lease."""
        name, lease = f"l{number}", await self._lease(LONG_TTL_S)
        key = f"{name}/{int(lease):x}"
        return (
            _request("POST", "/v3/lock/lock", {"name": encode(name), "lease": lease}),
            _request("POST", "/v3/lock/unlock", {"key": encode(key)}),
        )

    async def die(self, number: int) -> float:
        """Wait behind a holder whose lease was granted, and then never renewed."""
        url = f"http://{self.members.leader}/v3/lock/lock"
        patient = await self._lease(LONG_TTL_S)
        heard_at = time.perf_counter()
        mortal = await self._lease(TTL_S)
        for lease in (mortal, patient):
            await self.members.ask("POST", url, json={"name": encode(f"d{number}"), "lease": lease})
        return time.perf_counter() - heard_at


def _request(method: str, path: str, body: dict[str, object]) -> bytes:
    raw = json.dumps(body)
    head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(raw)}\r\n\r\n{raw}".encode()


@dataclass
class Run:
    """One run: how much of everything, where, and what was found so far."""

    rounds: int
    seconds: float
    turns: int
    places: machine.Places
    etcd: str
    report: Report
    died: int = 0


async def measure_round(run: Run, turn: int) -> None:
    """Measure each system from fresh data."""
    if run.etcd:
        async with Etcd(run.etcd, *run.places.new("etcd"), count=8) as members:
            await load(run, ETCD, EtcdLocks(members), members.cpu_s)
            await failovers(run, ETCD, EtcdLocks(members))
            await keeping(run, ETCD, leases.EtcdLeases(members), members)
    async with Docstores(*run.places.new("docstore"), count=8, turn=turn) as nodes:
        await load(run, DOCSTORE, DocstoreLocks(nodes), nodes.cpu_s)
        await load(run, DOCSTORE, DocstoreLocks(nodes, is_knowing=False), nodes.cpu_s, ANY)
        await failovers(run, DOCSTORE, DocstoreLocks(nodes))
        await keeping(run, DOCSTORE, leases.DocstoreLeases(nodes), nodes)


async def load(
    run: Run, side: str, locks: Locks, cpu_s: Callable[[], float], way: str = ""
) -> None:
    """Lock and unlock, one client and many, each with a lock of its own."""
    async with writers(locks) as busy:
        await keep_busy(busy, WARM_UP_S)
        for row, some in (("pairs_1", busy[:1]), (f"pairs_{CLIENTS}", busy)):
            before = cpu_s()
            flow = await keep_busy(some, run.seconds)
            pairs = flow.things / 2
            figures = asdict(flow) | {"rate": flow.rate / 2, "things": pairs}
            run.report.note(side, row + way, **figures, cpu_us=(cpu_s() - before) * 1e6 / pairs)


@asynccontextmanager
async def writers(locks: Locks) -> AsyncIterator[Sequence[Writer]]:
    """Give clients that acquire and release, one request after the other."""
    loop = asyncio.get_running_loop()
    busy = []
    for number in range(CLIENTS):
        pair = await locks.pair(number)
        host, _, port = (await locks.place(number)).partition(":")
        _, caller = await loop.create_connection(HttpCaller, host, int(port))
        busy.append(Writer(caller, itertools.cycle(pair)))
    try:
        yield busy
    finally:
        for writer in busy:
            writer.caller.close()


async def failovers(run: Run, side: str, locks: Locks) -> None:
    """Let holders die, some at once; note how long each successor waited."""
    for _ in range(run.turns):
        run.died += AT_ONCE
        numbers = range(run.died, run.died + AT_ONCE)
        for waited_s in await asyncio.gather(*map(locks.die, numbers)):
            run.report.note(side, "died", s=waited_s, beyond_ms=(waited_s - TTL_S) * 1000)


async def keeping(run: Run, side: str, held: leases.Leases, members: Processes) -> None:
    """Keep many leases alive."""
    run.report.note(side, "leases", **await leases.measure(held, members, run.seconds))


ROWS = [
    Row("pairs_1", "lock and unlock, 1 client", ratio=0.8),
    Row("pairs_1", "   p50 of a request", "p50_ms", "ms"),
    Row("pairs_1" + ANY, THROUGH_ANY),
    Row(f"pairs_{CLIENTS}", f"lock and unlock, {CLIENTS} clients", ratio=0.8),
    Row(f"pairs_{CLIENTS}", "   p99 of a request", "p99_ms", "ms"),
    Row(f"pairs_{CLIENTS}", "   processor of three members", "cpu_us", "us"),
    Row(f"pairs_{CLIENTS}" + ANY, THROUGH_ANY),
    Row("died", f"holder dies, TTL {TTL_S} s: next holds after", "s", "s", price=1.0),
    Row("died", "   longest", "s", "s", share=1.0, most=TTL_S + 0.5, spared=0),
    Row("leases", f"{leases.COUNT:,} leases kept alive: of a core", "kept", "%", price=1.5),
    Row("leases", "   with all of them at rest", "at_rest", "%"),
    Row("leases", "   without any", "without", "%"),
    Row("leases", "   memory of a member by them", "mib", "MiB"),
]


def arguments() -> argparse.Namespace:
    parser = alone.parser("bench.owners", __doc__, "owners")
    parser.add_argument("--short", action="store_true", help="one quick round")
    parser.add_argument("--alone", action="store_true", help="without etcd")
    return parser.parse_args()


async def measure(options: argparse.Namespace) -> bool:
    """Measure as asked; say whether every line is met."""
    report = Report("locks and leases beside etcd", ETCD, ROWS)
    with machine.scratch(options.dir) as scratch:
        etcd = machine.rival("etcd", "etcd-server", alone=options.alone)
        facts = await machine.facts(options.dir)
        if etcd:
            facts["etcd"] = await machine.version(r"etcd Version: (\S+)", etcd, "--version")
        rounds, seconds, turns = (1, 3.0, 1) if options.short else (3, 8.0, 3)
        run = Run(rounds, seconds, turns, machine.Places(scratch, MEMBERS), etcd, report)
        for turn in range(rounds):
            print(f"round {turn + 1} of {rounds}", flush=True)
            await measure_round(run, turn)
    report.show()
    report.keep(options.name, facts)
    return report.is_met()


if __name__ == "__main__":
    asked = arguments()
    sys.exit(alone.exit_code(lambda: measure(asked)))
