"""`compact`: delete versions that were replaced before an instant, on all nodes.

Nodes with `history_retention_s` do so all the time. This is for nodes that keep all versions until
an operator decides otherwise. Afterwards earlier states cannot be read, except through named
snapshots. The newest version stays, and as many versions as the factory keeps.
"""

import re
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import pyspark.sql.functions as F  # noqa: N812
from pyspark.sql import DataFrame, Window

from docstore.documents.retention.pins import NO_SNAPSHOT
from docstore.pipeline.group_client import GroupClient
from docstore.pipeline.jobs.work import Work
from docstore.pipeline.tables import read
from docstore.query.cut import unpack_cut

UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
ROUNDS_MAX = 6
"""Most rounds: owners find the rows that all replicas have, then replicas follow."""
POLL_S = 0.2
PATIENCE_S = 600.0
MANAGEMENT = "/core/management"


def compact(work: Work, *, older_than: str) -> dict[str, Any]:
    """Delete versions that were replaced longer ago than a duration such as 7d or 90s."""
    before_us = time.time_ns() // 1000 - int(seconds(older_than) * 1e6)
    planned = _replaced(work, before_us)
    result = {
        "before": datetime.fromtimestamp(before_us / 1e6, UTC).isoformat(),
        "versions": planned,
        "planned": sum(planned.values()),
    }
    if work.dry_run:
        return result
    passed = _let_go(work, before_us)
    left = sum(_replaced(work, before_us).values())
    return result | {"left": left, "rowsPassed": passed}


def seconds(text: str) -> float:
    """Return a duration in seconds. Raises ValueError."""
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([smhd])", text.strip())
    if found is None:
        raise ValueError(f"docstore: a duration must be such as 7d, 12h, 30m or 90s; got {text!r}")
    return float(found[1]) * UNITS_S[found[2]]


def _replaced(work: Work, before_us: int) -> dict[str, int]:
    """Return factory -> number of versions to delete."""
    needed = work.spark.createDataFrame(list(_needed(work.group).items()), "slot long, needed long")
    found = {}
    for page in work.group.json("GET", "/core/factories?$limit=1000&expand")["documents"].values():
        if "ENFORCE_QUORUM" in page.get("options", ["ENFORCE_QUORUM"]):
            work.progress(f"looking at {page['path']}")
            staying = page.get("retention", {}).get("versions", 1)
            found[page["path"]] = _old(work, page["path"], needed, before_us, staying).count()
    return found


def _old(work: Work, path: str, needed: DataFrame, before_us: int, staying: int) -> DataFrame:
    """Return the versions of a factory that were replaced, and that no snapshot needs.

    staying: number of versions that the factory keeps of each document.
    """
    columns = ("slot", "documentSelfLink", "documentVersion", "seq", "documentUpdateTimeMicros")
    rows = read(work.spark, work.url, path, columns=columns, versions="all", includeDeleted="true")
    line = Window.partitionBy("slot", "documentSelfLink").orderBy("documentVersion")
    return (
        rows.select(
            "slot",
            F.lead("seq", staying).over(line).alias("next"),
            F.lead("documentUpdateTimeMicros", staying).over(line).alias("replaced"),
        )
        .join(F.broadcast(needed), "slot", "left")
        .filter(F.col("replaced") < before_us)
        .filter(F.col("next") <= F.coalesce("needed", F.lit(NO_SNAPSHOT)))
    )


def _needed(group: GroupClient) -> Mapping[int, int]:
    """Return slot -> the earliest position at which a named snapshot reads that slot."""
    needed: dict[int, int] = {0: NO_SNAPSHOT}  # Spark needs at least one row to make a table.
    pages = group.json("GET", "/core/snapshots?$limit=1000&expand")["documents"]
    for page in pages.values():
        for slot, (_, n) in enumerate(unpack_cut(page["cut"]).positions):
            needed[slot] = min(n, needed.get(slot, NO_SNAPSHOT))
    return needed


def _let_go(work: Work, before_us: int) -> dict[str, int]:
    """Compact all nodes in rounds until a round trims nothing; return node -> rows trimmed."""
    nodes = {node["id"]: GroupClient([node["url"]]) for node in work.group.layout()["nodes"]}
    begun = dict(_passed(nodes))
    before = begun
    for number in range(ROUNDS_MAX):
        work.progress(f"round {number + 1}")
        for node in nodes.values():
            node.json("PATCH", MANAGEMENT, {"kind": "CompactRequest", "beforeMicros": before_us})
        _wait(nodes)
        now = dict(_passed(nodes))
        if now == before and number:
            break
        before = now
    return {name: before[name] - begun[name] for name in nodes}


def _passed(nodes: Mapping[str, GroupClient]) -> Iterator[tuple[str, int]]:
    for name, node in nodes.items():
        yield name, node.json("GET", MANAGEMENT)["compaction"]["rowsPassed"]


def _wait(nodes: Mapping[str, GroupClient]) -> None:
    """Wait until all nodes have compacted all of their slots. Raises TimeoutError."""
    deadline = time.monotonic() + PATIENCE_S
    for name, node in nodes.items():
        while node.json("GET", MANAGEMENT)["compaction"]["slotsLeft"]:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{name} has not compacted all its slots; run this again")
            time.sleep(POLL_S)
