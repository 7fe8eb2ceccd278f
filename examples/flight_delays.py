"""Delays per origin, up to date while flights land. Run: python examples/flight_delays.py [FILE].

FILE is a JSON array of flights with origin and delay; without one, 20,000 are made up. Needs
docstore[spark] and Java 17; without them it says so and ends.
"""

import json
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

from docstore.client import LocalCluster

AIRPORTS = ("ABQ", "BOS", "CMH", "DAL", "ELP", "FLL")


def made_up() -> list[dict[str, Any]]:
    """Return flights as they might have been."""
    rng = random.Random(11)
    return [
        {"number": n, "origin": rng.choice(AIRPORTS), "delay": int(rng.gauss(8, 30))}
        for n in range(20_000)
    ]


def main(url: str, flights: list[dict[str, Any]], directory: Path) -> None:
    """Load one half, follow, load the other half, follow again."""
    import pyspark.sql.functions as F  # noqa: N812

    from docstore import pipeline
    from docstore.pipeline.jobs.importing import import_
    from docstore.pipeline.jobs.viewing import matview
    from docstore.pipeline.jobs.work import Work

    spark = pipeline.session(sql_shuffle_partitions=2)  # A few thousand rows: more would be idle.
    spark.sparkContext.setLogLevel("OFF")
    for number, half in enumerate((flights[::2], flights[1::2])):
        work = Work(spark, url, "example", job_id=f"flights-{number}")
        file = directory / f"flights-{number}.json"
        file.write_text(json.dumps(half))
        done = import_(work, source=str(file), into="/flights")
        print(f"{done['rows']} flights have landed")
        follow = Work(spark, url, "example", job_id="delays")
        view = matview(
            follow, path="/flights", into="/delays", keys="origin", sums="delay,flights",
            rows="SELECT origin, delay, 1 AS flights FROM documents", check=True,
            schema="origin string, delay long", checkpoint=str(directory / "checkpoint"),
        )  # fmt: skip
        assert view["equalsBatch"]
    delays = pipeline.read(
        spark, url, "/delays", schema="origin string, delay double, flights double"
    )
    total = delays.agg(F.sum("flights")).first()
    assert total is not None
    assert total[0] == len(flights)
    mean = F.round(F.col("delay") / F.col("flights"), 1)
    for row in delays.select("origin", mean.alias("mean")).orderBy("origin").limit(6).collect():
        print(f"  {row['origin']}: {row['mean']} minutes late on average")
    spark.stop()


if __name__ == "__main__":
    try:
        from docstore.pipeline.sessions import insist_on_java

        insist_on_java()
    except (ImportError, RuntimeError) as why_not:
        sys.exit(print(f"skipped: {why_not}"))
    given = json.loads(Path(sys.argv[1]).read_text()) if sys.argv[1:] else made_up()
    with LocalCluster(3) as cluster, tempfile.TemporaryDirectory() as scratch:
        main(",".join(cluster.urls), given, Path(scratch))
