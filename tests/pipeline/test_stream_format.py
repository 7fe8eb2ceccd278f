"""Topics on Spark: each record once, and the effect of a repeated task."""

import json
import time
from dataclasses import replace
from datetime import UTC, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812

from docstore import pipeline
from docstore.client.local import LocalCluster
from docstore.pipeline.fetching import Range, RecordsLost, blocks
from docstore.streams.routing import partition_of
from tests.pipeline.records import Topic, flights, numbers

pytestmark = pytest.mark.thorough

NOBODY = "http://127.0.0.1:1"


@pytest.fixture
def topic(spark: Any, cluster: LocalCluster, request: pytest.FixtureRequest) -> Topic:
    """A topic of three partitions for one test."""
    return Topic.of(spark, cluster, request.node.name.split("[")[0])


def once(stream: Any, scratch: Path, *, form: str = "parquet", **options: Any) -> Any:
    """Write the records of a stream up to now, and return the query."""
    options = {"checkpointLocation": str(scratch / "checkpoint"), **options}
    if form == "parquet":
        options["path"] = str(scratch / "out")
    query = stream.writeStream.format(form).options(**options).trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    return query


def frame(topic: Topic, rows: list[dict[str, Any]]) -> Any:
    """Return flights as a DataFrame of records, in one Spark partition."""
    records = [(row["origin"], json.dumps(row)) for row in rows]
    return topic.spark.createDataFrame(records, "key string, value string").coalesce(1)


def test_a_table_has_the_records_produced_before_its_load(topic: Topic) -> None:
    given = flights(500)
    topic.post(given)
    table = topic.read(maxRecordsPerPartition=150)
    topic.post(flights(5, 500))
    other = table.select("partition", "offset", F.col("value").alias("again"))
    rows = table.join(other, ["partition", "offset"]).orderBy("partition", "offset").collect()
    assert [row["again"] for row in rows] == [row["value"] for row in rows]
    assert len(rows) == 500
    for number in range(3):
        mine = [row for row in rows if row["partition"] == number]
        assert [row["offset"] for row in mine] == list(range(len(mine)))
        assert [json.loads(row["value"]) for row in mine] == [
            each for each in given if partition_of(each["origin"].encode(), 3) == number
        ]
        assert all(row["key"] == json.loads(row["value"])["origin"] for row in mine)
    assert {row["topic"] for row in rows} == {topic.name}
    assert {bytes(row["headers"]["from"]) for row in rows} == {b"test"}
    now = [page["epoch"] for page in topic.page()]  # A busy machine may have changed a leader.
    assert all(1 <= row["epoch"] <= now[row["partition"]] for row in rows)


def test_a_table_begins_and_ends_at_given_offsets(topic: Topic) -> None:
    topic.post(flights(100))
    last = topic.read().agg(F.max("timestamp")).first()[0].astimezone(UTC)
    ends = {str(n): page["hw"] for n, page in enumerate(topic.page())}
    topic.post(flights(100, 100))
    late = topic.read(startingTimestamp=(last + timedelta(microseconds=1)).isoformat())
    assert numbers(late) == list(range(100, 200))
    assert numbers(topic.read(endingOffsets=json.dumps(ends))) == list(range(100))
    assert numbers(topic.read(startingOffsets=json.dumps(ends))) == list(range(100, 200))
    one = topic.read(
        startingOffsets='{"0": -1, "1": -1, "2": 0}', columns="offset,key", keyAs="binary"
    )
    assert one.columns == ["offset", "key"]
    assert one.count() == topic.page()[2]["hw"]
    assert topic.read(startingOffsets="latest").count() == 0


def subscribed(topic: Topic, reader: Any, **options: Any) -> Any:
    """Read or follow topics that options name."""
    url = ",".join(topic.cluster.urls)
    return reader.format("docstore.stream").options(url=url, **options).load()


def test_a_time_ends_a_table_where_it_begins_the_next(topic: Topic) -> None:
    topic.post(flights(100))
    middle = topic.read().agg(F.max("timestamp")).first()[0].astimezone(UTC)
    topic.post(flights(100, 100))
    at = (middle + timedelta(microseconds=1)).isoformat()
    assert numbers(topic.read(endingTimestamp=at)) == list(range(100))
    assert numbers(topic.read(startingTimestamp=at)) == list(range(100, 200))
    assert numbers(topic.read(endingTimestamp="2100-01-01T00:00:00Z")) == list(range(200))
    with pytest.raises(PySparkException, match="before its start"):
        topic.read(startingTimestamp=at, endingTimestamp="1000").count()


