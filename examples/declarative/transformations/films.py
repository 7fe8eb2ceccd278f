"""Three tables: every change, what is there now (type 1), and what was there when (type 2).

With a catalog whose tables support MERGE (Delta, Iceberg), `dp.create_auto_cdc_flow` does the last
two: keys=["documentSelfLink"], sequence_by="documentVersion", apply_as_deletes="deleted".
"""

import os

import pyspark.sql.functions as F  # noqa: N812 - its usual name
from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession, Window

URL = os.environ["DOCSTORE_URL"]
BODY = "title string, year long"


@dp.table
def film_changes() -> DataFrame:
    """Every version, each once: a run goes on where the last one ended."""
    feed = SparkSession.active().readStream.format("docstore.changes").option("url", URL)
    return feed.option("start", "earliest").load("/films")


@dp.materialized_view
def films() -> DataFrame:
    """The newest version of each film that is not deleted."""
    changes = SparkSession.active().read.table("film_changes")
    newest = changes.groupBy("documentSelfLink").agg(
        F.max_by(F.struct("documentVersion", "deleted", "body"), "documentVersion").alias("last")
    )
    film = F.from_json("last.body", BODY).alias("film")
    living = newest.filter("NOT last.deleted")
    return living.select("documentSelfLink", "last.documentVersion", film).select("*", "film.*")


@dp.materialized_view
def films_history() -> DataFrame:
    """Every version with the time from which and up to which it was the film."""
    line = Window.partitionBy("documentSelfLink").orderBy("documentVersion")
    changes = SparkSession.active().read.table("film_changes")
    until = F.lead("documentUpdateTime").over(line).alias("until")
    return changes.select(
        "documentSelfLink", "documentVersion", F.col("documentUpdateTime").alias("since"), until,
        "deleted", "body",
    ).filter("NOT deleted")  # fmt: skip
