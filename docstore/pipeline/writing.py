"""Rows into documents: the writers behind `format("docstore")`.

A task may be repeated, run twice at once, or come back from the dead without harm, because each of
its rows names the job and the batch (`sending.py`).
"""

import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from docstore.pipeline import scanning
from docstore.pipeline.columns import schema_of
from docstore.pipeline.group import Group, GroupError
from docstore.pipeline.lines import KEY, Lines, WriteFailed
from docstore.pipeline.options import Options
from docstore.pipeline.planning import shares
from docstore.pipeline.sending import Sender

JOBS = "/core/spark/jobs"


@dataclass(slots=True)
class Counted(WriterCommitMessage):
    """What a task did."""

    counts: Counter[str] = field(default_factory=Counter)


class TableWriter(DataSourceArrowWriter):
    """Writes a DataFrame once."""

    def __init__(self, options: Options, schema: StructType, *, overwrite: bool) -> None:
        self._options, self._schema = options, schema
        # Drawn once: this object is pickled to the tasks, and commits itself.
        self.job = options.text("jobId") or f"batch-{uuid.uuid4()}"
        self._number = options.number("batchId", 0)
        Lines(options, schema, 1)  # What is wrong with the options is said before the job begins.
        self._before = ""
        if overwrite:
            self._before = self._cut_before()

    def _cut_before(self) -> str:
        """Return the cut of before this job, also if this is not its first run.

        What an earlier run has written must not look as if it had been there before.
        """
        group = Group(self._options.urls)
        try:
            page = group.json("GET", f"{JOBS}/{quote(self.job, safe='')}")
            if page.get("before") and page.get("batch") == self._number:
                return str(page["before"])
        except GroupError as error:
            if error.status != 404:
                raise
        cut = str(group.json("GET", "/core/spark/plan")["cut"])
        state = {"state": "RUNNING", "batch": self._number, "before": cut}
        leave_job(self._options, self.job, state)
        return cut

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write a task's rows."""
        sender = Sender(self._options, self.job, self._number, self._schema)
        return Counted(sender.send(iterator))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Leave the job's document; after an overwrite take away what was there before."""
        counts = total(messages)
        if self._before:
            counts["removed"] = self._remove_older()
        self._leave("COMMITTED", counts)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Say that the job failed. What it wrote stays: a run with the same jobId goes on."""
        counts = total(messages)
        self._leave("ABORTED", counts)

    def _leave(self, state: str, counts: Mapping[str, int]) -> None:
        before = {"before": self._before} if self._before else {}
        page = {"state": state, "batch": self._number, **before, **counts}
        leave_job(self._options, self.job, page)

    def _remove_older(self) -> int:
        """Delete what stood under the path at the cut and nobody has written since.

        The new documents are there already, so nobody ever sees an empty table.
        """
        names = [KEY, "documentVersion"]
        found = older(self._options, self._before, names)
        asked = dict(self._options.given) | {
            "operation": "delete", "key": KEY, "expectversion": "documentVersion",
            "onconflict": "skip", "body": "", "sequenceby": "",
        }  # fmt: skip
        sender = Sender(Options(asked), f"{self.job}-older", self._number, schema_of(names))
        return sender.send(found)["written"]


def older(options: Options, cut: str, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield some columns of the documents that stand under the path at a cut."""
    plan = Group(options.urls).json("GET", f"/core/spark/plan?asOf={cut}")
    spans = [(slot, n) for slot, n in enumerate(plan["ends"]) if n > 0]
    request = {"prefix": options.path + "/", "columns": list(names)}
    for share in shares(plan, spans, request, Options({"url": options.text("url")}), is_log=False):
        yield from scanning.batches(share)


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes micro-batch after micro-batch; a repeated one changes nothing."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options, self._schema = options, schema
        Lines(options, schema, 1)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write a task's rows of one micro-batch."""
        context = TaskContext.get()
        assert context is not None
        query = context.getLocalProperty("sql.streaming.queryId")
        number = context.getLocalProperty("streaming.sql.batchId")
        if query is None or number is None:
            raise WriteFailed("docstore: this Spark does not tell its writers the batch")
        job = self._options.text("jobId") or f"stream-{query}"
        return Counted(Sender(self._options, job, int(number), self._schema).send(iterator))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Leave the query's document."""
        name = self._options.text("jobId") or f"stream-{self._options.path[1:].replace('/', '-')}"
        leave_job(self._options, name, {"state": "RUNNING", "batch": batchId, **total(messages)})

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Nothing to undo: the batch will be repeated."""


def total(messages: Sequence[WriterCommitMessage | None]) -> Counter[str]:
    """Return the sum of what the tasks did."""
    counts: Counter[str] = Counter()
    for message in messages:
        if isinstance(message, Counted):
            counts.update(message.counts)
    return counts


def leave_job(options: Options, job: str, state: Mapping[str, Any]) -> None:
    """Keep what a job did as a document: Python sources have no other place for figures."""
    page = {"kind": "docstore:Job", "path": options.path, "job": job, **state}
    Group(options.urls).json("PUT", f"{JOBS}/{quote(job, safe='')}", page)