def test_several_topics_are_one_table_and_one_stream(topic: Topic, scratch: Path) -> None:
    one, other = (Topic.of(topic.spark, topic.cluster, f"{topic.name}-{n}") for n in range(2))
    pattern = f"{topic.name}-\\d"
    asked = {"subscribePattern": pattern, "startingOffsets": "earliest", "maxOffsetsPerTrigger": 90}
    topic.post(flights(7, 5_000))  # It does not match.
    one.post(flights(100))
    other.post(flights(100, 100))
    both = subscribed(topic, topic.spark.read, subscribe=f"{one.name},{other.name}")
    assert numbers(both) == list(range(200))
    places = both.select("topic", "partition", "offset").distinct()
    assert (places.count(), places.select("topic").distinct().count()) == (200, 2)
    ends = json.dumps({one.name: {"0": 0, "1": 0, "2": 0}})
    some = subscribed(topic, topic.spark.read, subscribePattern=pattern, endingOffsets=ends)
    assert numbers(some) == list(range(100, 200))
    stream = subscribed(topic, topic.spark.readStream, **asked)
    progress = once(stream, scratch).recentProgress
    assert [each["numInputRows"] for each in progress][:3] == [90, 90, 20]
    late = Topic.of(topic.spark, topic.cluster, f"{topic.name}-2")
    late.post(flights(100, 200))
    one.post(flights(50, 300))
    once(subscribed(topic, topic.spark.readStream, **asked), scratch)
    assert numbers(topic.spark.read.parquet(str(scratch / "out"))) == list(range(350))
    late.group.json("DELETE", late.path)
    with pytest.raises(PySparkException, match="was deleted, or does not match"):
        once(subscribed(topic, topic.spark.readStream, **asked), scratch)
    asked["failOnDataLoss"] = "false"
    one.post(flights(10, 350))
    once(subscribed(topic, topic.spark.readStream, **asked), scratch)
    assert numbers(topic.spark.read.parquet(str(scratch / "out"))) == list(range(360))


def test_a_stream_that_is_restarted_has_every_record_once(topic: Topic, scratch: Path) -> None:
    asked = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": 200}
    topic.post(flights(450))
    progress = once(topic.follow(**asked), scratch).recentProgress
    assert [batch["numInputRows"] for batch in progress][:3] == [200, 200, 50]
    topic.post(flights(50, 450))
    topic.group.json("PATCH", topic.path, {"partitions": 5})
    topic.post(flights(300, 500))
    once(topic.follow(**asked), scratch)
    assert len(topic.page()) == 5
    read = topic.spark.read.parquet(str(scratch / "out"))
    assert numbers(read) == list(range(800))
    assert read.select("partition", "offset").distinct().count() == 800


def test_a_task_continues_at_another_node_when_the_leader_is_gone(topic: Topic) -> None:
    topic.post(flights(100))
    end = topic.page()[0]["hw"]
    urls = (NOBODY, *topic.cluster.urls)
    asked = Range(topic.name, 0, 1, end, urls, fails_on_loss=True, retries=1, timeout_s=10.0)
    found = [each for part in asked.parts(10) for each in blocks(part)]
    assert [each.offsets[0] for each in found] == [part.start for part in asked.parts(10)]
    assert sum(len(each.values) for each in found) == end - 1


def test_lost_records_fail_a_reader_or_are_skipped(spark: Any, cluster: LocalCluster) -> None:
    topic = Topic.of(spark, cluster, "short", partitions=1, retention={"ms": 0, "bytes": 1})
    lost = topic.lose()
    with pytest.raises(PySparkException) as seen:
        topic.read(startingOffsets='{"0": 0}').collect()
    assert "is not kept any more" in pipeline.line_of(seen.value)
    assert "failOnDataLoss" in pipeline.line_of(seen.value)
    kept = topic.read(startingOffsets='{"0": 0}', failOnDataLoss="false").collect()
    assert min(row["offset"] for row in kept) >= lost


def test_a_topic_that_was_made_anew_is_not_read_on(topic: Topic, scratch: Path) -> None:
    topic.post(flights(30))
    once(topic.follow(startingOffsets="earliest"), scratch)
    topic.group.json("DELETE", topic.path)
    topic.make()
    topic.post(flights(60, 30))
    with pytest.raises(PySparkException, match="was deleted and created again"):
        once(topic.follow(), scratch)
    once(topic.follow(failOnDataLoss="false"), scratch)
    assert numbers(topic.spark.read.parquet(str(scratch / "out"))) == list(range(90))


