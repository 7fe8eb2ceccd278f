"""Writing (goals G8, G9, G11), and what clients feel of a pipeline with quotas (G15).

That quotas are kept is scenario A30.
"""

import asyncio
import random
import statistics
import tempfile
import threading
import time
from typing import Any

from bench.recovery import Foreground
from bench.spark import rivals
from bench.spark.goals import Goals, Side, took
from bench.spark.stage import FACTORY, SLOTS, group
from docstore import pipeline
from docstore.client import LocalCluster
from docstore.pipeline.group_client import GroupClient

QUOTA, WRITE_QUOTA = 5_000, 2_000


def writes(spark: Any, goals: Goals, documents: int) -> None:
    """Load documents, every one durable before it is answered; then a stream that idles."""
    rows = spark.range(documents).selectExpr(
        "sha2(cast(id AS string), 256) AS name", "id", "id % 7 AS kind",
        "'some text that fills the document to about two hundred bytes' AS note",
    ).cache()  # fmt: skip
    rows.count()
    with rivals.postgres() as server:
        server.make(
            "CREATE TABLE loaded (name text PRIMARY KEY, id bigint, kind bigint, note text)"
        )
        properties = {"batchsize": "1000", "driver": rivals.DRIVER_CLASS}
        address = server.address + "&reWriteBatchedInserts=true"

        def load() -> None:
            server.make("TRUNCATE loaded")
            rows.write.jdbc(address, "loaded", mode="append", properties=properties)

        theirs = Side("PostgreSQL by JDBC", took(load, 1), documents)
    with LocalCluster(1, settings=["--slots", str(SLOTS)]) as cluster:
        url = cluster.urls[0]
        for path in ("/sorted", "/unsorted", "/quiet"):
            GroupClient([url]).json("POST", "/core/factories", {"path": path})
        ours = Side("sorted", took(lambda: pipeline.write(rows, url, "/sorted", key="name"), 1),
                    documents)  # fmt: skip
        goals.note("G8", "bulk write, sorted, durable, docs/s", documents / ours.seconds, 40_000,
                   said=f"{theirs.name} {theirs}")  # fmt: skip
        any_order = lambda: pipeline.write(rows, url, "/unsorted", key="name", ordered=False)  # noqa: E731
        goals.compare("G9", ours, Side("unsorted", took(any_order, 1), documents), 3.0)
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
        group_of = GroupClient([url])
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
    """Goal G15: what clients feel of a scan with a quota; scenario A30: that quotas are kept."""
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
        table.write.format("noop").mode("overwrite").save()
        beside = client.p99_ms()
        client.stop = True
        thread.join()
        loop.close()
        quotas(spark, goals, urls[0], documents)
        goals.note("G15", "foreground p99 beside a scan with quota / alone", beside / alone, 2.0,
                   least=False, said=f"{beside:.1f} ms against {alone:.1f} ms")  # fmt: skip


def quotas(spark: Any, goals: Goals, url: str, documents: int) -> None:
    """Scenario A30: eight tasks together read, and write, as fast as they may."""
    some = pipeline.read(spark, url, FACTORY, partitions=8, rowsPerSecond=QUOTA, job="a30",
                         where=f"id < {documents // 20}")  # fmt: skip
    begun = time.perf_counter()
    some.write.format("noop").mode("overwrite").save()
    rate = documents // 20 / (time.perf_counter() - begun)
    goals.note("A30", f"eight tasks read under a quota of {QUOTA} docs/s: off by",
               abs(rate / QUOTA - 1), 0.1, least=False, said=f"{rate:,.0f} docs/s")  # fmt: skip
    quota = {"writesPerSecond": WRITE_QUOTA}
    GroupClient([url]).json("PUT", "/core/spark/quotas/a30w", quota)
    GroupClient([url]).json("POST", "/core/factories", {"path": "/held"})
    rows = spark.range(20_000).selectExpr("concat('n', id) AS name", "id").repartition(8)
    pipeline.write(rows, url, "/held", key="name", job_id="a30w", ordered=False)
    times = pipeline.read(spark, url, "/held", columns=["documentUpdateTimeMicros"])
    # In the middle: at both ends a batch of a thousand lines is much of so short a run.
    first, last = times.selectExpr(
        "percentile(documentUpdateTimeMicros, 0.2)", "percentile(documentUpdateTimeMicros, 0.8)"
    ).first()
    rate = 0.6 * 20_000 / ((last - first) / 1e6)
    goals.note("A30w", f"eight tasks write under a quota of {WRITE_QUOTA} docs/s: off by",
               abs(rate / WRITE_QUOTA - 1), 0.1, least=False,
               said=f"{rate:,.0f} docs/s")  # fmt: skip
