"""Append rows to a topic: the writers behind `format("docstore.stream")`.

`producing.py` says when a repeated task is harmless, and when it is not.
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

from docstore.pipeline.bulk_lines import KEY, RowRefused
from docstore.pipeline.columns import schema_of
from docstore.pipeline.options import Options
from docstore.pipeline.producing import Target, TaskAttempt, TaskProducer, check_columns
from docstore.pipeline.sending import Sender
from docstore.pipeline.topics import link_of, node_urls, topic_now
from docstore.pipeline.writing import JOBS, Counted, batch_of_stream, job_of, leave_job, merged


def _target(options: Options, schema: StructType) -> Target:
    """Return the topic to write to. Raises ValueError, GroupError, OSError."""
    check_columns(schema)
    options.number("batchRows", 1000, 1)
    topic = topic_now(options)
    shared = len(topic.partitions)
    return Target(
        topic.name, topic.batch_bytes, node_urls(options, topic), shared, topic.incarnation
    )


def _pinned(options: Options, target: Target, attempt: TaskAttempt) -> Target:
    """Return the target with the number of partitions that the batch's first task has used.

    The job's document keeps the number. If several tasks write it at once, the first one wins,
    since each writes as one batch of a job. Raises RowRefused, WriteFailed, GroupError, OSError.
    """
    of, page = target.incarnation, job_of(options, attempt.job)
    if page.get("of") == of and page["batch"] > attempt.batch:
        return target  # A late task: leaders fence its requests.
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
            f"docstore: JOB_USED: batch {attempt.batch} of {attempt.job} has written to"
            f" {target.topic} with an unknown number of partitions: give it another jobId"
        )
    if page["partitions"] > len(target.urls):
        target = target._replace(urls=node_urls(options, topic_now(options)))
    return target._replace(shared=page["partitions"])


def _says(page: Mapping[str, Any], target: Target, batch: int) -> bool:
    """Say whether a job's document has the number of partitions of this batch."""
    return (page.get("of"), page.get("batch")) == (target.incarnation, batch)


def _task_number() -> int:
    context = TaskContext.get()
    assert context is not None
    return context.partitionId()


def _leave(options: Options, job: str, state: str, batch: int, counts: Counter[str]) -> None:
    of_topic = options.with_(path=link_of(options.topic))
    page: dict[str, Any] = {"state": state, "batch": batch, **counts}
    known = job_of(options, job)
    if known.get("batch") == batch:  # This batch may still be repeated.
        page |= {name: known[name] for name in ("partitions", "of") if name in known}
    leave_job(of_topic, job, page)


class RecordsWriter(DataSourceArrowWriter):
    """Writes a DataFrame once."""

    def __init__(self, options: Options, schema: StructType, *, overwrite: bool) -> None:
        if overwrite:
            raise ValueError('docstore: a topic cannot be overwritten: write with mode("append")')
        self._options = options
        # Chosen once: Spark pickles this object to the tasks, and calls its commit here.
        self._job = options.text("jobId") or f"batch-{uuid.uuid4()}"
        self._batch = options.number("batchId", 0)
        self._target = _target(options, schema)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        attempt = TaskAttempt(self._job, self._batch, _task_number())
        target = self._target
        if self._options.text("jobId"):  # Without a jobId the job has no other run.
            target = _pinned(self._options, target, attempt)
        return Counted(TaskProducer(self._options, target, attempt).send(iterator))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        _leave(self._options, self._job, "COMMITTED", self._batch, merged(messages).counts)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Record that the job failed. Its rows stay: a run with the same jobId continues."""
        _leave(self._options, self._job, "ABORTED", self._batch, merged(messages).counts)


class RecordsStreamWriter(DataSourceStreamArrowWriter):
    """Writes one micro-batch after another."""

    def __init__(self, options: Options, schema: StructType) -> None:
        options.refuse("a stream numbers its batches itself", "batchId")
        self._options = options
        self._target = _target(options, schema)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        attempt = TaskAttempt(*batch_of_stream(self._options), _task_number())
        target = _pinned(self._options, self._target, attempt)
        return Counted(TaskProducer(self._options, target, attempt).send(iterator))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        job = self._options.text("jobId") or f"stream-{self._options.topic}"
        _leave(self._options, job, "RUNNING", batchId, merged(messages).counts)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Do nothing: the batch will be repeated."""
