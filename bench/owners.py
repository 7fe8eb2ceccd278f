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
import math
import statistics
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Protocol

import uvloop
from rich.console import Console
from rich.table import Table

from bench import leases, machine
from bench.cluster import Failed, Processes
from bench.docstores import Docstores, slot
from bench.etcd import Etcd, encode
from bench.generator import Writer, keep_busy
from bench.report import RESULTS
from bench.topics import HttpCaller

MEMBERS, CLIENTS = 3, 16
TTL_S, LONG_TTL_S = 3, 600
WARM_UP_S = 1.0
AT_ONCE = 8
"""Holders that die in one turn."""
ETCD, DOCSTORE, ANY = "etcd", "docstore", "docstore, any node"


class Locks(Protocol):
    """What is measured of a system's locks."""

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
        """Whose key has the id of its lease behind it."""
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
    scratch: Path
    etcd: str
    figures: dict[str, list[dict[str, float]]] = field(default_factory=dict)
    opened: int = 0
    died: int = 0

    def note(self, side: str, row: str, **figures: float) -> None:
        """Keep what one round gave for `row`, and say so."""
        self.figures.setdefault(f"{side} {row}", []).append(figures)
        shown = "  ".join(f"{name} {value:,.4g}" for name, value in figures.items())
        print(f"  {side:18} {row:12} {shown}", flush=True)

    def place(self, name: str) -> tuple[list[int], Path]:
        """Return ports and a directory that nobody has had."""
        self.opened += 1
        return machine.free_ports(MEMBERS), self.scratch / f"{name}{self.opened}"


async def measure_round(run: Run, turn: int) -> None:
    """Measure each system from fresh data."""
    if run.etcd:
        async with Etcd(run.etcd, *run.place("etcd"), count=8) as members:
            await load(run, ETCD, EtcdLocks(members), members.cpu_s)
            await failovers(run, ETCD, EtcdLocks(members))
            await keeping(run, ETCD, leases.EtcdLeases(members), members)
    async with Docstores(*run.place("docstore"), count=8, turn=turn) as nodes:
        await load(run, DOCSTORE, DocstoreLocks(nodes), nodes.cpu_s)
        await load(run, ANY, DocstoreLocks(nodes, is_knowing=False), nodes.cpu_s)
        await failovers(run, DOCSTORE, DocstoreLocks(nodes))
        await keeping(run, DOCSTORE, leases.DocstoreLeases(nodes), nodes)


async def load(run: Run, side: str, locks: Locks, cpu_s: Callable[[], float]) -> None:
    """Lock and unlock, one client and many, each with a lock of its own."""
    async with writers(locks) as busy:
        await keep_busy(busy, WARM_UP_S)
        for row, some in (("pairs_1", busy[:1]), (f"pairs_{CLIENTS}", busy)):
            before = cpu_s()
            flow = await keep_busy(some, run.seconds)
            pairs = flow.things / 2
            figures = asdict(flow) | {"rate": flow.rate / 2, "things": pairs}
            run.note(side, row, **figures, cpu_us=(cpu_s() - before) * 1e6 / pairs)


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
            run.note(side, "died", s=waited_s, beyond_ms=(waited_s - TTL_S) * 1000)


async def keeping(run: Run, side: str, held: leases.Leases, members: Processes) -> None:
    """Keep many leases alive."""
    run.note(side, "leases", **await leases.measure(held, members, run.seconds))


@dataclass(frozen=True)
class Row:
    """A line of the table. ratio: at least so many times etcd's. most: what none may exceed.

    price: at most so many times etcd's.
    """

    key: str
    title: str
    figure: str
    unit: str
    ratio: float | None = None
    most: float | None = None
    price: float | None = None


ROWS = [
    Row("pairs_1", "lock and unlock, 1 client", "rate", "/s", ratio=0.8),
    Row("pairs_1", "   p50 of a request", "p50_ms", "ms"),
    Row(f"pairs_{CLIENTS}", f"lock and unlock, {CLIENTS} clients", "rate", "/s", ratio=0.8),
    Row(f"pairs_{CLIENTS}", "   p99 of a request", "p99_ms", "ms"),
    Row(f"pairs_{CLIENTS}", "   processor of three members", "cpu_us", "us"),
    Row("died", f"holder dies, TTL {TTL_S} s: next holds after", "s", "s", most=TTL_S + 0.5),
    Row("leases", f"{leases.COUNT:,} leases kept alive: of a core", "kept", "%", price=1.5),
    Row("leases", "   with all of them at rest", "at_rest", "%"),
    Row("leases", "   without any", "without", "%"),
    Row("leases", "   memory of a member by them", "mib", "MiB"),
]
FAILOVER_RATIO_MAX = 1.0


