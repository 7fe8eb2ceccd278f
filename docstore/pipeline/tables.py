"""Read and write in one call each, with a pinned cut and rows in the order of the slots."""

import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyspark.sql.functions as F  # noqa: N812
from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
from pyspark.sql.types import StringType, StructField, StructType
from pyspark.sql.utils import is_remote

from docstore.model.paths import KEY_IN_LINK
from docstore.pipeline import pushing, scanning
from docstore.pipeline.bulk_lines import FOREIGN_LINKS, KEY, MOVE
from docstore.pipeline.columns import TABLE, insist_on_distinct, insist_on_members, schema_of
from docstore.pipeline.errors import plainly
from docstore.pipeline.group_client import GroupClient
from docstore.pipeline.inference import schema_of_sample
from docstore.pipeline.kinds import check_name
from docstore.pipeline.lookups import KeyLookup
from docstore.pipeline.options import Options
from docstore.pipeline.planning import shares
from docstore.pipeline.sessions import introduce

SAMPLE_ROWS = 1000
BODIES = ("string", "struct", "variant", "none")


@plainly
def read(
    spark: SparkSession, url: str, path: str, *, columns: Sequence[str] = (), where: str = "",
    as_of: str = "latest", schema: StructType | str = "", body_as: str = "string",
    schema_hints: str = "", broadcast: bool = False, **options: Any,
) -> DataFrame:  # fmt: skip
    """Return a factory as a DataFrame with a pinned cut, whose token is `.cut`.

    columns: of the store, a few for less traffic. where: a condition that nodes evaluate, see
    docs/pipeline.md. as_of: latest, a time in ISO 8601, the name of a snapshot, or a token.
    body_as: string (the stored bytes), struct (typed columns, by `schema` or from a sample;
    `schema_hints` in DDL overrides the sample), variant, or none. options: those of the format.
    Raises ValueError, GroupError.
    """
    if body_as not in BODIES:
        raise ValueError(f"body_as must be one of {', '.join(BODIES)}")
    introduce(spark)
    group = GroupClient(url.split(","))
    cut = _cut(group, path, as_of)
    given = {"url": url, "where": where, "asOf": cut, **options}
    # A member with values of several types becomes a string.
    if body_as == "struct" and not schema:
        given = {"strings": "any", **given}
    reader = spark.read.format("docstore").options(**_said(given))
    names = [name for name in columns or TABLE if body_as == "string" or name != "body"]
    if schema:
        reader = reader.schema(schema)
    elif body_as == "struct":
        sampled = sampled_schema(group, path, cut, schema_hints)
        insist_on_members(sampled.names)
        reader = reader.schema(StructType([*schema_of(names).fields, *sampled.fields]))
    elif body_as == "variant":
        reader = reader.option("columns", ",".join([*names, "body"]))
    else:
        reader = reader.option("columns", ",".join(names))
    table = _loaded(spark, reader, path)
    if body_as == "variant":
        table = table.withColumn("body", F.parse_json("body"))
    table = F.broadcast(table) if broadcast else table
    vars(table)["cut"] = cut
    return table


def _loaded(spark: SparkSession, reader: DataFrameReader, path: str) -> DataFrame:
    """Load a table whose nodes check the filters of Spark, if Spark asks for that."""
    relation = pushing.relation_of(spark)
    table = reader.option(pushing.RELATION, relation).load(path)
    if guard := pushing.guard_of(table.columns):
        return table.filter(guard) if relation else table
    return reader.option(pushing.RELATION, "").load(path)


@plainly
def aggregate(
    spark: SparkSession, url: str, path: str, aggregates: str = "count(*)", *, group_by: str = "",
    where: str = "", as_of: str = "latest", **options: Any,
) -> DataFrame:  # fmt: skip
    """Return aggregates of a factory, computed by its nodes, as a DataFrame with a pinned cut.

    aggregates, group_by: such as "count(*) as films, avg(rating)" by "genre", in the language of
    `docstore/query/aggregates.py`. There is a row for each group, or one row without `group_by`.
    Raises ValueError, GroupError.
    """
    introduce(spark)
    cut = _cut(GroupClient(url.split(",")), path, as_of)
    given = {"url": url, "where": where, "asOf": cut, **options}
    asked = {"aggregates": aggregates, "groupBy": group_by}
    table = spark.read.format("docstore").options(**_said(given | asked)).load(path)
    vars(table)["cut"] = cut
    return table


def _cut(group: GroupClient, path: str, as_of: str) -> str:
    return str(group.plan(as_of, path)["cut"])


def _said(given: Mapping[str, Any]) -> dict[str, str]:
    """Return the options that are not empty, as texts."""
    return {name: str(value) for name, value in given.items() if value != ""}


def cut_of(table: DataFrame) -> str:
    return str(vars(table)["cut"])


