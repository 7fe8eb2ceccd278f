"""Digests of documents: whether two tables hold the same, without comparing them row by row."""

from typing import Any

import pyspark.sql.functions as F  # noqa: N812
from pyspark.sql import Column, DataFrame

BUCKETS = 64


def content(link: Column, body: Column) -> Column:
    """Return a number for a document: its id and its body, wherever it stands."""
    name = F.element_at(F.split(link, "/"), -1)
    return F.xxhash64(name, body)


def digest(df: DataFrame) -> dict[str, Any]:
    """Return the number of documents, and a digest for each bucket of links.

    The digest is a sum, so that order does not matter, and twice the same is not nothing.
    """
    name = F.element_at(F.split(F.col("documentSelfLink"), "/"), -1)
    number = content(F.col("documentSelfLink"), F.col("body")).cast("decimal(38,0)")
    rows = (
        df.select(F.pmod(F.crc32(name), F.lit(BUCKETS)).alias("bucket"), number.alias("number"))
        .groupBy("bucket")
        .agg(F.count("*").alias("rows"), F.sum("number").alias("sum"))
        .collect()
    )
    return {
        "rows": sum(row["rows"] for row in rows),
        "buckets": {str(row["bucket"]): [row["rows"], str(row["sum"])] for row in rows},
    }
