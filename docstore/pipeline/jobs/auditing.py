"""`audit`: compare all copies of all documents, and name those that differ.

Every copy is read from its own node, at one cut, bodies included: the stored digest of a body does
not prove the body. Copies that differ are left as they are; `docstore resync` repairs them.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyspark.sql.functions as F  # noqa: N812
from pyspark.sql import DataFrame

from docstore.pipeline import scanning
from docstore.pipeline.jobs.work import Work

NAMED_MAX = 1000
SLOTS_AT_ONCE = 64


def audit(work: Work, *, path: str, as_of: str = "latest") -> dict[str, Any]:
    """Compare the copies of a factory's documents."""
    plan = work.group.plan(as_of, path)
    copies, held = _copies(work, plan, path), _held(plan)
    # Hashes need only a few bytes for each copy. The documents that look odd are read again.
    keys = copies.groupBy("slot", "key").agg(
        F.count("*").alias("copies"),
        *(each(name).alias(f"{each.__name__}_{name}")
          for name in ("documentVersion", "content") for each in (F.min, F.max)),
    ).persist()  # fmt: skip
    try:
        documents = keys.count()
        wanted = work.spark.createDataFrame(list(held.items()), "slot long, wanted long")
        odd = (
            keys.join(F.broadcast(wanted), "slot")
            .filter(
                "copies <> wanted OR min_documentVersion <> max_documentVersion"
                " OR min_content <> max_content"
            )
            .select("slot", "key")
            .limit(NAMED_MAX + 1)
            .collect()
        )
    finally:
        keys.unpersist()
    return {
        "path": path,
        "cut": plan["cut"],
        "documents": documents,
        "differences": _differences(work, copies, odd[:NAMED_MAX], plan) if odd else [],
        "more": len(odd) > NAMED_MAX,
    }


def _differences(
    work: Work, copies: DataFrame, odd: Sequence[Any], plan: dict[str, Any]
) -> list[dict[str, Any]]:
    """Return the faults of the documents that looked odd, by link."""
    asked = work.spark.createDataFrame([tuple(row) for row in odd], "slot long, key long")
    rows = (
        copies.join(F.broadcast(asked), ["slot", "key"])
        .groupBy("slot", "documentSelfLink")
        .agg(F.collect_list(F.struct("node", "documentVersion", "content")).alias("found"))
        .orderBy("documentSelfLink")
        .collect()
    )
    found = []
    for row in rows:
        holders = {plan["nodes"][number]["id"] for number in plan["replicas"][row["slot"]]}
        difference = _difference(row, holders)
        if difference["nodes"]:
            found.append(difference)
    return found


def _held(plan: dict[str, Any]) -> dict[int, int]:
    return {slot: len(plan["replicas"][slot]) for slot, n in enumerate(plan["ends"]) if n}


def _difference(row: Any, holders: set[str]) -> dict[str, Any]:
    """Return the faults of one document's copies. The majority is right."""
    found = {each["node"]: (each["documentVersion"], each["content"]) for each in row["found"]}
    kinds = list(found.values())
    usual = max(set(kinds), key=kinds.count)
    missing = sorted(holders - found.keys())
    altered = sorted(node for node, kind in found.items() if kind != usual)
    what = "altered" if altered else "missing"
    if len(missing) * 2 > len(holders):
        what, altered, missing = "extra", sorted(found), []
    return {
        "documentSelfLink": row["documentSelfLink"], "what": what, "nodes": altered or missing,
    }  # fmt: skip


def _copies(work: Work, plan: dict[str, Any], path: str) -> DataFrame:
    """Return every copy of every document, each read from its own node."""
    parts: list[tuple[str, str, Sequence[tuple[int, int]]]] = []
    for number, node in enumerate(plan["nodes"]):
        spans = [
            (slot, n)
            for slot, n in enumerate(plan["ends"])
            if n and number in plan["replicas"][slot]
        ]
        parts += [
            (node["id"], node["url"], spans[at : at + SLOTS_AT_ONCE])
            for at in range(0, len(spans), SLOTS_AT_ONCE)
        ]
    prefix = path.rstrip("/") + "/"
    count = len(parts) or 1
    shares = work.spark.range(0, len(parts), 1, min(count, 16))

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for at in batch.column("id").to_pylist():
                node, url, spans = parts[at]
                yield from _copy(node, url, spans, prefix)

    schema = "node string, documentSelfLink string, documentVersion long, slot long, body string"
    raw = shares.mapInArrow(read, schema)
    return raw.select(
        "node", "documentSelfLink", "documentVersion", "slot",
        F.xxhash64("documentSelfLink").alias("key"), F.xxhash64("body").alias("content"),
    )  # fmt: skip


def _copy(
    node: str, url: str, spans: Sequence[tuple[int, int]], prefix: str
) -> Iterator[pa.RecordBatch]:
    request = {
        "prefix": prefix, "columns": ["documentSelfLink", "documentVersion", "slot", "body"],
        "catchUpMs": 10_000, "direct": True,
    }  # fmt: skip
    # No other node may answer instead, since each has another copy.
    share = scanning.ScanShare(tuple(spans), (scanning.ScanNode(url),), request, urls=(url,))
    for batch in scanning.batches(share):
        names = pa.array([node] * batch.num_rows, pa.string())
        yield pa.RecordBatch.from_arrays(
            [names, *batch.columns], names=["node", *batch.schema.names]
        )