def sampled_schema(group: GroupClient, path: str, cut: str, hints: str = "") -> StructType:
    """Infer the members of documents from a sample. hints: DDL that overrides it.

    Raises GroupError, OSError.
    """
    plan = group.plan(cut)
    spans = [(slot, n) for slot, n in enumerate(plan["ends"]) if n]
    each = max(1, SAMPLE_ROWS // 16)
    bodies: list[str] = []
    step = max(1, len(spans) // 16)  # Samples all slots, not only the first ones.
    for first in range(0, len(spans), step):
        request = {"prefix": path.rstrip("/") + "/", "columns": ["body"], "limit": each}
        options = Options({"url": ",".join(group.urls), "partitions": "1"})
        part = spans[first : first + step]
        for share in shares(plan, part, request, options, is_log=False)[:1]:
            for batch in scanning.batches(share):
                bodies += batch.column("body").to_pylist()
    fields = {field.name: field for field in schema_of_sample(bodies).fields}
    hinted = StructType.fromDDL(hints) if hints else StructType([])
    assert isinstance(hinted, StructType)
    for field in hinted.fields:
        fields[field.name] = field
    return StructType([fields[name] for name in sorted(fields)])


@plainly
def changes(
    spark: SparkSession, url: str, path: str, *, start: str = "latest", end: str = "",
    stream: bool = True, **options: Any,
) -> DataFrame:  # fmt: skip
    """Return a factory's changes: endless, or with `stream=False` those between two cuts.

    start: earliest, latest, snapshot (all documents first, then their changes), a time, or a token
    such as `read(...).cut`. A checkpoint overrides it.
    """
    introduce(spark)
    reader = spark.readStream if stream else spark.read
    given = _said({"url": url, "start": start, "end": end, **options})
    return reader.format("docstore.changes").options(**given).load(path)


@plainly
def write(
    df: DataFrame, url: str, path: str, *, key: str = KEY, operation: str = "upsert",
    mode: str = "append", job_id: str = "", ordered: bool = True, **options: Any,
) -> str:  # fmt: skip
    """Write a DataFrame; return the id of the job, whose document has the outcome of the rows.

    key: the column with links or ids. Rows are written below `path` only: a link to another place
    is refused unless `foreignLinks` is "move" or "follow". ordered: sort the rows by slot first,
    which stores them several times as fast. job_id: a run that is repeated with the same id does no
    harm.
    """
    introduce(df.sparkSession)
    job = job_id or f"batch-{uuid.uuid4()}"
    foreign = Options({}).with_(**options).choice("foreignLinks", FOREIGN_LINKS)
    if ordered:
        slots = len(GroupClient(url.split(",")).layout()["owners"])
        df = in_slot_order(df, path, key, slots=slots, is_moved=foreign == MOVE)
    given = {"url": url, "key": key, "operation": operation, "jobId": job, **options}
    writer = df.write.format("docstore").mode(mode)
    writer.options(**_said(given)).save(path)
    return job


def in_slot_order(
    df: DataFrame, path: str, key: str, *, slots: int, is_moved: bool = False
) -> DataFrame:
    """Sort the rows by slot and link, with those of a slot in one partition.

    is_moved: links to other places mean documents below the path (`bulk_lines.py`).
    """
    slot = slot_column(link_column(df[key], path, is_moved=is_moved), slots)
    if is_remote():  # Only the server knows the number of its executors, so it decides.
        ranged = df.repartitionByRange(slot)
    else:
        parts = max(2, df.sparkSession.sparkContext.defaultParallelism)
        ranged = df.repartitionByRange(parts, slot)
    return ranged.sortWithinPartitions(slot, df[key])


def link_column(key: Column, path: str, *, is_moved: bool = False) -> Column:
    """Return the links of a column that holds links or ids."""
    text = key.cast("string")
    name = F.element_at(F.split(text, "/"), -1) if is_moved else text
    inside = F.concat(F.lit(path.rstrip("/") + "/"), name)
    if is_moved:
        return inside
    return F.when(text.startswith("/"), text).otherwise(inside)


def slot_column(link: Column, slots: int) -> Column:
    """Return the slot of each link, as `slot_of` does."""
    key = F.when(link.rlike(KEY_IN_LINK), F.regexp_extract(link, KEY_IN_LINK, 1)).otherwise(link)
    first = F.conv(F.substring(F.sha2(key, 256), 1, 4), 16, 10).cast("long")
    return F.shiftright(first * slots, 16)


@plainly
def lookup(
    df: DataFrame, url: str, path: str, *, key: str = KEY, as_of: str = "latest"
) -> DataFrame:
    """Add to each row the version and the body of its document, null if it has none.

    The join asks for the keys of the rows in pages, without a scan of the whole factory. A key that
    is null, or a link to another place, has no document below `path`. All rows read one cut, taken
    now; on a stream each task reads the cut of its time. Raises GroupError, and ValueError for a
    column that does not exist, cannot name documents or is named twice.
    """
    if key not in df.schema.names:
        raise ValueError(f"docstore: the rows must have a column {key!r}, the key of each document")
    check_name(df.schema, key)
    urls = url.split(",")
    cut = "latest" if df.isStreaming else _cut(GroupClient(urls), path, as_of)
    beside = [StructField(name, StringType()) for name in ("lookupVersion", "lookupBody")]
    schema = StructType([*df.schema.fields, *beside])
    insist_on_distinct(schema.names)

    def found(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        documents = KeyLookup(urls, path, cut)
        for batch in batches:
            yield documents.beside(batch, key)

    return df.mapInArrow(found, schema)
