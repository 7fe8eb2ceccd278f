"""Rows into documents: the writers behind `format("docstore")`.

A task may be repeated, run twice at once, or come back from the dead without harm, because each of
its rows names the job and the batch (`sending.py`). With `commit=staged` rows wait on the nodes'
disks until all tasks are through (`staged.py`).
"""

import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from docstore.pipeline import scanning, staged
from docstore.pipeline.addresses import FOLLOW, FOREIGN_LINKS
from docstore.pipeline.bulk_lines import (
    DIGEST_BYTES,
    KEY,
    RUN,
    BulkLines,
    RowRefused,
    WriteFailed,
)
from docstore.pipeline.columns import schema_of
from docstore.pipeline.group_client import GroupError
from docstore.pipeline.options import Options
from docstore.pipeline.outcomes import OVERWRITES, STALE, WHAT_TO_DO, Outcomes, marked
from docstore.pipeline.planning import shares
from docstore.pipeline.sending import Sender
from docstore.pipeline.staged import StagedPart
from docstore.pipeline.undoing import Undoing

JOBS = "/core/spark/jobs"
COMMITS = ("direct", "staged")


@dataclass(slots=True)
class Counted(WriterCommitMessage):
    """What a task did, and what it has put on disks for the commit to do."""

    counts: Counter[str] = field(default_factory=Counter)
    parts: list[StagedPart] = field(default_factory=list)
    digest: int = 0
    """The digest of the task's rows, also of refused ones."""
    given: bytes = b""
    """Marks of the links of an overwrite's rows that are in no part."""
    job: str = ""
    """Of a stream: its writer is another object when it commits."""


def check(options: Options, schema: StructType) -> None:
    """Say what is wrong with the options before the job begins. Raises ValueError."""
    BulkLines(options, schema, 1)
    if is_staged(options):
        staged.check(options)


def _written(
    options: Options, job: str, number: int, schema: StructType, batches: Iterator[pa.RecordBatch]
) -> Counted:
    """Write a task's rows, or put them where they wait."""
    if is_staged(options):
        return Counted(*staged.stage(options, job, number, schema, batches))
    sender = Sender(options, job, number, schema)
    return Counted(sender.send(batches), digest=sender.digest, given=sender.given)


def is_staged(options: Options) -> bool:
    """Say whether rows wait for the commit. Raises ValueError."""
    return options.choice("commit", COMMITS) == "staged"


