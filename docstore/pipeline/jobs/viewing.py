"""`matview`: keep sums over a factory's documents up to date, by its change feed.

A view is a query that makes rows of one document, and sums of these rows by some keys:

    rows="SELECT floor(year / 10) * 10 AS decade, explode(genres) AS genre, 1 AS n FROM documents"
    keys="decade,genre"  sums="n"

Each change adds the rows of the new version and subtracts those of the version before, which the
feed contains. So the sums equal those of a batch over the same cut, deletions included, and are
never computed anew. Spark keeps them in the state of the query, under its checkpoint. Each batch
writes the groups that it has changed, once.
"""

import json
import re
from collections.abc import Sequence
from typing import Any

import pyspark.sql.functions as F  # noqa: N812
from pyspark.sql import Column, DataFrame
from pyspark.sql.types import ArrayType, MapType, StringType, StructType

from docstore.model.paths import id_of
from docstore.pipeline import tables
from docstore.pipeline.jobs.work import LINK_AND_BODY, Work, declare

WEIGHT, COUNT = "weight_", "rows"
EXACT = "decimal(38,9)"
"""The type of sums: floating point sums depend on the order."""


def matview(
    work: Work, *, path: str, into: str, rows: str, keys: str, checkpoint: str, sums: str = "",
    schema: str = "", seconds: float = 0.0, trigger_s: float = 1.0, check: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """Bring a view up to date, once or for some seconds. Raises TrimmedFeed, WriteFailed.

    schema: of the documents, in DDL; "" infers it from a sample.
    """
    view = GroupedView(work, path, rows, keys, sums, schema)
    if work.dry_run:
        return {"path": path, "into": into, "groups": view.batch("latest").count()}
    declare(work.group, into)
    if seconds:
        _run(view.start(into, checkpoint, seconds, trigger_s), seconds)
    # A last run up to this cut finishes an interrupted batch, however fast clients write.
    now = str(work.group.plan(prefix=path)["cut"])
    query = view.start(into, checkpoint, 0.0, trigger_s)
    _run(query, None)
    cut = cut_of_query(query) or now  # If there was no batch, the view was already at this cut.
    result: dict[str, Any] = {"path": path, "into": into, "cut": cut}
    if check:
        result["equalsBatch"] = view.differences(into, cut) == 0
    return result


def _run(query: Any, seconds: float | None) -> None:
    """Wait for a query for at most some seconds, and stop it. Raises its error."""
    try:
        query.awaitTermination(seconds)
    finally:
        query.stop()
    if query.exception() is not None:
        raise query.exception()


def cut_of_query(query: Any) -> str:
    """Return the cut up to which a query has read its feed."""
    progress = query.lastProgress
    offset = progress["sources"][0]["endOffset"] if progress else None
    value = json.loads(offset) if isinstance(offset, str) else offset
    return str(value["cut"]) if value else ""


class GroupedView:
    """A view: its query, its keys and its sums."""

    def __init__(self, work: Work, path: str, rows: str, keys: str, sums: str, schema: str) -> None:
        self._work, self._path = work, path
        self._rows = rows
        self._keys = [each.strip() for each in keys.split(",") if each.strip()]
        self._sums = [each.strip() for each in sums.split(",") if each.strip()]
        if not self._keys:
            raise ValueError("keys must name the columns by which a view sums; got none")
        self._schema = schema or self._sampled()

    def _sampled(self) -> str:
        group = self._work.group
        cut = group.plan("latest", self._path)["cut"]
        return str(tables.sampled_schema(group, self._path, cut).toDDL())

    def start(self, into: str, checkpoint: str, seconds: float, trigger_s: float) -> Any:
        feed = tables.changes(
            self._work.spark, self._work.url, self._path, start="snapshot", preImage="true"
        )
        before = self._made(feed.filter("before IS NOT NULL"), "before", -1)
        after = self._made(feed.filter("NOT deleted"), "body", 1)
        writer: Any = self._summed(after.unionByName(before)).writeStream.outputMode("update")
        writer = writer.option("checkpointLocation", checkpoint)
        if seconds:
            writer = writer.trigger(processingTime=f"{trigger_s} seconds")
        else:
            writer = writer.trigger(availableNow=True)
        url, job = self._work.url, self._work.job_id

        def store(groups: DataFrame, number: int) -> None:
            """Write the groups that a batch has changed: a Python sink has no update mode.

            Each group is there once. A repeated batch may sum to other last digits.
            """
            tables.write(groups, url, into, job_id=job, batchId=number, onRepeat="keep")

        return writer.foreachBatch(store).start()

    def batch(self, as_of: str) -> DataFrame:
        """Return the view computed at once from a snapshot."""
        spark, url = self._work.spark, self._work.url
        table = tables.read(spark, url, self._path, as_of=as_of, columns=LINK_AND_BODY)
        return self._summed(self._made(table, "body", 1)).filter(f"{COUNT} <> 0")

    def differences(self, into: str, cut: str) -> int:
        """Return the number of groups in which the stored view differs from one made at a cut."""
        named = ["documentSelfLink", COUNT, *self._sums]
        types = ", ".join([f"{COUNT} long", *(f"{name} {EXACT}" for name in self._sums)])
        stored = tables.read(self._work.spark, self._work.url, into, columns=LINK_AND_BODY)
        stored = _parsed(stored, "body", types).filter(f"{COUNT} <> 0").select(*named)
        wanted = self.batch(cut)
        link = F.concat(F.lit(into.rstrip("/") + "/"), F.col("documentSelfLink"))
        wanted = wanted.withColumn("documentSelfLink", link).select(*named)
        return stored.exceptAll(wanted).count() + wanted.exceptAll(stored).count()

    def _made(self, documents: DataFrame, body: str, weight: int) -> DataFrame:
        """Return the rows that the view's query makes of some bodies, each with this weight."""
        table = _parsed(documents, body, self._schema)
        # Spark resolves {documents}: two such queries go into one plan.
        query = re.sub(r"(?i)\bfrom\s+documents\b", "FROM {documents}", self._rows)
        made = self._work.spark.sql(query, documents=table)
        return made.withColumn(WEIGHT, F.lit(weight))

    def _summed(self, made: DataFrame) -> DataFrame:
        sums = [
            F.sum(F.col(name).cast(EXACT) * F.col(WEIGHT)).cast(EXACT).alias(name)
            for name in self._sums
        ]
        count = F.sum(F.col(WEIGHT)).cast("long").alias(COUNT)
        grouped = made.groupBy(*self._keys).agg(count, *sums)
        return grouped.withColumn("documentSelfLink", group_id(grouped, self._keys))


def _parsed(documents: DataFrame, body: str, schema: str) -> DataFrame:
    members = F.from_json(F.col(body), schema).alias("m")
    return documents.select("documentSelfLink", members).select("documentSelfLink", "m.*")


def group_id(groups: DataFrame, keys: Sequence[str]) -> Column:
    """Return the ids of groups: different keys have different ids, and null counts as a key."""
    texts = []
    for key in keys:
        is_nested = isinstance(groups.schema[key].dataType, (ArrayType, MapType, StructType))
        texts.append(F.to_json(key) if is_nested else F.col(key).cast("string"))
    made = F.udf(id_of, StringType(), useArrow=True)
    return made(F.array(*texts))
