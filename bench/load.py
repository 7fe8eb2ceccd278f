"""wrk, one process of one thread per target, and the sum of what they report.

Several processes rather than several threads of one: every connection is then used (wrk gives
16 connections on 3 threads to 15), and each target can have its own address and documents.
"""

import asyncio
import json
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from bench.cluster import Failed, Target

LUA = Path(__file__).with_name("load.lua")


@dataclass(frozen=True)
class Load:
    """The figures of one row of one round. Times in ms, errors counted, processor time in s."""

    rate: float
    p50_ms: float
    p99_ms: float
    requests: int
    errors: int
    cpu_s: float


class Busy(Protocol):
    """A cluster that is measured."""

    def cpu_s(self) -> float:
        """Return the processor time that all members have used."""


class Wrk:
    """The load generator, with the plans that it was given so far."""

    def __init__(self, program: str, directory: Path) -> None:
        self.program = program
        self.directory = directory
        self.plans = 0

    def plan(self, target: Target) -> Path:
        """Write the requests of `target` where wrk can load them."""
        self.plans += 1
        path = self.directory / f"plan{self.plans}.lua"
        heads = ",\n".join(map(_quoted, target.heads))
        tails = ",\n".join(map(_quoted, target.tails))
        path.write_text(f"return {{heads={{\n{heads}}},\ntails={{\n{tails}}}}}\n", "utf-8")
        return path

    async def drive(
        self,
        cluster: Busy,
        targets: list[Target],
        *,
        connections: int,
        seconds: float,
        per_s: float = 0.0,
    ) -> Load:
        """Keep `connections` busy for `seconds`, shared among the targets evenly.

        per_s: requests of all together, at most; 0: as many as they can.
        """
        targets = targets[:connections]
        shares = [len(range(part, connections, len(targets))) for part in range(len(targets))]
        plans = [self.plan(target) for target in targets]
        cpu_s, pause_s = cluster.cpu_s(), connections / per_s if per_s else 0.0
        reports = await asyncio.gather(
            *(
                self._run(target.address, plan, connections=share, seconds=seconds, pause_s=pause_s)
                for target, plan, share in zip(targets, plans, shares, strict=True)
            )
        )
        cpu_s = cluster.cpu_s() - cpu_s
        for plan in plans:
            plan.unlink()
        return _sum(reports, cpu_s)

    async def _run(
        self, address: str, plan: Path, *, connections: int, seconds: float, pause_s: float
    ) -> dict[str, Any]:
        # The running numbers of two processes, or of two rows, never meet.
        number = (time.time_ns() // 1_000_000 % 100_000 * 100 + self.plans) * 100_000
        url = address if "://" in address else f"http://{address}"
        process = await asyncio.create_subprocess_exec(
            *(self.program, "-t1", f"-c{connections}", f"-d{seconds:.0f}s", "--timeout", "15s"),
            *("-s", str(LUA), url, "--"),
            *(str(plan), str(number), f"{1000 * pause_s:.0f}"),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            output, _ = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
        text = output.decode(errors="replace")
        report = next((line for line in text.splitlines() if line.startswith("REPORT ")), None)
        if report is None:
            message = f"wrk gave no report:\n{text}"
            raise Failed(message)
        found: dict[str, Any] = json.loads(report.removeprefix("REPORT "))
        return found


def _quoted(text: str) -> str:
    """Return `text` as a Lua string."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + escaped.replace("\r", "\\r").replace("\n", "\\n") + '"'


def _sum(reports: list[dict[str, Any]], cpu_s: float) -> Load:
    latencies: Counter[int] = Counter()
    for report in reports:
        for us, count in report["latency"]:
            latencies[us] += count
    troubles = ("status", "connect", "read", "write", "timeout")
    return Load(
        rate=sum(report["requests"] / report["duration_us"] * 1e6 for report in reports),
        p50_ms=percentile(latencies, 0.50) / 1000,
        p99_ms=percentile(latencies, 0.99) / 1000,
        requests=sum(report["requests"] for report in reports),
        errors=sum(report[trouble] for report in reports for trouble in troubles),
        cpu_s=cpu_s,
    )


def percentile(counts: Counter[int], share: float) -> float:
    """Return the smallest value that `share` of all are not above; 0 if there are none."""
    wanted = share * counts.total()
    for value in sorted(counts):
        wanted -= counts[value]
        if wanted <= 0:
            return float(value)
    return 0.0
