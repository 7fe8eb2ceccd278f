"""Flights as records, read as a table. Run: python examples/flights_stream.py [FILE].

FILE is a JSON array of flights with carrier (or origin) and delay; without one, 5,000 are made up.
Needs docstore[spark] and Java 17; without them it says so and ends.
"""

import asyncio
import json
import random
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from docstore.client import Client, LocalCluster

CARRIERS = ("AA", "B6", "DL", "HA", "UA", "WN")


def made_up() -> list[dict[str, Any]]:
    """Return flights as they might have been."""
    rng = random.Random(11)
    return [
        {"number": n, "carrier": rng.choice(CARRIERS), "delay": int(rng.gauss(8, 30))}
        for n in range(5_000)
    ]


async def produce(urls: list[str], flights: list[dict[str, Any]], member: str) -> None:
    """Make a topic of four partitions, and append each flight once, by its carrier."""
    async with Client(urls) as client:
        await client.json("POST", "/core/streams", {"name": "flights", "partitions": 4})
        async with client.producer("flights", id="example") as producer:
            for flight in flights:
                await producer.send(flight[member], flight)


def main(urls: list[str], flights: list[dict[str, Any]]) -> None:
    """Produce the flights, and count them by carrier."""
    import pyspark.sql.functions as F  # noqa: N812

    from docstore import pipeline

    member = "carrier" if "carrier" in flights[0] else "origin"
    asyncio.run(produce(urls, flights, member))
    print(f"{len(flights)} flights are in the topic")

    spark = pipeline.session()
    spark.sparkContext.setLogLevel("OFF")
    records = spark.read.format("docstore.stream").option("url", ",".join(urls)).load("flights")
    landed = records.withColumn("flight", F.from_json("value", f"{member} string, delay double"))
    counted = landed.groupBy(f"flight.{member}").agg(
        F.count("*").alias("flights"), F.round(F.avg("flight.delay"), 1).alias("delay")
    )
    rows = counted.orderBy(F.desc("flights"), member).collect()
    assert {row[member]: row["flights"] for row in rows} == Counter(
        flight[member] for flight in flights
    )
    for row in rows[:6]:
        print(f"  {row[member]}: {row['flights']} flights, {row['delay']} minutes late on average")
    spark.stop()


if __name__ == "__main__":
    try:
        from docstore.pipeline.sessions import insist_on_java

        insist_on_java()
    except (ImportError, RuntimeError) as why_not:
        sys.exit(print(f"skipped: {why_not}"))
    given = json.loads(Path(sys.argv[1]).read_text()) if sys.argv[1:] else made_up()
    with LocalCluster(3) as cluster:
        main(cluster.urls, given)
