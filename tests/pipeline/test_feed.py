"""Change feeds: every change once and in order, and no other.

Scenarios A7 and A19 to A23.
"""

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812

from docstore import pipeline
from docstore.pipeline.feeding import advanced, insist_on_order
from docstore.query.cut import Cut, unpack_cut
from tests.pipeline.forgetful import forgetful
from tests.pipeline.stage import Stage


def follow(stage: Stage, scratch: Path, **options: Any) -> list[dict[str, Any]]:
    """Read the feed up to now into Parquet; return the batches' progress."""
    feed = pipeline.changes(stage.spark, stage.url, stage.path, **options)
    writer = feed.writeStream.format("parquet").option("path", str(scratch / "out"))
    writer = writer.option("checkpointLocation", str(scratch / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    return [dict(each.jsonValue if hasattr(each, "jsonValue") else each)
            for each in query.recentProgress]  # fmt: skip


def folded(changes: Any) -> dict[str, Any]:
    """Return the state after changes: the newest version of each document that is there."""
    newest = F.max_by(F.struct("deleted", "body"), "documentVersion").alias("last")
    rows = changes.groupBy("documentSelfLink").agg(newest).collect()
    return {
        row["documentSelfLink"].rpartition("/")[2]: json.loads(row["last"]["body"])
        for row in rows
        if not row["last"]["deleted"]
    }


def test_an_end_before_the_start_is_an_error_and_not_an_empty_table() -> None:
    start, end = Cut("c", ((1, 5), (1, 9))), Cut("c", ((1, 5), (1, 8)))
    with pytest.raises(ValueError, match="`end` must not be a cut from before `start`"):
        insist_on_order(start, end)
    insist_on_order(end, start)
    insist_on_order(start, start)
    with pytest.raises(ValueError, match="cuts of the same group"):
        insist_on_order(start, Cut("d", start.positions))


class Writing:
    """A thread that writes beside a test, without taking the whole machine."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.turns = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *wrong: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(0.05):
            lines: list[dict[str, Any]] = [
                {"link": f"{self._stage.path}/{n}", "body": {"turn": self.turns}}
                for n in range(self.turns % 5, 100, 5)
            ]
            lines.append({"op": "DELETE", "link": f"{self._stage.path}/{self.turns % 100}"})
            self._stage.bulk(lines)
            self.turns += 1


@pytest.mark.thorough
def test_a07_a_snapshot_and_its_feed_fit_together(stage: Stage, scratch: Path) -> None:
    """No gap and no duplicate, under writers and a killed owner."""
    stage.put({str(n): {"turn": -1} for n in range(100)})
    with Writing(stage) as writing:
        table = pipeline.read(stage.spark, stage.url, stage.path)
        follow(stage, scratch, start=pipeline.cut_of(table))
        victim = stage.cluster.nodes[1]
        stage.cluster.kill(victim)
        follow(stage, scratch)
        stage.cluster.start(victim)
        stage.cluster.wait_ready()
        follow(stage, scratch)
    follow(stage, scratch)
    assert writing.turns > 5
    feed = stage.spark.read.parquet(str(scratch / "out"))
    assert feed.count() == feed.select("slot", "seq").distinct().count()
    before = table.selectExpr("documentSelfLink", "documentVersion", "false AS deleted", "body")
    both = before.unionByName(feed.select(before.columns))
    assert folded(both) == stage.documents()


@pytest.mark.thorough
def test_a19_batches_are_bounded_and_the_end_is_frozen(stage: Stage, scratch: Path) -> None:
    for turn in range(5):
        stage.put({str(n): {"turn": turn} for n in range(400)})
    with Writing(stage):
        progress = follow(stage, scratch, start="earliest", maxChangesPerTrigger=600)
    assert len(progress) >= 4
    assert max(batch["numInputRows"] for batch in progress) <= 600
    seen = stage.spark.read.parquet(str(scratch / "out")).count()
    now = stage.changes(start="earliest").count()
    assert 2000 <= seen <= now


def test_a21_versions_of_a_document_come_in_order_with_their_predecessors(stage: Stage) -> None:
    for turn in range(50):
        stage.put({"one": {"turn": turn}})
    rows = stage.changes(preImage="true", partitions=8).collect()
    assert [row["documentVersion"] for row in rows] == list(range(50))
    assert [json.loads(row["body"])["turn"] for row in rows] == list(range(50))
    assert rows[0]["before"] is None
    assert [json.loads(row["before"])["turn"] for row in rows[1:]] == list(range(49))


def test_a22_deletions_and_later_puts_are_changes(stage: Stage) -> None:
    stage.put({str(n): {"n": n} for n in range(20)})
    stage.delete(str(n) for n in range(0, 20, 2))
    stage.put({str(n): {"n": -n} for n in range(0, 20, 4)})
    feed = stage.changes()
    assert folded(feed) == stage.documents()
    gone = feed.filter("deleted")
    assert gone.count() == 10
    assert gone.filter("body IS NOT NULL").count() == 0
    history = stage.load(versions="all", includeDeleted="true")
    assert feed.select("documentSelfLink", "documentVersion").exceptAll(
        history.select("documentSelfLink", "documentVersion")
    ).count() == 0  # fmt: skip
    assert feed.count() == history.count()
    latest = stage.changes(mode="latest")
    assert latest.count() == 20
    assert stage.changes(mode="keys").columns[-1] == "deleted"


@pytest.mark.thorough
def test_a_checkpoint_is_for_one_question(stage: Stage, scratch: Path) -> None:
    stage.put({"a": {"n": 1}})
    follow(stage, scratch, start="earliest")
    with pytest.raises(PySparkException, match="another path, where or mode"):
        follow(stage, scratch, start="earliest", where="n = 1")


@pytest.mark.thorough
def test_a_stream_can_begin_with_a_snapshot(stage: Stage, scratch: Path) -> None:
    stage.put({str(n): {"n": n} for n in range(30)})
    stage.put({str(n): {"n": n} for n in range(10)})
    stage.delete(["3"])
    follow(stage, scratch, start="snapshot", preImage="true")
    stage.put({"5": {"n": -5}})
    follow(stage, scratch, start="snapshot", preImage="true")
    feed = stage.spark.read.parquet(str(scratch / "out"))
    actions = {row[0]: row[1] for row in feed.groupBy("documentUpdateAction").count().collect()}
    assert actions == {"SNAPSHOT": 29, "PUT": 1}
    # A row of the initial snapshot is no change: it has no version before.
    changed = feed.filter("before IS NOT NULL").select("documentUpdateAction").collect()
    assert {row[0] for row in changed} == {"PUT"}
    assert folded(feed) == stage.documents()


def cuts(lags: list[int]) -> tuple[Cut, Cut]:
    start = Cut("c", tuple((1, 10 * slot) for slot in range(len(lags))))
    end = Cut("c", tuple((2, n + lag) for (_, n), lag in zip(start.positions, lags, strict=True)))
    return start, end


@pytest.mark.parametrize("lags", [[0, 0], [5], [1000, 1, 0, 3], [7] * 50, [1] * 1000])
@pytest.mark.parametrize("rows", [1, 6, 100, 100_000])
def test_a19_a_share_of_the_lag_is_exact_and_comes_to_the_end(lags: list[int], rows: int) -> None:
    at, end = cuts(lags)
    steps = 0
    while at.positions != end.positions and sum(lags):
        following = advanced(at, end, rows)
        moved = [b[1] - a[1] for a, b in zip(at.positions, following.positions, strict=True)]
        left = [b[1] - a[1] for a, b in zip(at.positions, end.positions, strict=True)]
        assert all(0 <= step <= lag for step, lag in zip(moved, left, strict=True))
        assert sum(moved) == min(rows, sum(left))
        at = following
        steps += 1
        if steps > 3:
            break
    assert unpack_cut(at.pack()) == at


@pytest.fixture(scope="module")
def trimmed(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A group that trims old versions after a second."""
    with forgetful(tmp_path_factory.mktemp("trimmed")) as cluster:
        stage = Stage.of(spark, cluster, "/trimmed")
        for turn in range(5):
            stage.put({str(n): {"turn": turn} for n in range(50)})
        stage.delete(["7"])
        cluster.until_trimmed(150)
        yield stage


@pytest.mark.thorough
def test_a23_a_trimmed_beginning_is_refused_or_skipped(trimmed: Stage) -> None:
    nothing = unpack_cut(trimmed.cut())
    nothing = Cut(nothing.cluster, tuple((0, 0) for _ in nothing.positions))
    with pytest.raises(PySparkException, match="oldest changes have been deleted"):
        trimmed.changes(start=nothing.pack()).collect()
    state = trimmed.changes(start=nothing.pack(), onTrim="snapshot")
    assert folded(state) == trimmed.documents()
    skipped = trimmed.changes(start=nothing.pack(), onTrim="skip")
    assert skipped.count() < 251
    assert trimmed.changes(start="earliest").count() == skipped.count()


@pytest.mark.thorough  # It waits until all versions that no snapshot holds would be gone.
def test_a_named_consumer_finds_all_unread_changes(spark: Any, scratch: Path) -> None:
    with forgetful(scratch, retention_s=6.0) as cluster:
        stage = Stage.of(spark, cluster, "/held")
        rows: list[tuple[str, int]] = []

        def follow() -> None:
            feed = pipeline.changes(spark, stage.url, stage.path, consumer="slow")
            query = (
                feed.writeStream.option("checkpointLocation", str(scratch / "state"))
                .foreachBatch(lambda batch, _: rows.extend(changed(batch)))
                .trigger(availableNow=True)
                .start()
            )
            assert query.awaitTermination(60)

        follow()
        names = [str(n) for n in range(50)]
        for turn in range(4):
            stage.put({name: {"turn": turn} for name in names})
        time.sleep(12.0)  # Twice the retention of versions that no snapshot holds.
        stage.put({"0": {"turn": 4}})
        follow()
        assert sorted(turn for name, turn in rows if name == "0") == [0, 1, 2, 3, 4]
        assert len(rows) == 4 * 50 + 1
        held = spark.read.format("docstore.admin").option("url", stage.url).load("snapshots")
        assert [row.name for row in held.collect()] == ["consumer-slow"]
        pipeline.drop_snapshot(stage.url, "consumer-slow")
        cluster.until_trimmed(100)  # Versions that no snapshot holds go.


def changed(batch: Any) -> list[tuple[str, int]]:
    rows = batch.select("documentSelfLink", "body").collect()
    return [(row[0].rpartition("/")[2], json.loads(row[1])["turn"]) for row in rows]


def test_a06_a_read_of_trimmed_history_names_the_earliest_time(trimmed: Stage) -> None:
    with pytest.raises(PySparkException, match=r"snapshot-gone.*is kept from"):
        trimmed.load(asOf="2020-01-01T00:00:00Z").count()