def middle(run: Run, side: str, row: Row) -> float | None:
    """Return the median over the rounds, None if it was not measured."""
    found = run.figures.get(f"{side} {row.key}", [])
    return statistics.median(each[row.figure] for each in found) if found else None


def is_met(run: Run, row: Row) -> bool | None:
    """Say whether the goal of a row is met; None if it has none or cannot be told."""
    ours, theirs = middle(run, DOCSTORE, row), middle(run, ETCD, row)
    if ours is None:
        return None
    if row.most is not None:
        longest = max(each[row.figure] for each in run.figures[f"{DOCSTORE} {row.key}"])
        return longest <= row.most and (theirs is None or ours <= FAILOVER_RATIO_MAX * theirs)
    if theirs is None or (row.ratio is None and row.price is None):
        return None
    return ours >= (row.ratio or 0.0) * theirs and ours <= (row.price or math.inf) * theirs


def show(run: Run) -> bool:
    """Print the table; say whether no line was missed, and every request answered."""
    console = Console()
    if not console.is_terminal:  # A pipe has no width; the table has.
        console = Console(width=120)
    shown = Table("work", title="locks and leases beside etcd, medians", title_justify="left")
    for name in ("etcd", "docstore", "ratio", "through any node", "goal", ""):
        shown.add_column(name, justify="right" if name not in {"goal", ""} else "left")
    for row in ROWS:
        theirs, ours, by_any = (middle(run, side, row) for side in (ETCD, DOCSTORE, ANY))
        goal = f"≥ {row.ratio:g}x" if row.ratio else ""
        goal = f"all ≤ {row.most:g} s, ≤ {FAILOVER_RATIO_MAX:g}x" if row.most else goal
        goal = f"≤ {row.price:g}x" if row.price else goal
        word = {None: "", True: "[green]met[/]", False: "[red]missed[/]"}[is_met(run, row)]
        shown.add_row(
            row.title,
            *(_number(value, row.unit) for value in (theirs, ours)),
            f"{ours / theirs:.2f}x" if ours and theirs else "",
            _number(by_any, row.unit), goal, word,
        )  # fmt: skip
    console.print(shown)
    wrong = sum(each.get("errors", 0) for found in run.figures.values() for each in found)
    if wrong:
        print(f"{wrong:.0f} requests were not answered with 2xx")
    return not wrong and all(is_met(run, row) is not False for row in ROWS)


def _number(value: float | None, unit: str) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"


def arguments() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.owners", description=__doc__)
    parser.add_argument("--short", action="store_true", help="one quick round")
    parser.add_argument("--alone", action="store_true", help="without etcd")
    parser.add_argument("--dir", default="/var/tmp", help="a directory on a real disk")
    parser.add_argument("--name", default="owners", help="of the file under bench/results/")
    return parser.parse_args()


def etcd_program(*, alone: bool) -> str:
    """Return where etcd is; "" when it is not wanted, or cannot be had."""
    if alone:
        return ""
    try:
        return machine.require("etcd", "etcd-server")
    except machine.Missing as missing:
        print(f"{missing}; docstore is measured alone", flush=True)
        return ""


async def measure(options: argparse.Namespace) -> bool:
    """Measure as asked; say whether every line is met."""
    with machine.scratch(options.dir) as scratch:
        etcd = etcd_program(alone=options.alone)
        facts = await machine.facts(options.dir)
        if etcd:
            facts["etcd"] = await machine.version(r"etcd Version: (\S+)", etcd, "--version")
        rounds, seconds, turns = (1, 3.0, 1) if options.short else (3, 8.0, 3)
        run = Run(rounds, seconds, turns, scratch, etcd)
        for turn in range(rounds):
            print(f"round {turn + 1} of {rounds}", flush=True)
            await measure_round(run, turn)
    met = show(run)
    RESULTS.mkdir(exist_ok=True)
    kept = json.dumps({"facts": facts, "rounds": run.figures}, indent=1) + "\n"
    (RESULTS / f"{options.name}.json").write_text(kept, "utf-8")
    print(f"kept in bench/results/{options.name}.json")
    return met


def main() -> int:
    """Run, and turn what can go wrong into words and an exit code."""
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return 0 if runner.run(measure(arguments())) else 1
    except machine.Missing as missing:
        print(missing, file=sys.stderr)
        return 2
    except (Failed, TimeoutError) as failed:
        print(f"failed: {failed!r}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("stopped; nothing was kept", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
