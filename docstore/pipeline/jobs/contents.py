"""Compare the documents of two tables, by their bytes or by their values.

Digests are of the bytes, so that an export that was altered does not match its manifest. The rows
that a job has written are compared by value, as the store compares them: the order of members,
white space and the spelling of numbers and texts do not matter, and 1 equals 1.0.
"""

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyspark.sql.functions as F  # noqa: N812
from pyspark.sql import Column, DataFrame

from docstore.model import json
from docstore.model.document import EXPIRY
from docstore.model.document_members import STORE_SET
from docstore.pipeline.errors import PipelineError

BUCKETS = 64
NAMED = 3


class NotTheSame(PipelineError):
    """The documents differ from those that were expected."""


def content(link: Column, body: Column) -> Column:
    """Return a hash of a document's id and body, the same below every path."""
    name = F.element_at(F.split(link, "/"), -1)
    return F.xxhash64(name, body)


def digest(df: DataFrame) -> dict[str, Any]:
    """Return the number of documents, and a digest of their bytes for each bucket of links.

    A digest is a sum, so that the order does not matter and a document that occurs twice counts
    twice.
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


def moved(documents: DataFrame, path: str, into: str) -> DataFrame:
    """Return the links and bodies of documents below `path`, moved below another path."""
    name = F.substring("documentSelfLink", len(path.rstrip("/")) + 2, 1 << 30)
    link = F.concat(F.lit(into.rstrip("/") + "/"), name)
    return documents.select(link.alias("documentSelfLink"), "body")


def told_apart(path: str, wanted: DataFrame, found: DataFrame, *, how: str) -> None:
    """Raise NotTheSame, with the first links, if documents differ in value.

    how: `left` if there may be documents besides those wanted, `full` if not.
    """
    mine = _valued(wanted).withColumnRenamed("value", "wanted").drop("lasting")
    both = mine.join(_valued(found), "documentSelfLink", how)
    # A factory may set a time of expiry that the row did not have.
    is_same = (F.col("wanted") == F.col("value")) | (F.col("wanted") == F.col("lasting"))
    other = both.filter(is_same.isNull() | ~is_same)
    links = [row[0] for row in other.select("documentSelfLink").limit(NAMED).collect()]
    if links:
        such = ", ".join(links)
        raise NotTheSame(f"{path}: {other.count()} documents differ, such as {such}")


def _valued(documents: DataFrame) -> DataFrame:
    """Return links with a digest of the value, and one without its time of expiry."""
    schema = "documentSelfLink string, value binary, lasting binary"
    return documents.select("documentSelfLink", "body").mapInArrow(_values, schema)


def _values(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        bodies = [value_of(body) for body in batch.column("body").to_pylist()]
        values = [pa.array([each[at] for each in bodies], pa.binary()) for at in (0, 1)]
        names = ["documentSelfLink", "value", "lasting"]
        yield pa.RecordBatch.from_arrays([batch.column("documentSelfLink"), *values], names=names)


def value_of(body: str) -> tuple[bytes, bytes]:
    """Return a digest of a body's value, and one without its time of expiry, 16 bytes each.

    Members that the store sets do not count.
    """
    value = json.load(body.encode())
    mine = {name: member for name, member in value.items() if name not in STORE_SET}
    whole = _hashed(mine)
    if EXPIRY not in mine:
        return whole, whole
    return whole, _hashed({name: mine[name] for name in mine if name != EXPIRY})


def _hashed(value: dict[str, Any]) -> bytes:
    return hashlib.blake2b(json.canonical(value), digest_size=16).digest()
