"""`python -m bench.spark`: the pipeline's goals, each beside what it is compared with.

One machine, one Spark on two cores, a node with a million documents of about 200 bytes. A run takes
about fifteen minutes; it ends with 1 if a goal that must be met is not. `--short` is a tenth.
"""

import argparse
import asyncio
import json
import os
import random
import statistics
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyspark
import pyspark.sql.functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql import SparkSession

from bench.recovery import Foreground
from bench.spark import rivals
from bench.spark.stage import FACTORY, SLOTS, group
from docstore import pipeline
from docstore.client import LocalCluster
from docstore.pipeline.group import Group
from docstore.pipeline.jobs.auditing import audit
from docstore.pipeline.jobs.contents import digest
from docstore.pipeline.jobs.work import Work

REPEATS = 3
QUOTA, WRITE_QUOTA = 5_000, 2_000
PARTS = "scans,writes,foreground,audits,shapes"
RESULT = Path("bench/results/spark.json")


@dataclass(slots=True)
class Goals:
    """What was measured, and what must be."""

    rows: list[dict[str, Any]] = field(default_factory=list)

    def note(
        self, number: str, what: str, seen: float, must: float, *, least: bool = True,
        said: str = "",
    ) -> None:  # fmt: skip
        """Note one goal: at least, or at most, `must`."""
        met = seen >= must if least else seen <= must
        row = {"goal": number, "what": what, "seen": round(seen, 3), "must": must, "met": met,
               "least": least, "said": said}  # fmt: skip
        self.rows.append(row)
        sign, word = "≥" if least else "≤", "met" if met else "MISSED"
        print(f"{number:4} {what:54} {seen:12.3f} {sign} {must:<9g} {word} {said}", flush=True)

    @property
    def met(self) -> bool:
        """Say whether all are met."""
        return all(row["met"] for row in self.rows)


def took(work: Callable[[], Any], repeats: int = REPEATS) -> float:
    """Return the median seconds of some runs, after one that does not count."""
    once(work)
    return statistics.median(once(work) for _ in range(repeats))


