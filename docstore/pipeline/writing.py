"""Write rows as documents: the writers behind `format("docstore")`.

A task may be repeated, run twice at once, or resume after a long pause without harm, because each
of its rows names the job and the batch (`sending.py`). With `commit=staged` rows stay on the nodes'
disks until all tasks have ended (`staged.py`).
"""

import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
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

from docstore.pipeline import staged
from docstore.pipeline.bulk_lines import (
    DIGEST_BYTES,
    FOLLOW,
    FOREIGN_LINKS,
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
from docstore.pipeline.planning import snapshot_batches
from docstore.pipeline.replacing import REPLACE_WHERE
from docstore.pipeline.sending import Sender
from docstore.pipeline.staged import StagedPart
from docstore.pipeline.undoing import Undoing

JOBS = "/core/spark/jobs"
COMMITS = ("direct", "staged")


@dataclass(slots=True)
class Counted(WriterCommitMessage):
    """The outcomes of a task's rows, and the parts that it has staged for the commit."""

    counts: Counter[str] = field(default_factory=Counter)
    parts: list[StagedPart] = field(default_factory=list)
    digest: int = 0
    """The digest of the task's rows, refused ones included."""
    given: bytes = b""
    """Marks of the links of an overwrite's rows that are in no part."""
    job: str = ""
    """Name of a stream's job; the commit runs in another object, which does not know it."""


def check(options: Options, schema: StructType) -> None:
    BulkLines(options, schema, 1)
    if is_staged(options):
        staged.check(options)


def _written(
    options: Options, job: str, number: int, schema: StructType, batches: Iterator[pa.RecordBatch]
) -> Counted:
    """Write or stage the rows of a task."""
    if is_staged(options):
        return Counted(*staged.stage(options, job, number, schema, batches))
    sender = Sender(options, job, number, schema)
    return Counted(sender.send(batches), digest=sender.digest, given=sender.given)


def is_staged(options: Options) -> bool:
    return options.choice("commit", COMMITS) == "staged"


class TableWriter(DataSourceArrowWriter):
    """Writes a DataFrame once."""

    def __init__(self, options: Options, schema: StructType, *, overwrite: bool) -> None:
        if overwrite and not options.text("commit"):
            # Either all rows are written or none.
            options = Options({**options.given, "commit": "staged"})
        if not overwrite:
            options.refuse("only mode=overwrite replaces documents", REPLACE_WHERE)
        if overwrite and options.choice("foreignLinks", FOREIGN_LINKS) == FOLLOW:
            raise ValueError(
                "docstore: foreignLinks must be 'refuse' or 'move' for an "
                "overwrite, which writes below one path"
            )
        self._options, self._schema = options, schema
        # Chosen once: Spark pickles this object to the tasks, and calls its commit here.
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
        """Pin the cut before an overwrite, or repeat a run whose commit has begun.

        page: the job's document as an earlier run of this batch left it, {} if there is none. An
        earlier run that has not begun to commit is ignored: this run has a name of its own, so it
        writes its rows again, and the overwrite removes the documents of the earlier run. Raises
        ValueError.
        """
        run = str(page.get("run", ""))
        self._begun = page.get("begun", "") if page.get("state") == "COMMITTING" else ""
        if overwrite and page.get("before") and page["state"] in ("COMMITTING", "COMMITTED"):
            if page.get(REPLACE_WHERE, "") != self._options.text(REPLACE_WHERE):
                raise ValueError(
                    f"docstore: JOB_USED: batch {self._number} of {self.job} has overwritten other"
                    f" documents of {self._options.path}, by another {REPLACE_WHERE}: give this"
                    " overwrite another jobId, or a later batchId"
                )
            self._before, self._digest = page["before"], page.get("digest", "")
            # Staged, since the rows must be compared with the earlier ones before they are written.
            self._options = self._options.with_(commit="staged")
        elif overwrite and page and not is_staged(self._options):
            raise ValueError(
                f"docstore: JOB_USED: the rows that batch {self._number} of {self.job}"
                " has written are unknown: give this overwrite another jobId, or a later batchId"
            )
        elif (overwrite and is_staged(self._options)) or "undone" in page:
            run = uuid.uuid4().hex[:8]
        self._options = self._options.with_(run=run, overwrites="yes" if overwrite else "")
        if overwrite and not self._before:
            self._before = str(self._options.group.plan()["cut"])
            self._leave("RUNNING", {})

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return _written(self._options, self.job, self._number, self._schema, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Execute the staged parts, write the job's document, delete overwritten documents."""
        done = merged(messages)
        counts, parts, given = done.counts, done.parts, done.given
        digest = f"{done.digest % (1 << 8 * DIGEST_BYTES):x}"
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
        """Record that the job failed. Its rows stay: a run with the same jobId continues.

        The staged parts are deleted, unless the commit has begun: then `finish` can complete it.
        """
        done = merged(messages)
        parts, page = done.parts, job_of(self._options, self.job)
        if parts and page.get("state") == "COMMITTING" and page.get("parts") == _listed(parts):
            return
        staged.abandon(self._options, self.job, parts)
        # Otherwise the job's document already has the outcome.
        if not self._digest and "undone" not in page:
            self._leave("ABORTED", done.counts)

    def _page(self) -> dict[str, Any]:
        """Return the members that the job's document has in every state."""
        said = {"before": self._before, "run": self._options.text(RUN), "digest": self._digest}
        said |= {"begun": self._begun, REPLACE_WHERE: self._options.text(REPLACE_WHERE)}
        return {"batch": self._number} | {name: value for name, value in said.items() if value}

    def _leave(self, state: str, more: Mapping[str, Any]) -> None:
        leave_job(self._options, self.job, {"state": state, **self._page(), **more})


def _listed(parts: Sequence[StagedPart]) -> list[dict[str, Any]]:
    return [asdict(part) for part in parts]


def settle(
    options: Options, job: str, counts: Counter[str], parts: Sequence[StagedPart],
    page: Mapping[str, Any], given: bytes = b"",
) -> Counter[str]:  # fmt: skip
    """Execute the parts, delete overwritten documents, and record that the job is committed.

    page: the members that the job's document has in every state. Its `before` is the cut before an
    overwrite, its `begun` the cut before the commit, its `after` the cut after an overwrite.
    given: as in `Counted`. Raises WriteFailed.
    """
    page = dict(page)
    try:
        outcomes = _committed(options, job, parts, page)
        counts = counts + outcomes.counts
        if page.get("before"):
            _insist_on_rows(options, counts)
            counts["removed"] = _remove_older(options, job, page, given + outcomes.given)
            page["after"] = str(options.group.plan()["cut"])
    except RowRefused:  # A retry would be refused too, so there is nothing to finish.
        staged.abandon(options, job, parts)
        leave_job(options, job, {"state": "ABORTED", **page, **counts})
        raise
    leave_job(options, job, {"state": "COMMITTED", **page, **counts})
    return counts


def _committed(
    options: Options, job: str, parts: Sequence[StagedPart], page: dict[str, Any]
) -> Outcomes:
    """Execute the parts. If a row is refused, undo them and count that in the page."""
    with closing(Undoing()) as undoing:
        try:
            return staged.commit(options, job, page["batch"], parts, undoing.note)
        except RowRefused as error:
            done = undoing.undo(options, job, page["batch"], page["begun"])
            page |= {"undone": done["written"], "notUndone": done["conflicted"]}
            raise RowRefused(
                f"{error}; {done['written']} rows that were written have been undone"
            ) from None


def _insist_on_rows(options: Options, counts: Mapping[str, int]) -> None:
    """Raise RowRefused if all rows of an overwrite were refused, which would empty the table.

    An overwrite without rows may empty it.
    """
    refused = counts.get("conflicted", 0) + counts.get("dead", 0)
    if refused and not any(counts.get(name) for name in ("written", "repeated", "skipped")):
        raise RowRefused(
            f"docstore: all {refused} rows were refused, so {options.path} "
            "stays as it was: correct the rows; onConflict=fail and "
            "onError=fail tell the reason of the first"
        )


def finish(url: str, job: str) -> Counter[str]:
    """Finish a job whose driver died during its commit; return its counts.

    Raises ValueError if there is nothing to finish.
    """
    page = job_of(Options({"url": url}), job)
    if page.get("state") != "COMMITTING":
        raise ValueError(
            f"docstore: {job} has no commit to finish: {page.get('state', 'there is no job')}"
        )
    if "before" in page and page.get("apart"):
        raise ValueError(
            f"docstore: {page['apart']} rows of {job} were refused before they were staged, and"
            " only the job knows which documents they name: run it again with its rows and jobId"
        )
    options = Options(page["options"] | {"url": url})
    parts = [StagedPart(**each) for each in page["parts"]]
    said = {
        name: page[name]
        for name in ("batch", "before", RUN, "digest", "begun", REPLACE_WHERE)
        if name in page
    }
    return settle(options, job, Counter(page["counts"]), parts, said)


def _remove_older(options: Options, job: str, page: Mapping[str, Any], given: bytes) -> int:
    """Delete the cut's documents that no writer has changed since and that no row has named.

    A row may leave the version of its document unchanged: if a handler changes nothing, if the row
    is refused, or if it was written before the cut. The new documents exist already, so readers
    never see an empty table.
    """
    names = [KEY, "documentVersion"]
    marks = np.sort(np.frombuffer(given, np.uint64))
    replaced = options.text(REPLACE_WHERE)
    found = (_not_given(batch, marks) for batch in older(options, page["before"], names, replaced))
    asked = dict(options.given) | {
        "operation": "delete", "key": KEY, "expectversion": "documentVersion",
        "onconflict": "skip", "body": "", "sequenceby": "", "replacewhere": "", OVERWRITES: "",
    }  # fmt: skip
    sender = Sender(Options(asked), f"{job}-older", page["batch"], schema_of(names))
    return sender.send(found)["written"]


def _not_given(batch: pa.RecordBatch, marks: "np.typing.NDArray[np.uint64]") -> pa.RecordBatch:
    """Return the documents that no row has named. marks: the sorted marks of the rows' links."""
    links = batch.column(KEY).to_pylist()
    found = np.frombuffer(b"".join(map(marked, links)), np.uint64)
    is_given = np.searchsorted(marks, found, "right") > np.searchsorted(marks, found, "left")
    return batch.filter(pa.array(~is_given))


def older(
    options: Options, cut: str, names: Sequence[str], where: str = ""
) -> Iterator[pa.RecordBatch]:
    """Yield some columns of the documents below the path at a cut that fulfil a condition."""
    plan = options.group.plan(cut)
    request = {"prefix": options.path + "/", "columns": list(names), "where": where}
    yield from snapshot_batches(plan, range(len(plan["ends"])), request, options.urls)


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes one micro-batch after another. A repeated one changes nothing."""

    def __init__(self, options: Options, schema: StructType) -> None:
        options.refuse("a stream numbers its batches itself", "batchId")
        options.refuse("only mode=overwrite replaces documents", REPLACE_WHERE)
        self._options, self._schema = options, schema
        check(options, schema)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        job, number = batch_of_stream(self._options)
        written = _written(self._options, job, number, self._schema, iterator)
        written.job = job
        return written

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        done = merged(messages)
        counts = done.counts
        if done.parts:
            counts += staged.commit(self._options, done.job, batchId, done.parts).counts
        name = self._options.text("jobId") or f"stream-{quote(self._options.path, safe='')}"
        leave_job(self._options, name, {"state": "RUNNING", "batch": batchId, **counts})

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Delete the staged parts. Rows that are written stay: the batch will be repeated."""
        done = merged(messages)
        staged.abandon(self._options, done.job, done.parts)


def batch_of_stream(options: Options) -> tuple[str, int]:
    """Return the job and the number of the micro-batch that this task writes."""
    context = TaskContext.get()
    assert context is not None
    query = context.getLocalProperty("sql.streaming.queryId")
    number = context.getLocalProperty("streaming.sql.batchId")
    if query is None or number is None:
        raise WriteFailed(
            "docstore: this version of Spark does not pass the batch to "
            "its writers; use a version that docstore supports"
        )
    return options.text("jobId") or f"stream-{query}", int(number)


def merged(messages: Sequence[WriterCommitMessage | None]) -> Counted:
    """Return the sum of all tasks' messages. Their order does not matter."""
    done = [each for each in messages if isinstance(each, Counted)]
    whole = Counted(
        parts=[part for each in done for part in each.parts],
        digest=sum(each.digest for each in done),
        given=b"".join(each.given for each in done),
        job=done[0].job if done else "",
    )
    for each in done:
        whole.counts.update(each.counts)
    return whole


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
    """Write the job's document, since Spark keeps no counts for a Python source."""
    page = {"kind": "docstore:Job", "path": options.path, "job": job, **state}
    options.group.json("PUT", f"{JOBS}/{quote(job, safe='')}", page)
