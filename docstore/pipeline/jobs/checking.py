"""`histcheck`: check that the operations of clients are linearizable, document by document.

The log is NDJSON, an operation a line:

    {"process": "c1", "kind": "read", "link": "/a/1", "version": 7, "started": us, "ended": us,
     "ok": true}

kind: read or write (any operation that made a version). version: the version that was read or made,
null if there was no document. ok: true, false (it changed nothing), null (unknown). Versions of a
document number its states in order. So an order of operations exists if and only if no operation
has an older version than one that ended before it began, no read has a version that was written
only after it, and no version was written twice. That is linearizability for one register whose
states have unique, ordered names (Gibbons and Korach, 1997), checked in one pass.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyspark.sql.functions as F  # noqa: N812
from pyspark.sql import DataFrame

from docstore.pipeline import tables
from docstore.pipeline.jobs.files import lines_of, place
from docstore.pipeline.jobs.work import Work

SCHEMA = (
    "process string, kind string, link string, version long, started long, ended long, ok boolean"
)
_CORRUPT = "corrupt"
_IS_NONE = (
    f"{_CORRUPT} IS NOT NULL OR kind IS NULL OR kind NOT IN ('read', 'write') OR link IS NULL"
    " OR started IS NULL"
)
FOUND = "link string, what string, operations string"
NAMED_MAX = 100
ABSENT = -1


def histcheck(work: Work, *, log: str, path: str = "") -> dict[str, Any]:
    """Check a log of operations; with `path`, check also that the written versions are stored.

    Raises ValueError for a line that is not an operation.
    """
    operations = _operations(work, log)
    if path:
        operations = operations.filter(F.col("link").startswith(path.rstrip("/") + "/"))
    judged = operations.groupBy("link").applyInArrow(_judge, FOUND).orderBy("link")
    rows = judged.limit(NAMED_MAX).collect()
    result = {
        "operations": operations.count(),
        "documents": operations.select("link").distinct().count(),
        "violations": [row.asDict() for row in rows],
        "lost": [],
    }
    if path:
        result["lost"] = _lost(work, operations, path)
    return {**result, "clean": not result["violations"] and not result["lost"]}


def _operations(work: Work, log: str) -> DataFrame:
    """Return the operations of a log. Raises ValueError for a line that is not one."""
    lines = lines_of(work, log)
    options = {"columnNameOfCorruptRecord": _CORRUPT}
    parsed = F.from_json(F.col("raw").cast("string"), f"{SCHEMA}, {_CORRUPT} string", options)
    operations = lines.withColumn("it", parsed).select("file", "block", "line", "it.*")
    wrong = operations.filter(_IS_NONE).orderBy("file", "block", "line").first()
    if wrong is not None:
        raise ValueError(f"{place(work, log, wrong)} must be an operation as JSON")
    return operations.drop("file", "block", "line", _CORRUPT)


def _lost(work: Work, operations: Any, path: str) -> list[dict[str, Any]]:
    """Return acknowledged writes whose version the store does not have."""
    written = operations.filter("kind = 'write' AND ok").select("link", "version").distinct()
    kept = tables.read(
        work.spark, work.url, path, columns=("documentSelfLink", "documentVersion"),
        versions="all", includeDeleted="true",
    )  # fmt: skip
    there = kept.select(F.col("documentSelfLink").alias("link"),
                        F.col("documentVersion").alias("version"))  # fmt: skip
    # Versions below the oldest kept one were compacted, not lost.
    oldest = there.groupBy("link").agg(F.min("version").alias("oldest"))
    missing = written.join(there, ["link", "version"], "left_anti").join(oldest, "link", "left")
    rows = missing.filter("oldest IS NULL OR version > oldest").limit(NAMED_MAX).collect()
    return [{"link": row["link"], "version": row["version"]} for row in rows]


def _judge(table: pa.Table) -> pa.Table:
    found = violations(table.to_pylist())
    names = ("link", "what", "operations")
    columns = {name: [each[name] for each in found] for name in names}
    return pa.table(columns, schema=pa.schema([(name, pa.string()) for name in names]))


def violations(operations: Iterable[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Return the impossible operations on one document, the shortest proof first."""
    done = [each for each in operations if each["ok"] and each["ended"] is not None]
    writes: dict[int, Mapping[str, Any]] = {}
    found = []
    for each in done:
        if each["kind"] != "write":
            continue
        other = writes.setdefault(each["version"], each)
        if other is not each:
            found.append(_violation("one version was made twice", [other, each]))
    for each in done:
        maker = writes.get(_version(each))
        if each["kind"] == "read" and maker is not None and each["ended"] < maker["started"]:
            found.append(_violation("a version was read before it was made", [each, maker]))
    stale = _stale(done, writes)
    return ([stale] if stale else []) + found


def _stale(
    done: Sequence[Mapping[str, Any]], writes: Mapping[int, Mapping[str, Any]]
) -> dict[str, str] | None:
    """Return the first operation with an older version than one that ended before it began."""
    by_end = sorted(done, key=lambda each: each["ended"])
    newest: Mapping[str, Any] | None = None
    ended = 0
    for each in sorted(done, key=lambda each: each["started"]):
        while ended < len(by_end) and by_end[ended]["ended"] < each["started"]:
            if newest is None or _version(by_end[ended]) > _version(newest):
                newest = by_end[ended]
            ended += 1
        if newest is None:
            continue
        least = _version(newest) + (1 if each["kind"] == "write" else 0)
        if _version(each) < least:
            maker = writes.get(_version(newest))
            if maker is not None and maker["ended"] < each["started"]:
                newest = maker  # The write alone proves the violation.
            proof = [maker] if maker is not None and maker is not newest else []
            return _violation("an older version after a newer one", [*proof, newest, each])
    return None


def _version(operation: Mapping[str, Any]) -> int:
    version = operation["version"]
    return ABSENT if version is None else int(version)


def _violation(what: str, proof: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    lines = [
        f"{each['process']} {each['kind']} v{each['version']} [{each['started']}, {each['ended']}]"
        for each in proof
    ]
    return {"link": str(proof[0]["link"]), "what": what, "operations": "; ".join(lines)}