def once(work: Callable[[], Any]) -> float:
    """Return the seconds of one run."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def read(table: Any) -> None:
    """Read every row and every column, and keep nothing."""
    table.write.format("noop").mode("overwrite").save()


def scans(spark: Any, goals: Goals, documents: int, directory: Path) -> None:
    """G1 to G5, G7, G10, G13, G14, G17: reading."""
    with group(1, documents) as cluster:
        url = cluster.urls[0]

        def table(**options: Any) -> Any:
            return pipeline.read(spark, url, FACTORY, **options)

        node = cluster.nodes[0].process
        assert node is not None
        before_mb = memory_mb(node.pid)
        full = table(partitions=2)
        first_s = once(lambda: read(full))  # With Spark's own first steps.
        full_s = took(lambda: read(full))
        goals.note("G14", "node's growth during a scan, MB", memory_mb(node.pid) - before_mb, 150,
                   least=False)  # fmt: skip
        goals.note("G13", "a Python worker of Spark's, MB", workers_mb(), 256, least=False)
        rate = documents / full_s
        seen = f"{rate:,.0f} docs/s, {documents / first_s:,.0f} at first"
        lines = rivals.files(directory, documents)
        text_s = took(lambda: read(spark.read.text(str(lines))))
        schema = "id long, status string, total double, customer string, city string, note string"
        json_s = took(lambda: read(spark.read.schema(schema).json(str(lines))))
        if rivals.has_postgres():
            with rivals.postgres(documents) as address:
                rows = spark.read.jdbc(
                    address, "orders", column="part", lowerBound=0, upperBound=documents,
                    numPartitions=4, properties={"fetchsize": "10000",
                                                 "driver": "org.postgresql.Driver"},
                ).drop("part")  # fmt: skip
                jdbc_s = took(lambda: read(rows))
            goals.note("G1", "full scan / JDBC PostgreSQL", jdbc_s / full_s, 0.6, said=seen)
        goals.note("G2", "full scan / Spark's JSON reader", json_s / full_s, 0.7, said=seen)
        goals.note("G3", "full scan / text files", text_s / full_s, 0.2)
        narrow = table(columns=("documentSelfLink", "documentVersion"), partitions=2)
        goals.note("G4", "two columns / nine", full_s / took(lambda: read(narrow)), 1.7)
        goals.note("6.5", "aggregates by the nodes / by Spark", *aggregates(spark, url))
        plan_ms = 1000 * took(lambda: Group([url]).json("GET", "/core/spark/plan"), 10)
        goals.note("G17", "a plan, ms", plan_ms, 50, least=False)
        feed = pipeline.changes(spark, url, FACTORY, start="earliest", stream=False, partitions=2)
        goals.note("G10", "change feed, docs/s", documents / took(lambda: read(feed)), 150_000)
    third = documents // 3
    with group(1, third, versions=3) as cluster:
        now = pipeline.read(spark, cluster.urls[0], FACTORY, partitions=2)
        now_s = took(lambda: read(now))
        middle = f"{int(time.time() * 1e6) - 60_000_000 - third}"
        past = pipeline.read(spark, cluster.urls[0], FACTORY, as_of=middle, partitions=2)
        goals.note("G7", "as of a cut, three versions each / now", now_s / took(lambda: read(past)),
                   0.4)  # fmt: skip


def aggregates(spark: Any, url: str) -> tuple[float, float]:
    """Return how much faster the nodes group by a member than Spark, and what must be."""

    def by_spark() -> Any:  # Anew each time: Spark remembers what it has shuffled.
        schema = "status string, total double"
        rows = pipeline.read(spark, url, FACTORY, schema=schema, partitions=2)
        return rows.groupBy("status").agg(F.count("*"), F.sum("total")).collect()

    def by_nodes() -> Any:
        asked = "count(*), sum(total)"
        table = pipeline.aggregate(spark, url, FACTORY, asked, group_by="status", partitions=2)
        return table.collect()

    assert sorted(map(tuple, by_spark())) == sorted(map(tuple, by_nodes()))
    return took(by_spark) / took(by_nodes), 1.0


def writes(spark: Any, goals: Goals, documents: int) -> None:
    """G8, G9, G11: writing, and a stream that has nothing to do."""
    with LocalCluster(1, settings=["--slots", str(SLOTS)]) as cluster:
        url = cluster.urls[0]
        for path in ("/sorted", "/unsorted", "/quiet"):
            Group([url]).json("POST", "/core/factories", {"path": path})
        rows = spark.range(documents).selectExpr(
            "sha2(cast(id AS string), 256) AS name", "id", "id % 7 AS kind",
            "'some text that fills the document to about two hundred bytes' AS note",
        ).cache()  # fmt: skip
        rows.count()
        sorted_s = took(lambda: pipeline.write(rows, url, "/sorted", key="name"), 1)
        goals.note("G8", "bulk write, sorted, durable, docs/s", documents / sorted_s, 40_000)
        unsorted_s = took(
            lambda: pipeline.write(rows, url, "/unsorted", key="name", ordered=False), 1
        )
        goals.note("G9", "sorted / unsorted", unsorted_s / sorted_s, 3.0)
        goals.note("G11", "a trigger with next to nothing, s", triggers(spark, url), 0.7,
                   least=False)  # fmt: skip


def triggers(spark: Any, url: str) -> float:
    """Return the median seconds of a warm batch of one change."""
    with tempfile.TemporaryDirectory() as directory:
        feed = pipeline.changes(spark, url, "/quiet", start="earliest")
        query = (
            feed.writeStream.format("noop")
            .option("checkpointLocation", directory)
            .trigger(processingTime="0 seconds")
            .start()
        )
        group_of = Group([url])
        for number in range(12):
            done = len(query.recentProgress)
            group_of.json("PUT", f"/quiet/{number}", {"n": number})
            deadline = time.monotonic() + 30
            while len([p for p in query.recentProgress if p["numInputRows"]]) <= number:
                assert time.monotonic() < deadline, done
                time.sleep(0.02)
        busy = [p for p in query.recentProgress if p["numInputRows"]][4:]
        query.stop()
        return statistics.median(p["durationMs"]["triggerExecution"] for p in busy) / 1000


def foreground(spark: Any, goals: Goals, documents: int) -> None:
    """G15: what clients feel of a scan with a quota."""
    with group(1, documents) as cluster:
        urls, client = cluster.urls, Foreground()
        loop = asyncio.new_event_loop()
        rng = random.Random(1)
        thread = threading.Thread(
            target=lambda: loop.run_until_complete(client.run(urls, 1000, rng))
        )
        thread.start()
        time.sleep(8)
        alone = client.p99_ms()
        table = pipeline.read(spark, urls[0], FACTORY, partitions=2, rowsPerSecond=20_000, job="q")
        read(table)
        beside = client.p99_ms()
        client.stop = True
        thread.join()
        loop.close()
        some = pipeline.read(spark, urls[0], FACTORY, partitions=8, rowsPerSecond=QUOTA, job="a30",
                             where=f"id < {documents // 20}")  # fmt: skip
        begun = time.perf_counter()
        read(some)
        rate = documents // 20 / (time.perf_counter() - begun)
        goals.note("A30", f"eight tasks read under a quota of {QUOTA} docs/s: off by",
                   abs(rate / QUOTA - 1), 0.1, least=False, said=f"{rate:,.0f} docs/s")  # fmt: skip
        quota = {"writesPerSecond": WRITE_QUOTA}
        Group(urls).json("PUT", "/core/spark/quotas/a30w", quota)
        Group(urls).json("POST", "/core/factories", {"path": "/held"})
        rows = spark.range(20_000).selectExpr("concat('n', id) AS name", "id").repartition(8)
        pipeline.write(rows, urls[0], "/held", key="name", job_id="a30w", ordered=False)
        times = pipeline.read(spark, urls[0], "/held", columns=["documentUpdateTimeMicros"])
        # In the middle: at both ends a batch of a thousand lines is much of so short a run.
        first, last = times.selectExpr(
            "percentile(documentUpdateTimeMicros, 0.2)", "percentile(documentUpdateTimeMicros, 0.8)"
        ).first()
        rate = 0.6 * 20_000 / ((last - first) / 1e6)
        goals.note("A30w", f"eight tasks write under a quota of {WRITE_QUOTA} docs/s: off by",
                   abs(rate / WRITE_QUOTA - 1), 0.1, least=False,
                   said=f"{rate:,.0f} docs/s")  # fmt: skip
        goals.note("G15", "foreground p99 beside a scan with quota / alone", beside / alone, 2.0,
                   least=False, said=f"{alone:.1f} ms alone")  # fmt: skip


def audits(spark: Any, goals: Goals, documents: int) -> None:
    """G16: two copies of everything, body by body."""
    with group(2, documents) as cluster:
        work = Work(spark, ",".join(cluster.urls), "bench")
        found: list[Any] = []
        seconds = took(lambda: found.append(audit(work, path=FACTORY)), 1)
        assert found[-1]["documents"] == documents
        assert not found[-1]["differences"]
        must = 8.0 * documents / 1_000_000
        goals.note("G16", f"audit of {documents:,} x 2 copies, s", seconds, must, least=False)


def shapes(spark: Any, goals: Goals, documents: int) -> None:
    """A3, A14: however it is shared out the same, and no more than is asked for."""
    with group(3, documents // 10) as cluster:
        url = ",".join(cluster.urls)
        found = {
            json.dumps(digest(pipeline.read(spark, url, FACTORY, partitions=n, readFrom=copy)))
            for n in (1, 4, 64)
            for copy in ("nearest", "owner", "replica")
        }
        goals.note("A3", f"answers of 9 ways to read {documents // 10:,} documents", len(found), 1,
                   least=False, said=f"{json.loads(found.pop())['rows']:,} rows each")  # fmt: skip
    with group(1, documents) as cluster:
        url = cluster.urls[0]

        def rows_read() -> int:
            with urllib.request.urlopen(f"{url}/metrics") as page:
                for line in page.read().decode().splitlines():
                    if line.startswith("docstore_scan_rows_total"):
                        return int(float(line.split()[-1]))
            return 0

        before = rows_read()
        assert len(pipeline.read(spark, url, FACTORY, partitions=8).limit(10).collect()) == 10
        time.sleep(1.0)
        after = rows_read()
        time.sleep(2.0)
        goals.note("A14", "rows that nodes read for LIMIT 10", after - before, 20_000, least=False)
        goals.note("A14", "rows they read a second later and after", rows_read() - after, 0,
                   least=False)  # fmt: skip


def memory_mb(pid: int) -> float:
    """Return the resident memory of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


