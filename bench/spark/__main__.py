"""`python -m bench.spark`: the pipeline's goals, each beside what it is compared with.

One machine, one Spark on two cores, a node with a million documents of about 200 bytes. A run takes
about fifteen minutes; it ends with 1 if a goal that must be met is not. `--short` is a tenth.
"""

import argparse
import json
import sys
import tempfile
import time
from importlib import metadata
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from bench import machine
from bench.spark import rivals, scans, writes
from bench.spark.goals import Goals
from docstore import pipeline
from docstore.client import LocalCluster
from docstore.pipeline.group_client import GroupClient

PARTS = ("scans", "writes", "foreground", "audits", "shapes")
RESULT = Path("bench/results/spark.json")


def cold_start(goals: Goals) -> SparkSession:
    """Goal G12: return a session, from nothing but a cluster that runs to the first answer."""
    with LocalCluster(1) as cluster:
        GroupClient(cluster.urls).json("POST", "/core/factories", {"path": "/few"})
        begun = time.perf_counter()
        spark = pipeline.session("local[2]", "bench", jars=str(rivals.DRIVER), driver_memory="4g")
        spark.sparkContext.setLogLevel("OFF")
        pipeline.read(spark, cluster.urls[0], "/few").count()
        goals.note("G12", "cold start to the first count, s", time.perf_counter() - begun, 15,
                   least=False)  # fmt: skip
    return spark


def facts_of_run() -> dict[str, Any]:
    """Return the box and the versions of both sides."""
    libraries = {name: metadata.version(name) for name in ("pyspark", "pyarrow", "orjson")}
    return machine.box() | libraries | rivals.versions()


def measure(spark: Any, goals: Goals, documents: int, parts: list[str]) -> None:
    """Measure the parts that are asked for."""
    if "scans" in parts:
        with tempfile.TemporaryDirectory() as directory:
            scans.scans(spark, goals, documents, Path(directory))
    if "writes" in parts:
        writes.writes(spark, goals, documents // 4)
    if "foreground" in parts:
        writes.foreground(spark, goals, documents)
    if "audits" in parts:
        scans.audits(spark, goals, documents)
    if "shapes" in parts:
        scans.shapes(spark, goals, documents)


def keep(goals: Goals, documents: int, facts: dict[str, Any]) -> None:
    """Write what was measured over what stood there; the rest stays."""
    new = {row["goal"] for row in goals.rows}
    old = json.loads(RESULT.read_text())["goals"] if RESULT.exists() else []
    rows = [*(row for row in old if row["goal"] not in new), *goals.rows]
    kept = {"documents": documents, "box": facts, "goals": rows}
    RESULT.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")


def main() -> int:
    """Run everything, print a table, keep it."""
    parser = argparse.ArgumentParser(prog="python -m bench.spark", description=__doc__)
    parser.add_argument("--short", action="store_true", help="a tenth of the documents")
    parser.add_argument("--only", default=",".join(PARTS), help="some of " + ",".join(PARTS))
    asked = parser.parse_args()
    parts = asked.only.split(",")
    if not set(PARTS).issuperset(parts):
        parser.error(f"--only takes {', '.join(PARTS)}")
    try:
        rivals.provide()
    except machine.Missing as error:
        parser.exit(2, f"{error}\n")
    facts = facts_of_run()
    print(", ".join(f"{name} {value}" for name, value in facts.items()), flush=True)
    documents = 100_000 if asked.short else 1_000_000
    goals = Goals()
    spark = cold_start(goals)
    measure(spark, goals, documents, parts)
    spark.stop()
    if not asked.short:
        keep(goals, documents, facts)
    return 0 if goals.met else 1


if __name__ == "__main__":
    sys.exit(main())
