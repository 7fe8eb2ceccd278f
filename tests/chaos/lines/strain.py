"""Many clients, nodes restarted one by one, overload: lines R21, R23, R24, R38."""

import asyncio
import re
import resource
import signal
import statistics
import subprocess
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from docstore.client import Client, RequestFailed, Unanswered, Unreachable
from docstore.client.local import LocalNode
from tests.chaos.lines.stage import Seen, Stage, line
from tests.chaos.mix import FACTORY

EXIT_S = 10.0
CAP_MB, SHARE, WINDOW_S, WINDOWS = 512, 0.9, 2.0, 5
FULL_CLIENTS, OVER_CLIENTS, PACED_CLIENTS, PACED_LOAD = 64, 3000, 200, 0.8
PAIRS = 9
PUTS = """
wrk.method = "PUT"
wrk.headers["Content-Type"] = "application/json"
local n = 0
request = function()
  n = n + 1
  return wrk.format("PUT", "/chaos/over" .. (n % 500), nil, '{"n":' .. n .. '}')
end
"""
PAUSES = """
delay = function() return -math.log(1 - math.random()) * %f end
"""


@line("R21", "all nodes restarted one by one under load, again and again: at most 1 % of errors,"
             " nothing lost")  # fmt: skip
async def rolling(stage: Stage) -> Seen:
    """Restart by SIGTERM, one after the other, while the client of the package works."""
    seen = await _restarted(stage)
    return Seen(seen.failed <= 0.01 * seen.requests and not seen.wrong, seen.figures, seen.wrong)


@line("R38", "SIGTERM under load, 50 times: no request fails of a client that asks again, each node"
             " ends with 0 within 10 s")  # fmt: skip
async def stopping(stage: Stage) -> Seen:
    """Do the same, and compare it with the promise about rolling restarts."""
    seen = await _restarted(stage)
    in_time = max(seen.exits) <= EXIT_S and set(seen.codes) == {0}
    return Seen(seen.failed == 0 and in_time and not seen.wrong, seen.figures, seen.wrong)


@dataclass
class Restarted:
    """Observations while all nodes were restarted in turn."""

    told: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    exits: list[float] = field(default_factory=list)
    """Seconds from SIGTERM to the end of the process."""
    codes: list[int] = field(default_factory=list)

    @property
    def requests(self) -> int:
        """Return the number of all requests."""
        return self.told.total()

    @property
    def failed(self) -> int:
        """Return the number of requests without the right answer."""
        return self.requests - self.told["answered"]

    @property
    def figures(self) -> str:
        """Return the text of the report."""
        exits = sorted(self.exits)
        return (
            f"{len(exits)} restarts, {self.requests:,} requests, {self.failed} errors"
            f" {dict(self.told)}; ended after {exits[len(exits) // 2]:.1f} s, at most"
            f" {exits[-1]:.1f} s, with {sorted(set(self.codes))}"
        )


async def _restarted(stage: Stage) -> Restarted:
    urls = [node.url for node in stage.arena.members]
    links = [f"{FACTORY}/roll{number}" for number in range(24)]
    seen = Restarted()
    last: dict[str, int] = {}
    stop = asyncio.Event()

    async def work(name: int) -> None:
        async with Client(urls) as store:
            number = 0
            while not stop.is_set():
                number += 1
                link = links[(name * 5 + number) % len(links)]
                try:
                    if number % 2:
                        version = (await store.put(link, {"n": number})).version
                        last[link] = max(version, last.get(link, -1))
                    else:
                        at_least = last.get(link, -1)
                        version = (await store.get(link)).version
                        if version < at_least:
                            seen.wrong.append(f"{link}: read {version} after {at_least}")
                    seen.told["answered"] += 1
                except (RequestFailed, Unanswered, Unreachable) as error:
                    if not (isinstance(error, RequestFailed) and error.status == 404):
                        seen.told[f"{type(error).__name__}"] += 1
                await asyncio.sleep(0.005)

    tasks = [asyncio.create_task(work(name)) for name in range(8)]
    for _ in range(stage.share_of(10)):
        for node in stage.arena.members:
            await restart(stage, node, seen)
    stop.set()
    await asyncio.gather(*tasks)
    return seen


async def restart(stage: Stage, node: LocalNode, seen: Restarted) -> None:
    """Restart a node by SIGTERM; return when all is well again."""
    assert node.process is not None
    begun = time.monotonic()
    node.process.send_signal(signal.SIGTERM)
    seen.codes.append(await asyncio.to_thread(node.process.wait, 2 * EXIT_S))
    seen.exits.append(time.monotonic() - begun)
    node.process = None
    stage.arena.start_node(node)
    await stage.arena.recover()


@line("R23", "a strong GET costs at the median 2 ms more than a stale one at most, and has 70 % of"
             " its throughput with 64 clients")  # fmt: skip