def workers_mb() -> float:
    """Return the memory of the largest Python worker that Spark runs for us."""
    largest = 0.0
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            command = (entry / "cmdline").read_bytes()
            if b"pyspark.daemon" in command:
                largest = max(largest, memory_mb(int(entry.name)))
        except OSError:
            continue
    return largest


def cold_start(goals: Goals) -> SparkSession:
    """G12: return a session, from nothing but a cluster that runs to the first answer."""
    with LocalCluster(1) as cluster:
        Group(cluster.urls).json("POST", "/core/factories", {"path": "/few"})
        begun = time.perf_counter()
        spark = pipeline.session(
            "local[2]", "bench", jars=str(rivals.DRIVER) if rivals.has_postgres() else "",
            driver_memory="4g",
        )  # fmt: skip
        spark.sparkContext.setLogLevel("OFF")
        pipeline.read(spark, cluster.urls[0], "/few").count()
        goals.note("G12", "cold start to the first count, s", time.perf_counter() - begun, 15,
                   least=False)  # fmt: skip
    return spark


def main() -> int:
    """Run everything, print a table, keep it."""
    parser = argparse.ArgumentParser(prog="python -m bench.spark", description=__doc__)
    parser.add_argument("--short", action="store_true", help="a tenth of the documents")
    parser.add_argument("--only", default=PARTS, help="some of " + PARTS)
    asked = parser.parse_args()
    documents = 100_000 if asked.short else 1_000_000
    goals = Goals()
    spark = cold_start(goals)
    with tempfile.TemporaryDirectory() as directory:
        if "scans" in asked.only:
            scans(spark, goals, documents, Path(directory))
    if "writes" in asked.only:
        writes(spark, goals, documents // 4)
    if "foreground" in asked.only:
        foreground(spark, goals, documents)
    if "audits" in asked.only:
        audits(spark, goals, documents)
    if "shapes" in asked.only:
        shapes(spark, goals, documents)
    spark.stop()
    if not asked.short:
        keep(goals, documents)
    return 0 if goals.met else 1


def keep(goals: Goals, documents: int) -> None:
    """Write what was measured over what stood there; the rest stays."""
    new = {row["goal"] for row in goals.rows}
    old = json.loads(RESULT.read_text())["goals"] if RESULT.exists() else []
    kept = {
        "documents": documents, "pyspark": pyspark.__version__, "python": sys.version.split()[0],
        "cpus": os.cpu_count(),
        "goals": [*(row for row in old if row["goal"] not in new), *goals.rows],
    }  # fmt: skip
    RESULT.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    sys.exit(main())
