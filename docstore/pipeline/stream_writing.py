"""Rows into a topic: the writers behind `format("docstore.stream")`.

What makes a repeated task harmless, and when it is not, is in `producing.py`.
"""

import json
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from docstore.pipeline.bulk_lines import KEY, RowRefused, WriteFailed
from docstore.pipeline.columns import schema_of
from docstore.pipeline.options import Options
from docstore.pipeline.producing import Target, TaskAttempt, TaskProducer, check_columns
from docstore.pipeline.sending import Sender
from docstore.pipeline.topics import link_of, node_urls, topic_now
from docstore.pipeline.writing import JOBS, Counted, job_of, leave_job, total


def _target(options: Options, schema: StructType) -> Target:
    """Return where rows go, before any task is known. Raises ValueError, GroupError, OSError."""
    check_columns(schema)
    options.number("batchRows", 1000, 1)
    topic = topic_now(options)
    shared = len(topic.partitions)
    return Target(
        topic.name, topic.batch_bytes, node_urls(options, topic), shared, topic.incarnation
    )


def _pinned(options: Options, target: Target, attempt: TaskAttempt) -> Target:
    """Return the target with as many partitions as the batch's first task shared its rows among.

    The job's document says how many. Of tasks that write there at once the first one wins, since
    each writes as one batch of a job. Raises RowRefused, WriteFailed, GroupError, OSError.
    """
    of, page = target.incarnation, job_of(options, attempt.job)
    if page.get("of") == of and page["batch"] > attempt.batch:
        return target  # A late task: leaders refuse its requests.
    if not _says(page, target, attempt.batch):
        said: dict[str, Any] = {"kind": "docstore:Job", "state": "RUNNING", "job": attempt.job}
        said |= {"path": link_of(target.topic), "batch": attempt.batch}
        said |= {"partitions": target.shared, "of": of}
        row = pa.RecordBatch.from_pydict({KEY: [attempt.job], "body": [json.dumps(said)]})
        asked = Options({**options.given, "path": JOBS, "onrepeat": "keep"})
        schema = schema_of([KEY, "body"])
        Sender(asked, f"{attempt.job}-{of}", attempt.batch, schema).send(iter([row]))
        page = job_of(options, attempt.job)
    if not _says(page, target, attempt.batch):
        raise RowRefused(
            f"docstore: JOB_USED: it is not known among how many partitions of {target.topic} batch"
            f" {attempt.batch} of {attempt.job} has shared its rows: give it another jobId"
        )
    if page["partitions"] > len(target.urls):
        target = target._replace(urls=node_urls(options, topic_now(options)))
    return target._replace(shared=page["partitions"])


def _says(page: Mapping[str, Any], target: Target, batch: int) -> bool:
    """Say whether a job's document knows how a batch shares its rows."""
    return (page.get("of"), page.get("batch")) == (target.incarnation, batch)


def _task() -> TaskContext:
    context = TaskContext.get()
    assert context is not None
    return context


def _leave(options: Options, job: str, state: str, batch: int, counts: Counter[str]) -> None:
    of_topic = options.with_(path=link_of(options.topic))
    page: dict[str, Any] = {"state": state, "batch": batch, **counts}
    known = job_of(options, job)
    if known.get("batch") == batch:  # The batch may be repeated yet.
        page |= {name: known[name] for name in ("partitions", "of") if name in known}
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
        attempt = TaskAttempt(self._job, self._batch, _task().partitionId())
        target = self._target
        if self._options.text("jobId"):  # Else no other run is of this job.
            target = _pinned(self._options, target, attempt)
        return Counted(TaskProducer(self._options, target, attempt).send(iterator))

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
        attempt = TaskAttempt(job, int(number), context.partitionId())
        target = _pinned(self._options, self._target, attempt)
        return Counted(TaskProducer(self._options, target, attempt).send(iterator))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Leave the query's document."""
        job = self._options.text("jobId") or f"stream-{self._options.topic}"
        _leave(self._options, job, "RUNNING", batchId, total(messages))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Nothing to undo: the batch will be repeated."""