async def reading(stage: Stage) -> Seen:
    """Let wrk read a document at its owner, both ways, in turns; compare each pair alone."""
    link = f"{FACTORY}/read"
    async with stage.session.put(stage.arena.members[0].url + link, json={"n": 1}) as made:
        assert made.status == 201
    owner = await asyncio.to_thread(stage.arena.cluster.owner_of, link)
    seen: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for _ in range(PAIRS):
        for clients in (1, 64):
            for level in ("strong", "stale"):
                run = await asyncio.to_thread(_wrk, owner.url + link, level, clients)
                seen.setdefault((level, clients), []).append(run)
    more_ms = statistics.median(
        strong[0] - stale[0]
        for strong, stale in zip(seen["strong", 1], seen["stale", 1], strict=True)
    )
    rates = [
        strong[1] / stale[1]
        for strong, stale in zip(seen["strong", 64], seen["stale", 64], strict=True)
    ]
    rate = statistics.median(rates)
    stale_rate = statistics.median(run[1] for run in seen["stale", 64])
    figures = (
        f"{more_ms:+.2f} ms; {rate:.0%} ({min(rates):.0%} to {max(rates):.0%}) of"
        f" {stale_rate:,.0f} a second"
    )
    return Seen(more_ms <= 2.0 and rate >= 0.7, figures)


def _wrk(url: str, level: str, clients: int) -> tuple[float, float]:
    """Return the median in ms and the requests per second."""
    header = ["-H", "Docstore-Consistency: stale"] if level == "stale" else []
    command = ["wrk", "-t1", f"-c{clients}", "-d2s", "--latency", *header, url]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "Non-2xx" not in text, text
    median = re.search(r"50%\s+([\d.]+)(us|ms)", text)
    rate = re.search(r"Requests/sec:\s+([\d.]+)", text)
    assert median is not None, text
    assert rate is not None, text
    return float(median[1]) / (1000 if median[2] == "us" else 1), float(rate[1])


@line("R24", "60 s of far more than it can take, then 0.8 of its full load: 90 % of the normal rate"
             " within 10 s, memory below 512 MB a node", repair_s=3600.0)  # fmt: skip
async def overload(stage: Stage) -> Seen:
    """Offer 0.8 of a full load, then far more than the group can take for a minute, then 0.8 again.

    A full load is that of 64 clients that never pause. So 0.8 of it leaves room for a host whose
    speed changes by a quarter from one second to the next, with an overload or without. It comes
    from 200 clients whose pauses give this rate. The overload are 3,000 clients that never pause.

    Rows are verified as often as by default: to verify the hundred thousand rows that 3,000 clients
    write every five seconds would take a fifth of two cores.
    """
    full, _ = await _puts(stage, FULL_CLIENTS, 10.0)
    pause_s = PACED_CLIENTS / (PACED_LOAD * full)
    before = await _windows(stage, pause_s)
    over, refused = await _puts(stage, OVER_CLIENTS, max(20.0, 60 * stage.share))
    greatest_mb = max(_rss_mb(node) for node in stage.arena.members)
    after = await _windows(stage, pause_s)
    normal = statistics.median(before)
    back = next((n for n, rate in enumerate(after, 1) if rate >= SHARE * normal), 99)
    figures = (
        f"{full:,.0f} PUTs/s by {FULL_CLIENTS} clients; {_list(before)} in {WINDOW_S:.0f} s each"
        f" by {PACED_CLIENTS} that pause; {over:,.0f} by {OVER_CLIENTS:,} with {refused:,} refused;"
        f" then {_list(after)}; {greatest_mb:.0f} MB"
    )
    enough = over >= 1.5 * full
    return Seen(enough and back * WINDOW_S <= 10 and greatest_mb <= CAP_MB, figures)


async def _windows(stage: Stage, pause_s: float) -> list[float]:
    """Return the PUTs a second of the clients that pause in windows, one after the other."""
    return [(await _puts(stage, PACED_CLIENTS, WINDOW_S, pause_s))[0] for _ in range(WINDOWS)]


def _list(rates: list[float]) -> str:
    return ", ".join(f"{rate:,.0f}" for rate in rates)


async def _puts(
    stage: Stage, clients: int, seconds: float, pause_s: float = 0.0
) -> tuple[float, int]:
    """Return the PUTs a second of these clients, and how many were rejected.

    They pause before each request, for a time that is exponentially distributed.
    """
    script = stage.arena.directory / "put.lua"
    text = PUTS + (PAUSES % (1000 * pause_s) if pause_s else "")
    await asyncio.to_thread(script.write_text, text)
    nodes = stage.arena.members
    flags = ["-t1", f"-c{clients // len(nodes)}", f"-d{seconds:.0f}s", "-s", str(script)]
    runs = [
        await asyncio.create_subprocess_exec("wrk", *flags, node.url, stdout=subprocess.PIPE)
        for node in nodes
    ]
    rate, refused = 0.0, 0
    for run in runs:
        text = (await run.communicate())[0].decode()
        rate += float(text.split("Requests/sec:")[1].split()[0])
        refused += sum(int(found) for found in re.findall(r"Non-2xx.*: (\d+)", text))
    return rate, refused


def _rss_mb(node: LocalNode) -> float:
    assert node.process is not None
    fields = Path(f"/proc/{node.process.pid}/statm").read_text().split()
    return int(fields[1]) * resource.getpagesize() / 1e6
