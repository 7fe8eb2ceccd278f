"""Rows into a topic: the writers behind `format("docstore.stream")`.

What makes a repeated task harmless, and when it is not, is in `producing.py`.
"""

import uuid
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from docstore.pipeline.lines import WriteFailed
from docstore.pipeline.options import Options
from docstore.pipeline.producing import Attempt, Producing, Target, check_columns
from docstore.pipeline.topics import link_of, roads, topic_now
from docstore.pipeline.writing import Counted, leave_job, total


def _target(options: Options, schema: StructType) -> Target:
    """Return where rows go, the same for all tasks. Raises ValueError, GroupError, OSError."""
    check_columns(schema)
    options.number("batchRows", 1000, 1)
    topic = topic_now(options)
    return Target(topic.name, topic.batch_bytes, roads(options, topic))


def _task() -> TaskContext:
    context = TaskContext.get()
    assert context is not None
    return context


def _leave(options: Options, job: str, state: str, batch: int, counts: Counter[str]) -> None:
    of_topic = options.with_(path=link_of(options.topic))
    page: dict[str, Any] = {"state": state, "batch": batch, **counts}
    leave_job(of_topic, job, page)


class RecordsWriter(DataSourceArrowWriter):
    """Writes a DataFrame once."""

    def __init__(self, options: Options, schema: StructType, *, overwrite: bool) -> None:
        if overwrite:
            raise ValueError('docstore: a topic only grows: write with mode("append")')
        self._options = options
        # Drawn once: this object is pickled to the tasks, and commits itself.
        self._job = options.text("jobId") or f"batch-{uuid.uuid4()}"
        self._batch = options.number("batchId", 0)
        self._target = _target(options, schema)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Append a task's rows."""
        attempt = Attempt(self._job, self._batch, _task().partitionId())
        return Counted(Producing(self._options, self._target, attempt).send(iterator))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Leave the job's document."""
        _leave(self._options, self._job, "COMMITTED", self._batch, total(messages))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Say that the job failed. What it wrote stays: a run with the same jobId goes on."""
        _leave(self._options, self._job, "ABORTED", self._batch, total(messages))


class RecordsStreamWriter(DataSourceStreamArrowWriter):
    """Writes micro-batch after micro-batch."""

    def __init__(self, options: Options, schema: StructType) -> None:
        options.refuse("a stream numbers its batches itself", "batchId")
        self._options = options
        self._target = _target(options, schema)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Append a task's rows of one micro-batch."""
        context = _task()
        query = context.getLocalProperty("sql.streaming.queryId")
        number = context.getLocalProperty("streaming.sql.batchId")
        if query is None or number is None:
            raise WriteFailed("docstore: this Spark does not tell its writers the batch")
        job = self._options.text("jobId") or f"stream-{query}"
        attempt = Attempt(job, int(number), context.partitionId())
        return Counted(Producing(self._options, self._target, attempt).send(iterator))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Leave the query's document."""
        job = self._options.text("jobId") or f"stream-{self._options.topic}"
        _leave(self._options, job, "RUNNING", batchId, total(messages))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Nothing to undo: the batch will be repeated."""