def test_a_task_reads_nothing_of_a_topic_that_was_made_anew_after_its_plan(topic: Topic) -> None:
    topic.post(flights(100))
    old = topic.group.json("GET", topic.path)["incarnation"]
    topic.group.json("DELETE", topic.path)
    topic.make()
    topic.post(flights(100, 100))
    urls = tuple(topic.cluster.urls)
    asked = Range(topic.name, 0, 0, 5, urls, fails_on_loss=True, retries=1, timeout_s=10.0, of=old)
    with pytest.raises(RecordsLost, match="made again since this was planned"):
        list(blocks(asked))
    assert list(blocks(replace(asked, fails_on_loss=False))) == []
    assert sum(len(each.values) for each in blocks(replace(asked, of=""))) == 5


def test_a_repeated_task_adds_nothing(topic: Topic) -> None:
    def failing(batches: Any) -> Any:
        context = TaskContext.get()
        assert context is not None
        for batch in batches:
            yield batch.slice(0, 250)
            if context.attemptNumber() == 0:
                raise RuntimeError("the first attempt ends here")
            yield batch.slice(250)

    rows = frame(topic, flights(500))
    topic.write(rows.mapInArrow(failing, rows.schema), jobId="repeated", batchRows=20)
    assert numbers(topic.read()) == list(range(500))
    topic.write(rows, jobId="repeated", batchRows=20)
    assert topic.read().count() == 500
    job = topic.group.json("GET", "/core/spark/jobs/repeated")
    assert (job["state"], job["repeated"], job["path"]) == ("COMMITTED", 500, topic.path)
    with pytest.raises(PySparkException, match="its rows came in another order"):
        topic.write(rows.orderBy(F.desc("value")).coalesce(1), jobId="repeated", batchRows=20)
    assert topic.read().count() == 500
    topic.write(rows, jobId="repeated", batchId=1)
    with pytest.raises(PySparkException, match="producer-fenced"):
        topic.write(rows, jobId="repeated", batchRows=20)
    assert topic.read().count() == 1000


def test_a_batch_that_is_repeated_after_the_topic_got_partitions_adds_nothing(
    topic: Topic,
) -> None:
    """Keys of a new partition go to the partition of the first run."""
    rows = frame(topic, flights(50))
    topic.write(rows, jobId="grown")
    topic.group.json("PATCH", topic.path, {"partitions": 5})
    deadline = time.monotonic() + 60
    while [each["hw"] is None for each in topic.page()] != [False] * 5:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    topic.write(rows, jobId="grown")
    assert numbers(topic.read()) == list(range(50))
    named = topic.spark.createDataFrame([("new", 4)], "value string, partition int")
    topic.write(named, jobId="grown-too", batchId=0)
    topic.write(rows, jobId="grown", batchId=1)
    assert topic.read().where("partition > 2").count() > 1


def test_records_go_from_topic_to_topic_as_they_are(topic: Topic, scratch: Path) -> None:
    copy = Topic.of(topic.spark, topic.cluster, "copied")
    url = ",".join(topic.cluster.urls)
    for first in (0, 100):
        topic.post(flights(100, first))
        stream = topic.follow(startingOffsets="earliest", keyAs="binary", valueAs="binary")
        rows = stream.select("key", "value", "headers", "partition")
        once(rows, scratch, form="docstore.stream", url=url, path=copy.name)
    names = ["partition", "offset", "key", "value", "headers"]
    found, wanted = (
        [tuple(row) for row in each.read().select(names).orderBy("partition", "offset").collect()]
        for each in (copy, topic)
    )
    assert found == wanted
    assert len(found) == 200


def test_a_value_that_is_not_text_is_refused_with_the_way_to_read_it(topic: Topic) -> None:
    rows = topic.spark.createDataFrame([(b"\xff", 2)], "value binary, partition int")
    topic.write(rows)
    with pytest.raises(PySparkException) as seen:
        topic.read().collect()
    assert pipeline.line_of(seen.value).endswith(
        'the value at offset 0 is not UTF-8; read it with option("valueAs", "binary")'
    )
    assert [bytes(row["value"]) for row in topic.read(valueAs="binary").collect()] == [b"\xff"]
