"""Read the records of a topic: the readers behind `format("docstore.stream")`.

An offset of Spark is the next offset of each partition. The latest one is the committed end, from
one page of the topic. A batch is a range of each partition, fixed when its end is chosen, and its
tasks depend on its ends only: a batch that is run again has the same records.

Source: Spark's format for Kafka. Options with its names have its meanings.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from docstore.pipeline import offsets
from docstore.pipeline.errors import PipelineError
from docstore.pipeline.fetching import BEYOND, Range, RecordsLost, blocks, fetch
from docstore.pipeline.group_client import GroupError
from docstore.pipeline.offsets import EARLIEST, LATEST, Offsets
from docstore.pipeline.options import Options
from docstore.pipeline.planning import fair
from docstore.pipeline.record_columns import RecordColumns, schema_of
from docstore.pipeline.topics import (
    RETRIES,
    TIMEOUT_MS,
    TopicState,
    node_urls,
    topic_now,
    whole_topic,
)

RECORDS_PER_TASK = 250_000


def check(options: Options) -> None:
    """Raise ValueError for wrong options, before a node is asked."""
    assert options.urls
    assert options.topic
    schema_of(options)
    offsets.check(options)
    options.flag("failOnDataLoss", default=True)
    options.number("maxOffsetsPerTrigger", 0)
    options.number("maxRecordsPerPartition", RECORDS_PER_TASK, 1)


Ends = tuple[Offsets, Offsets]
"""(start, end) of a bounded read, as offsets."""


def ends_of(options: Options) -> Ends | Exception:
    """Return the offsets at which a bounded read begins and ends, or the error that they cause.

    The error is returned since an endless read does not need the offsets, and Spark says only later
    whether the read is bounded.
    """
    try:
        topic = whole_topic(options)
        after, until = _beginning(options, topic, EARLIEST), offsets.ending(options, topic)
        offsets.insist_on_order(options, topic, after, until)
        return after, until
    except (PipelineError, OSError, ValueError) as error:
        return error


def _beginning(options: Options, topic: TopicState, default: str) -> Offsets:
    """Return the offsets at which to begin, by offset or by time."""
    instant_us = offsets.instant_us(options)
    if instant_us is None:
        return offsets.starting(options, topic, default)
    everything = _ranges(options, topic, offsets.earliest(topic), offsets.latest(topic))
    found = [fetch(each, f"@{instant_us}", bytes_max=1).first for each in everything]
    return Offsets(topic.incarnation, tuple(found))


def _ranges(options: Options, topic: TopicState, after: Offsets, until: Offsets) -> list[Range]:
    """Return the range between two offsets, for each partition."""
    ways = node_urls(options, topic)
    return [
        Range(
            topic=topic.name,
            partition=number,
            start=after.at(number) if after.of == until.of else 0,
            end=until.at(number),
            urls=urls,
            fails_on_loss=options.flag("failOnDataLoss", default=True),
            retries=options.number("retries", RETRIES),
            timeout_s=options.timeout_s(TIMEOUT_MS),
            of=until.of,
        )
        for number, urls in enumerate(ways[: len(until.next)])
    ]


class _Records:
    """Reads the records of tasks, for bounded and endless readers."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._columns = RecordColumns(schema)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        asked: Range | None = partition.value
        if asked is None:
            return  # No tasks are needed; Spark calls this nevertheless.
        for found in blocks(asked):
            yield self._columns.of(asked, found)


class RecordsReader(_Records, DataSourceReader):
    """Reads the records between two offsets."""

    def __init__(self, options: Options, schema: StructType, ends: Ends) -> None:
        super().__init__(options, schema)
        self._ends = ends

    def partitions(self) -> Sequence[InputPartition]:
        return tasks(self._options, *self._ends)


def tasks(options: Options, after: Offsets, until: Offsets) -> list[InputPartition]:
    """Return the tasks that read the records between two offsets."""
    if after == until:
        return []
    most = options.number("maxRecordsPerPartition", RECORDS_PER_TASK, 1)
    topic = topic_now(options)
    if not _is_same(options, until, topic):
        return []
    return [
        InputPartition(each)
        for whole in _ranges(options, topic, after, until)
        for each in whole.parts(most)
    ]


def _is_same(options: Options, seen: Offsets, topic: TopicState) -> bool:
    """Say whether offsets belong to this topic. Raises RecordsLost if the options say so."""
    if seen.of == topic.incarnation:
        return True
    if options.flag("failOnDataLoss", default=True):
        raise RecordsLost(
            f"docstore: {topic.name} was deleted and created again, with "
            "new offsets; give the query a checkpointLocation of its own, "
            "or read the new topic from its beginning with "
            'option("failOnDataLoss", "false")'
        )
    return False


class RecordsStreamReader(_Records, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads records as they are committed."""

    def __init__(self, options: Options, schema: StructType) -> None:
        options.refuse("a stream has no end", offsets.ENDING)
        super().__init__(options, schema)
        self._first: Offsets | None = None
        self._target: TopicState | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return the offset at which a query without a checkpoint begins; the same at each call."""
        if self._first is None:
            self._first = _beginning(self._options, whole_topic(self._options), LATEST)
        return self._first.to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        rows = self._options.number("maxOffsetsPerTrigger", 0)
        return ReadMaxRows(rows) if rows else ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return the end of the next batch: all committed records, or each partition's share.

        Raises RecordsLost if the topic was recreated, or ends before the offset of the query.
        """
        topic = self._target or topic_now(self._options)
        after = Offsets.from_json(start)
        if not _is_same(self._options, after, topic):
            after = Offsets(topic.incarnation, ())
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        ends = [
            self._end(topic, number, after.at(number)) for number in range(len(topic.partitions))
        ]
        lags = [max(0, end - after.at(number)) for number, end in enumerate(ends)]
        # A log that has lost its end is read from its new end on.
        found = [
            min(end, after.at(number)) + taken
            for number, (end, taken) in enumerate(zip(ends, fair(lags, rows), strict=True))
        ]
        return Offsets(topic.incarnation, tuple(found)).to_json()

    def _end(self, topic: TopicState, number: int, after: int) -> int:
        """Return the end of a partition for a query that has read up to `after`.

        A new leader may know of fewer committed records for a moment, and without a leader the end
        is unknown. Then the query waits.
        """
        partition = topic.partitions[number]
        if partition.high >= after or not partition.is_known or partition.end >= after:
            return max(partition.high, after)
        return partition.high if self._is_lost(topic, number, after) else after

    def _is_lost(self, topic: TopicState, number: int, after: int) -> bool:
        """Say whether a leader that knows its end has fewer records than `after`."""
        here = Offsets(topic.incarnation, tuple(after for _ in topic.partitions))
        asked = _ranges(self._options, topic, here, here)[number]
        try:
            fetch(asked, str(after), bytes_max=1)
        except GroupError as error:
            if error.code != BEYOND:
                raise
            if asked.fails_on_loss:
                raise RecordsLost(
                    f"docstore: {asked.name}: read up to offset {after}, but {error.detail}"
                ) from None
            return True
        return False

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Fix the end of this run: later records are for the next run."""
        self._target = whole_topic(self._options)

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        return offsets.latest(topic_now(self._options)).to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return tasks(self._options, Offsets.from_json(start), Offsets.from_json(end))

    def stop(self) -> None:
        """Do nothing."""
