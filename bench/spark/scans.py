"""Reading (goals G1 to G5, G7, G10, G13, G14, G16, G17), and how scans are shared out.

The latter is scenarios A3 and A14.
"""

import json
import time
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyspark.sql.functions as F  # noqa: N812 - the usual name

from bench import machine
from bench.spark import rivals
from bench.spark.goals import Goals, Side, once, took
from bench.spark.stage import FACTORY, group
from bench.spark.tuples import TupleSource
from docstore import pipeline
from docstore.pipeline.group_client import GroupClient
from docstore.pipeline.jobs.auditing import audit
from docstore.pipeline.jobs.contents import digest
from docstore.pipeline.jobs.work import Work

BODY = "id long, status string, total double, customer string, city string, note string"


def read(table: Any) -> None:
    """Read every row and every column, and keep nothing."""
    table.write.format("noop").mode("overwrite").save()


def scans(spark: Any, goals: Goals, documents: int, directory: Path) -> None:
    """Read a million documents in every way, and elsewhere the same."""
    with group(1, documents) as cluster:
        url = cluster.urls[0]
        node = cluster.nodes[0].process
        assert node is not None
        before_mb = machine.rss_mib(node.pid)
        full = pipeline.read(spark, url, FACTORY, partitions=2)
        first_s = once(lambda: read(full))  # With Spark's own first steps.
        ours = Side("full scan", took(lambda: read(full)), documents)
        growth_mb = machine.rss_mib(node.pid) - before_mb
        goals.note("G14", "node's growth during a scan, MB", growth_mb, 150, least=False)
        goals.note("G13", "a Python worker of Spark's, MB", workers_mb(), 256, least=False)
        elsewhere(spark, goals, ours, directory, f"{documents / first_s:,.0f}/s at first")
        narrow = pipeline.read(spark, url, FACTORY, partitions=2,
                               columns=("documentSelfLink", "documentVersion"))  # fmt: skip
        two = Side("two columns", took(lambda: read(narrow)), documents)
        goals.compare("G4", two, Side("nine", ours.seconds, documents), 1.7)
        spark.dataSource.register(TupleSource)
        rows = spark.read.format("docstore.tuples").options(url=url, partitions=2).load(FACTORY)
        tuples = Side("tuples", took(lambda: read(rows), 1), documents)
        goals.compare("G5", Side("Arrow", ours.seconds, documents), tuples, 3.0)
        aggregates(spark, goals, url, documents)
        plan_ms = 1000 * took(lambda: GroupClient([url]).json("GET", "/core/spark/plan"), 10)
        goals.note("G17", "a plan, ms", plan_ms, 50, least=False)
        feed = pipeline.changes(spark, url, FACTORY, start="earliest", stream=False, partitions=2)
        goals.note("G10", "change feed, docs/s", documents / took(lambda: read(feed)), 150_000)
    past(spark, goals, documents // 3)


def elsewhere(spark: Any, goals: Goals, ours: Side, directory: Path, said: str) -> None:
    """Goals G1 to G3: the same documents in a database and in files."""
    documents = ours.documents
    lines = rivals.files(directory, documents)
    text_s = took(lambda: read(spark.read.text(str(lines))))
    json_s = took(lambda: read(spark.read.schema(BODY).json(str(lines))))
    with rivals.postgres() as server:
        server.fill(documents)
        rows = spark.read.jdbc(
            server.address, "orders", column="part", lowerBound=0, upperBound=documents,
            numPartitions=4, properties={"fetchsize": "10000", "driver": rivals.DRIVER_CLASS},
        ).drop("part")  # fmt: skip
        jdbc_s = took(lambda: read(rows))
    goals.compare("G1", ours, Side("JDBC PostgreSQL", jdbc_s, documents), 0.6, said=said)
    goals.compare("G2", ours, Side("Spark's JSON reader", json_s, documents), 0.7)
    goals.compare("G3", ours, Side("text files", text_s, documents), 0.2)


def past(spark: Any, goals: Goals, documents: int) -> None:
    """Goal G7: a third as many documents, with three versions of each."""
    with group(1, documents, versions=3) as cluster:
        url = cluster.urls[0]
        now = pipeline.read(spark, url, FACTORY, partitions=2)
        now_s = took(lambda: read(now))
        middle = f"{int(time.time() * 1e6) - 60_000_000 - documents}"
        then = pipeline.read(spark, url, FACTORY, as_of=middle, partitions=2)
        ours = Side("as of a cut, three versions each", took(lambda: read(then)), documents)
        goals.compare("G7", ours, Side("now", now_s, documents), 0.4)


def aggregates(spark: Any, goals: Goals, url: str, documents: int) -> None:
    """6.5: the nodes group by a member, and Spark does over the columns that it needs."""

    def by_spark() -> Any:  # Anew each time: Spark remembers what it has shuffled.
        schema = "status string, total double"
        rows = pipeline.read(spark, url, FACTORY, schema=schema, partitions=2)
        return rows.groupBy("status").agg(F.count("*"), F.sum("total")).collect()

    def by_nodes() -> Any:
        asked = "count(*), sum(total)"
        table = pipeline.aggregate(spark, url, FACTORY, asked, group_by="status", partitions=2)
        return table.collect()

    assert sorted(map(tuple, by_spark())) == sorted(map(tuple, by_nodes()))
    ours = Side("aggregates by the nodes", took(by_nodes), documents)
    goals.compare("6.5", ours, Side("by Spark", took(by_spark), documents), 1.0)


def audits(spark: Any, goals: Goals, documents: int) -> None:
    """Goal G16: two copies of everything, body by body."""
    with group(2, documents) as cluster:
        work = Work(spark, ",".join(cluster.urls), "bench")
        found: list[Any] = []
        seconds = took(lambda: found.append(audit(work, path=FACTORY)), 1)
        assert found[-1]["documents"] == documents
        assert not found[-1]["differences"]
        must = 8.0 * documents / 1_000_000
        goals.note("G16", f"audit of {documents:,} x 2 copies, s", seconds, must, least=False)


def shapes(spark: Any, goals: Goals, documents: int) -> None:
    """Scenarios A3, A14: however it is shared out the same, and no more than is asked for."""
    with group(3, documents // 10) as cluster:
        url = ",".join(cluster.urls)
        found = {
            json.dumps(
                digest(pipeline.read(spark, url, FACTORY, partitions=n, readFrom=copy)),
                sort_keys=True,  # Buckets come in the order of tasks.
            )
            for n in (1, 4, 64)
            for copy in ("nearest", "owner", "replica")
        }
        goals.note("A3", f"answers of 9 ways to read {documents // 10:,} documents", len(found), 1,
                   least=False, said=f"{json.loads(found.pop())['rows']:,} rows each")  # fmt: skip
    with group(1, documents) as cluster:
        url = cluster.urls[0]
        before = rows_read(url)
        assert len(pipeline.read(spark, url, FACTORY, partitions=8).limit(10).collect()) == 10
        time.sleep(1.0)
        after = rows_read(url)
        time.sleep(2.0)
        goals.note("A14", "rows that nodes read for LIMIT 10", after - before, 20_000, least=False)
        goals.note("A14", "rows they read a second later and after", rows_read(url) - after, 0,
                   least=False)  # fmt: skip


def workers_mb() -> float:
    """Return the memory of the largest Python worker that Spark runs for us."""
    largest = 0.0
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # The process has ended.
            if b"pyspark.daemon" in (entry / "cmdline").read_bytes():
                largest = max(largest, machine.rss_mib(int(entry.name)))
    return largest


def rows_read(url: str) -> int:
    """Return how many rows a node has read for scans."""
    with urllib.request.urlopen(f"{url}/metrics") as page:
        for line in page.read().decode().splitlines():
            if line.startswith("docstore_scan_rows_total"):
                return int(float(line.split()[-1]))
    return 0