class TableWriter(DataSourceArrowWriter):
    """Writes a DataFrame once."""

    def __init__(self, options: Options, schema: StructType, *, overwrite: bool) -> None:
        if overwrite and not options.text("commit"):
            options = Options({**options.given, "commit": "staged"})  # All of it, or nothing.
        if overwrite and options.choice("foreignLinks", FOREIGN_LINKS) == FOLLOW:
            raise ValueError("docstore: an overwrite has one path, so no foreignLinks=follow")
        self._options, self._schema = options, schema
        # Drawn once: this object is pickled to the tasks, and commits itself.
        self.job = options.text("jobId") or f"batch-{uuid.uuid4()}"
        self._number = options.number("batchId", 0)
        check(options, schema)
        self._before = self._digest = self._begun = ""
        page = job_of(options, self.job)
        if overwrite and page.get("batch", self._number) > self._number:
            raise ValueError(
                f"docstore: STALE_BATCH: {self.job} has written batch {page['batch']} already"
                f"{WHAT_TO_DO[STALE]}"
            )
        is_known = (page.get("path"), page.get("batch")) == (options.path, self._number)
        self._begin(page if is_known else {}, overwrite=overwrite)

    def _begin(self, page: Mapping[str, Any], *, overwrite: bool) -> None:
        """Take the cut of before an overwrite, or repeat a run whose commit has begun.

        page: what an earlier run has left. One that committed nothing is no matter here: this run
        has a name of its own, so that it writes its rows even where that one wrote them, and what
        that one left is removed with all else. Raises ValueError.
        """
        run = str(page.get("run", ""))
        self._begun = page.get("begun", "") if page.get("state") == "COMMITTING" else ""
        if overwrite and page.get("before") and page["state"] in ("COMMITTING", "COMMITTED"):
            self._before, self._digest = page["before"], page.get("digest", "")
            # Nothing is done before it is known that the rows are the same.
            self._options = self._options.with_(commit="staged")
        elif overwrite and page and not is_staged(self._options):
            raise ValueError(
                f"docstore: JOB_USED: it is not known which rows batch {self._number} of {self.job}"
                " has written before: give this overwrite another jobId, or a later batchId"
            )
        elif (overwrite and is_staged(self._options)) or "undone" in page:
            run = uuid.uuid4().hex[:8]
        self._options = self._options.with_(run=run, overwrites="yes" if overwrite else "")
        if overwrite and not self._before:
            self._before = str(self._options.group.plan()["cut"])
            self._leave("RUNNING", {})

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write a task's rows."""
        return _written(self._options, self.job, self._number, self._schema, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Have what waits done, leave the job's document; take away what was overwritten."""
        counts, parts = total(messages), parts_of(messages)
        digest, given = digest_of(messages), _given(messages)
        if self._before and self._digest not in ("", digest):
            staged.abandon(self._options, self.job, parts)
            raise RowRefused(
                f"docstore: JOB_USED: batch {self._number} of {self.job} has overwritten"
                f" {self._options.path} with other rows than these: give these another jobId, or a"
                " later batchId"
            )
        self._digest = digest
        if parts:
            self._begun = self._begun or str(self._options.group.plan()["cut"])
            apart = len(given) // len(marked(""))
            waiting = {"parts": _listed(parts), "counts": dict(counts), "apart": apart}
            self._leave("COMMITTING", waiting | {"options": dict(self._options.given)})
        settle(self._options, self.job, counts, parts, self._page(), given)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Say that the job failed. What it wrote stays: a run with the same jobId goes on.

        What waits is taken away, unless the commit has begun: then `finish` can go on with it.
        """
        parts = parts_of(messages)
        page = job_of(self._options, self.job)
        if parts and page.get("state") == "COMMITTING" and page.get("parts") == _listed(parts):
            return
        staged.abandon(self._options, self.job, parts)
        if not self._digest and "undone" not in page:  # Else it says already what was done.
            self._leave("ABORTED", total(messages))

    def _page(self) -> dict[str, Any]:
        """Return what each state of the job's document says."""
        said = {"before": self._before, "run": self._options.text(RUN), "digest": self._digest}
        said["begun"] = self._begun
        return {"batch": self._number} | {name: value for name, value in said.items() if value}

    def _leave(self, state: str, more: Mapping[str, Any]) -> None:
        leave_job(self._options, self.job, {"state": state, **self._page(), **more})


def _listed(parts: Sequence[StagedPart]) -> list[dict[str, Any]]:
    return [asdict(part) for part in parts]


def settle(
    options: Options, job: str, counts: Counter[str], parts: Sequence[StagedPart],
    page: Mapping[str, Any], given: bytes = b"",
) -> Counter[str]:  # fmt: skip
    """Do what waits, take away what was overwritten, and say that the job is done.

    page: what the job's document says in any state; its `before` is the cut from before an
    overwrite, `begun` the one from before the commit. given: as of `Counted`. Raises WriteFailed.
    """
    page = dict(page)
    try:
        outcomes = _committed(options, job, parts, page)
        counts = counts + outcomes.counts
        if page.get("before"):
            _insist_on_rows(options, counts)
            counts["removed"] = _remove_older(options, job, page, given + outcomes.given)
    except RowRefused:  # It would be so again: there is nothing to finish.
        staged.abandon(options, job, parts)
        leave_job(options, job, {"state": "ABORTED", **page, **counts})
        raise
    leave_job(options, job, {"state": "COMMITTED", **page, **counts})
    return counts


def _committed(
    options: Options, job: str, parts: Sequence[StagedPart], page: dict[str, Any]
) -> Outcomes:
    """Do what waits, or undo it where a row is refused, and let the page say so."""
    with Undoing() as undoing:
        try:
            return staged.commit(options, job, page["batch"], parts, undoing.note)
        except RowRefused as error:
            if "begun" not in page:  # Of a job that an earlier release has left.
                raise
            done = undoing.undo(options, job, page["batch"], page["begun"])
            page |= {"undone": done["written"], "notUndone": done["conflicted"]}
            raise RowRefused(
                f"{error}; {done['written']} rows that were written have been undone"
            ) from None


def _insist_on_rows(options: Options, counts: Mapping[str, int]) -> None:
    """Refuse to empty a table for rows of which none was taken. Raises RowRefused.

    A table without rows, on the other hand, is what an overwrite may well be given.
    """
    refused = counts.get("conflicted", 0) + counts.get("dead", 0)
    if refused and not any(counts.get(name) for name in ("written", "repeated", "skipped")):
        raise RowRefused(
            f"docstore: all {refused} rows were refused: {options.path} stays as it was"
        )


def finish(url: str, job: str) -> Counter[str]:
    """Finish a job whose driver went away in the middle of its commit; return its counts.

    Raises ValueError when there is nothing to finish.
    """
    page = job_of(Options({"url": url}), job)
    if page.get("state") != "COMMITTING":
        raise ValueError(f"docstore: {job} does not wait: {page.get('state', 'there is no job')}")
    if "before" in page and page.get("apart"):
        raise ValueError(
            f"docstore: {page['apart']} rows of {job} were refused before they were staged, and"
            " only the job knows whose documents must stay: run it again with its rows and jobId"
        )
    options = Options(page["options"] | {"url": url})
    parts = [StagedPart(**each) for each in page["parts"]]
    said = {
        name: page[name] for name in ("batch", "before", RUN, "digest", "begun") if name in page
    }
    return settle(options, job, Counter(page["counts"]), parts, said)


def _remove_older(options: Options, job: str, page: Mapping[str, Any], given: bytes) -> int:
    """Delete what was under the path at the cut, if no writer has changed it and no row named it.

    A row may leave its document's version as it is: a handler that changes nothing, a row that is
    refused, one that was written before the cut. The new documents are there already, so no reader
    ever sees an empty table.
    """
    names = [KEY, "documentVersion"]
    marks = np.sort(np.frombuffer(given, np.uint64))
    found = (_not_given(batch, marks) for batch in older(options, page["before"], names))
    asked = dict(options.given) | {
        "operation": "delete", "key": KEY, "expectversion": "documentVersion",
        "onconflict": "skip", "body": "", "sequenceby": "", OVERWRITES: "",
    }  # fmt: skip
    sender = Sender(Options(asked), f"{job}-older", page["batch"], schema_of(names))
    return sender.send(found)["written"]


def _not_given(batch: pa.RecordBatch, marks: "np.typing.NDArray[np.uint64]") -> pa.RecordBatch:
    """Return the documents that no row has named. marks: of the rows' links, in order."""
    links = batch.column(KEY).to_pylist()
    found = np.frombuffer(b"".join(map(marked, links)), np.uint64)
    is_given = np.searchsorted(marks, found, "right") > np.searchsorted(marks, found, "left")
    return batch.filter(pa.array(~is_given))


def older(options: Options, cut: str, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield some columns of the documents that are under the path at a cut."""
    plan = options.group.plan(cut)
    spans = [(slot, n) for slot, n in enumerate(plan["ends"]) if n > 0]
    request = {"prefix": options.path + "/", "columns": list(names)}
    for share in shares(plan, spans, request, Options({"url": options.text("url")}), is_log=False):
        yield from scanning.batches(share)


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes micro-batch after micro-batch; a repeated one changes nothing."""

    def __init__(self, options: Options, schema: StructType) -> None:
        options.refuse("a stream numbers its batches itself", "batchId")
        self._options, self._schema = options, schema
        check(options, schema)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write a task's rows of one micro-batch."""
        context = TaskContext.get()
        assert context is not None
        query = context.getLocalProperty("sql.streaming.queryId")
        number = context.getLocalProperty("streaming.sql.batchId")
        if query is None or number is None:
            raise WriteFailed("docstore: this Spark does not tell its writers the batch")
        job = self._options.text("jobId") or f"stream-{query}"
        written = _written(self._options, job, int(number), self._schema, iterator)
        written.job = job
        return written

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Have what waits done, and leave the query's document."""
        counts, parts = total(messages), parts_of(messages)
        if parts:
            counts += staged.commit(self._options, _job_of(messages), batchId, parts).counts
        name = self._options.text("jobId") or f"stream-{quote(self._options.path, safe='')}"
        leave_job(self._options, name, {"state": "RUNNING", "batch": batchId, **counts})

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Nothing to undo: the batch will be repeated. What waits goes."""
        staged.abandon(self._options, _job_of(messages), parts_of(messages))


def _job_of(messages: Sequence[WriterCommitMessage | None]) -> str:
    """Return the job that the tasks of a stream's batch wrote for."""
    return next((each.job for each in messages if isinstance(each, Counted)), "")


def total(messages: Sequence[WriterCommitMessage | None]) -> Counter[str]:
    """Return the sum of what the tasks did."""
    counts: Counter[str] = Counter()
    for message in messages:
        if isinstance(message, Counted):
            counts.update(message.counts)
    return counts


def digest_of(messages: Sequence[WriterCommitMessage | None]) -> str:
    """Return the digest of all tasks' rows, in whatever order and by whichever task."""
    whole = sum(each.digest for each in messages if isinstance(each, Counted))
    return f"{whole % (1 << 8 * DIGEST_BYTES):x}"


def _given(messages: Sequence[WriterCommitMessage | None]) -> bytes:
    """Return the marks that all tasks' messages hold."""
    return b"".join(each.given for each in messages if isinstance(each, Counted))


def parts_of(messages: Sequence[WriterCommitMessage | None]) -> list[StagedPart]:
    """Return what waits for the commit."""
    return [part for each in messages if isinstance(each, Counted) for part in each.parts]


def job_of(options: Options, job: str) -> dict[str, Any]:
    """Return a job's document, {} if there is none."""
    try:
        page = options.group.json("GET", f"{JOBS}/{quote(job, safe='')}")
    except GroupError as error:
        if error.status != 404:
            raise
        page = {}
    return dict(page)


def leave_job(options: Options, job: str, state: Mapping[str, Any]) -> None:
    """Keep what a job did as a document: Python sources have no other place for figures."""
    page = {"kind": "docstore:Job", "path": options.path, "job": job, **state}
    options.group.json("PUT", f"{JOBS}/{quote(job, safe='')}", page)
