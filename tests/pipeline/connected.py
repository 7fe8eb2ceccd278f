"""Run the basics as a client of a Connect server, in a process of its own.

    python -m tests.pipeline.connected URL PATH DIRECTORY

A process has either a session of its own or one over Connect. Prints one line of JSON.
"""

import json
import sys
from typing import Any

from pyspark.sql import SparkSession

from docstore import pipeline


def main(url: str, path: str, directory: str) -> None:
    """Go through the basics."""
    SparkSession.builder.remote("local[2]").getOrCreate()  # type: ignore[attr-defined]
    spark = pipeline.session("sc://localhost")
    rows = spark.range(300).selectExpr("concat('a', id) AS name", "id", "id % 3 AS kind")
    job = pipeline.write(rows, url, path, key="name", job_id="connected")
    found: dict[str, Any] = {"remote": type(spark).__module__, "job": job}
    table = pipeline.read(spark, url, path)
    found["count"] = table.count()
    found["where"] = pipeline.read(spark, url, path, where="kind = 1 and id < 30").count()
    counts = pipeline.aggregate(spark, url, path, group_by="cast(kind as bigint) as kind")
    found["kinds"] = sorted(map(list, counts.collect()))
    narrow = spark.read.format("docstore").options(url=url, members="id long, kind long")
    found["sum"] = narrow.load(path).groupBy().sum("id").first()[0]
    pipeline.write(rows.limit(5).selectExpr("name", "-1 AS id"), url, path, key="name")
    past = pipeline.read(spark, url, path, as_of=pipeline.cut_of(table), body_as="struct")
    found["past"] = past.filter("id < 0").count()
    found["now"] = pipeline.read(spark, url, path, where="id < 0").count()
    feed = pipeline.changes(spark, url, path, start=pipeline.cut_of(table))
    query = (
        feed.writeStream.format("parquet").option("checkpointLocation", f"{directory}/state")
        .option("path", f"{directory}/changes").trigger(availableNow=True).start()
    )  # fmt: skip
    query.awaitTermination()
    found["changes"] = spark.read.parquet(f"{directory}/changes").count()
    asked = spark.createDataFrame([("a7",), ("none",)], "name string")
    known = pipeline.lookup(asked, url, path, key="name").collect()
    found["lookup"] = sorted(row.lookupVersion is not None for row in known)
    slots = spark.read.format("docstore.admin").option("url", url).load("slots")
    found["slots"] = slots.count()
    spark.stop()
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
