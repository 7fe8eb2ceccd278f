"""Read the records of topics: the readers behind `format("docstore.stream")`.

An offset of Spark is the next offset of each partition. The latest one is the committed end, from
the page of each topic. A batch is a range of each partition, fixed when its end is chosen, and its
tasks depend on its ends only: a batch that is run again has the same records.

Source: Spark's format for Kafka. Options with its names have its meanings.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
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

from docstore.pipeline import offsets, subscribing
from docstore.pipeline.errors import PipelineError
from docstore.pipeline.fetching import BEYOND, Range, RecordsLost, blocks, fetch
from docstore.pipeline.group_client import GroupError
from docstore.pipeline.offsets import EARLIEST, LATEST, Offsets
from docstore.pipeline.options import Options
from docstore.pipeline.planning import fair
from docstore.pipeline.record_columns import RecordColumns, schema_of
from docstore.pipeline.subscribing import alone, topics_of
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
    subscribing.check(options)
    schema_of(options)
    options.flag("failOnDataLoss", default=True)
    options.number("maxOffsetsPerTrigger", 0)
    options.number("maxRecordsPerPartition", RECORDS_PER_TASK, 1)


Ends = Mapping[str, tuple[Offsets, Offsets]]
"""(start, end) of a bounded read, as offsets, for each topic."""


def ends_of(options: Options) -> Ends | Exception:
    """Return the offsets at which a bounded read begins and ends, or the error that they cause.

    The error is returned since an endless read does not need the offsets, and Spark says only later
    whether the read is bounded.
    """
    try:
        return {name: _ends(each) for name, each in topics_of(options).items()}
    except (PipelineError, OSError, ValueError) as error:
        return error


def _ends(options: Options) -> tuple[Offsets, Offsets]:
    topic = whole_topic(options)
    after, until = _beginning(options, topic, EARLIEST), _ending(options, topic)
    offsets.insist_on_order(options, topic, after, until)
    return after, until


def _beginning(options: Options, topic: TopicState, default: str) -> Offsets:
    instant_us = offsets.instant_us(options, offsets.SINCE)
    if instant_us is None:
        return offsets.starting(options, topic, default)
    return _at(options, topic, instant_us)


def _ending(options: Options, topic: TopicState) -> Offsets:
    instant_us = offsets.instant_us(options, offsets.UNTIL)
    return offsets.ending(options, topic) if instant_us is None else _at(options, topic, instant_us)


def _at(options: Options, topic: TopicState, instant_us: int) -> Offsets:
    """Return the first batches that are not older than an instant, or else the ends."""
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
        return [
            task
            for name, ends in self._ends.items()
            for task in tasks(alone(self._options, name), *ends)
        ]


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
        for name in (offsets.ENDING, offsets.UNTIL):
            options.refuse("a stream has no end", name)
        super().__init__(options, schema)
        self._first: dict[str, Offsets] | None = None
        self._target: dict[str, TopicState] | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return the offset at which a query without a checkpoint begins; the same at each call."""
        if self._first is None:
            topics = topics_of(self._options).items()
            self._first = {
                name: _beginning(each, whole_topic(each), LATEST) for name, each in topics
            }
        return subscribing.to_json(self._options, self._first)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        rows = self._options.number("maxOffsetsPerTrigger", 0)
        return ReadMaxRows(rows) if rows else ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return the end of the next batch: all committed records, or each partition's share.

        Raises RecordsLost if a topic was recreated or deleted, or ends before the offset of the
        query.
        """
        known = subscribing.from_json(self._options, start)
        topics = self._target or _now(self._options)
        self._insist_on_all(known, topics)
        after = {name: self._after(topic, known.get(name)) for name, topic in topics.items()}
        places = [
            (topic, number, after[name].at(number))
            for name, topic in topics.items()
            for number in range(len(topic.partitions))
        ]
        # A topic that is new to the query begins with the next batch, so that its tasks depend on
        # offsets only.
        ends = [
            self._end(*each) if each[0].name in known else each[0].partitions[each[1]].base
            for each in places
        ]
        lags = [max(0, end - at) for end, (_, _, at) in zip(ends, places, strict=True)]
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        found: dict[str, list[int]] = {name: [] for name in topics}
        for (topic, _, at), end, taken in zip(places, ends, fair(lags, rows), strict=True):
            # A log that has lost its end is read from its new end on.
            found[topic.name].append(max(0, min(end, at)) + taken)
        ended = {
            name: Offsets(topics[name].incarnation, tuple(each)) for name, each in found.items()
        }
        return subscribing.to_json(self._options, ended)

    def _insist_on_all(self, known: Iterable[str], topics: Mapping[str, TopicState]) -> None:
        """Raise RecordsLost if a topic is gone, unless the options permit losses."""
        gone = next((name for name in known if name not in topics), None)
        if gone is not None and self._options.flag("failOnDataLoss", default=True):
            raise RecordsLost(
                f"docstore: {gone} was deleted, or does not match any more; to continue without it"
                ' use option("failOnDataLoss", "false")'
            )

    def _after(self, topic: TopicState, known: Offsets | None) -> Offsets:
        if known is None:
            return offsets.earliest(topic)
        is_same = _is_same(self._options, known, topic)
        return known if is_same else Offsets(topic.incarnation, ())

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
        asked = _ranges(alone(self._options, topic.name), topic, here, here)[number]
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
        topics = topics_of(self._options).items()
        self._target = {name: whole_topic(each) for name, each in topics}

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        latest = {name: offsets.latest(each) for name, each in _now(self._options).items()}
        return subscribing.to_json(self._options, latest)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        after = subscribing.from_json(self._options, start)
        return [
            task
            for name, until in subscribing.from_json(self._options, end).items()
            for task in tasks(alone(self._options, name), after.get(name, until), until)
        ]

    def stop(self) -> None:
        """Do nothing."""


def _now(options: Options) -> dict[str, TopicState]:
    return {name: topic_now(each) for name, each in topics_of(options).items()}
