"""The order of things: whole rounds, one cluster at a time, each from fresh data.

etcd and docstore take turns within a round, so that a machine that slows down during the run
slows both; the medians over the rounds are what is reported. The kills come last, on a
cluster of their own.
"""

import statistics
from collections.abc import Callable
from dataclasses import asdict, dataclass

from bench.bulk import bulk_load
from bench.cluster import Cluster
from bench.failover import failovers
from bench.load import Wrk
from bench.report import Report

WARM_UP_S = 1.0


@dataclass(frozen=True)
class Plan:
    """Durations and numbers of each row."""

    rounds: int
    seconds: float
    bulk_documents: int
    kills: int


@dataclass
class Side:
    """One of the two that are compared."""

    name: str
    open: Callable[[int], Cluster]
    report: Report

    def note(self, row: str, **figures: float) -> None:
        """Keep what one round gave for a row, and say so."""
        self.report.note(self.name, row, **figures)


async def measure(sides: list[Side], wrk: Wrk, plan: Plan) -> None:
    """Fill the figures of all sides."""
    for turn in range(plan.rounds):
        print(f"round {turn + 1} of {plan.rounds}", flush=True)
        for side in sides:
            async with side.open(turn) as cluster:
                await one_round(side, cluster, wrk, plan)
    if plan.kills:
        print(f"{plan.kills} kills", flush=True)
    for side in sides if plan.kills else []:
        async with side.open(plan.rounds) as cluster:
            async for waits_s in failovers(cluster, plan.kills):
                side.note("failover", first_s=min(waits_s), all_s=max(waits_s))
                for wait_s in waits_s:
                    side.note("failover_waits", s=wait_s)


async def one_round(side: Side, cluster: Cluster, wrk: Wrk, plan: Plan) -> None:
    """Measure one fresh cluster on every row but the kills."""
    side.note("startup", s=cluster.startup_s)
    side.note("rss_idle", mib=statistics.median(member.rss_mib() for member in cluster.members))
    for way, puts, gets in cluster.ways():
        for row, targets, sizes in (("put", puts, (1, 16, 64)), ("get", gets, (1, 64))):
            await wrk.drive(cluster, targets, connections=16, seconds=WARM_UP_S)
            for connections in sizes:
                load = await wrk.drive(
                    cluster, targets, connections=connections, seconds=plan.seconds
                )
                side.note(f"{row}_{connections}{way}", **asdict(load))
    bulk = await bulk_load(cluster, cluster.batches(plan.bulk_documents))
    side.note("bulk", **asdict(bulk))
    side.note("rss_loaded", mib=statistics.median(member.rss_mib() for member in cluster.members))
