"""`docstore spark <job>`: bulk work over a group, on a Spark of its own or on a cluster's.

Each prints one line of JSON, and its progress on standard error. A process of its own: `docstore`
itself starts without PySpark and without Java, and so do nodes.
"""

import importlib
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any

import orjson
import typer
from pyspark.sql import SparkSession

from docstore.pipeline import session, writing
from docstore.pipeline.errors import EXPECTED, line_of
from docstore.pipeline.group_client import GroupClient
from docstore.pipeline.jobs.work import Work
from docstore.pipeline.sessions import REMOTE

app = typer.Typer(
    help="Jobs on Apache Spark: needs the extra `spark`, and Java 17 or 21.",
    no_args_is_help=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Url = Annotated[str, typer.Option(envvar="DOCSTORE_URL", help="Nodes, with commas between them.")]
Master = Annotated[str, typer.Option(help="Spark's master.")]
JobId = Annotated[str, typer.Option(help="The same id makes a repeated run harmless.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Look, and change nothing.")]
AsOf = Annotated[str, typer.Option(help="latest, a time, a snapshot's name, or a cut's token.")]
URL, LOCAL = "http://127.0.0.1:8001", "local[2]"


@dataclass(frozen=True, slots=True)
class _JobRun:
    """One run of a job."""

    name: str
    url: str
    master: str
    job_id: str
    dry_run: bool = False

    def job(self, function: str, **arguments: Any) -> None:
        """Run `module:function` of the jobs, and print its result, or one line of why not."""
        try:
            with _noise_elsewhere():
                result = self._result(function, arguments)
        except EXPECTED as error:
            raise _failed(error) from None
        sys.stdout.write(orjson.dumps(result).decode() + "\n")

    def _result(self, function: str, arguments: dict[str, Any]) -> dict[str, Any]:
        GroupClient(self.url.split(","))  # What is no URL is said before Spark has been started.
        is_ours = SparkSession.getActiveSession() is None
        spark = session(self.master, f"docstore {self.name}")
        try:
            if not self.master.startswith(REMOTE):
                spark.sparkContext.setLogLevel("OFF")  # What fails is said once, by us.
            module, _, name = function.partition(":")
            found = importlib.import_module(f"docstore.pipeline.jobs.{module}")
            work = Work(spark, self.url, self.name, self.job_id, self.dry_run)
            return work.run(getattr(found, name), **arguments)
        finally:
            if is_ours:  # Else somebody goes on with it.
                spark.stop()


@contextmanager
def _noise_elsewhere() -> Iterator[None]:
    """Send to standard error what Java says while it starts: standard output is the result's."""
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logging.getLogger(name).disabled = True  # PySpark's own tracebacks, as JSON.
    sys.stdout.flush()
    ours = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(ours, 1)
        os.close(ours)


def _failed(error: BaseException) -> typer.Exit:
    sys.stderr.write(f"docstore: {line_of(error)}\n")
    return typer.Exit(1)


@app.command(name="import")
def import_(
    source: Annotated[str, typer.Argument(help="A directory of `export`, or a file.")],
    into: Annotated[str, typer.Option(help="The factory; declared if it is not there.")],
    ids: Annotated[str, typer.Option("--id", help="Fields that make the id.")] = "",
    form: Annotated[str, typer.Option("--format", help="json, csv, parquet...")] = "auto",
    schema: Annotated[str, typer.Option(help="Of the rows, in DDL; else values stay as they are.")]
    = "",
    infer: Annotated[bool, typer.Option("--infer", help="A CSV's types from its values.")] = False,
    bad_lines: Annotated[str, typer.Option(help="fail, skip, deadletter: rows that are none.")]
    = "fail",
    url: Url = URL, master: Master = LOCAL, job_id: JobId = "", dry_run: DryRun = False,
) -> None:  # fmt: skip
    """Files into a factory. Versions begin anew, those of an export as well."""
    run = _JobRun("import", url, master, job_id, dry_run)
    run.job(
        "importing:import_",
        source=source,
        into=into,
        ids=ids,
        form=form,
        schema=schema,
        infer=infer,
        bad_lines=bad_lines,
    )


@app.command()
def export(
    path: Annotated[str, typer.Argument(help="A factory.")],
    to: Annotated[str, typer.Option(help="A directory that is not there yet.")],
    where: Annotated[str, typer.Option(help="Only documents of which this is true.")] = "",
    as_of: AsOf = "latest", url: Url = URL, master: Master = LOCAL, job_id: JobId = "",
    dry_run: DryRun = False,
) -> None:  # fmt: skip
    """A factory's snapshot as Parquet, with a manifest."""
    run = _JobRun("export", url, master, job_id, dry_run)
    run.job("exporting:export", path=path, to=to, as_of=as_of, where=where)


@app.command()
def restore(
    source: Annotated[str, typer.Argument(help="A directory of `export`.")],
    into: Annotated[str, typer.Option(help="The factory that goes back to that moment.")],
    feed_url: Annotated[str, typer.Option(help="The group that was exported, for its feed.")] = "",
    until: Annotated[str, typer.Option(help="The moment, with --feed-url.")] = "",
    url: Url = URL, master: Master = LOCAL, job_id: JobId = "", dry_run: DryRun = False,
) -> None:  # fmt: skip
    """A factory as it was at a moment, by value. Versions and epochs begin anew."""
    run = _JobRun("restore", url, master, job_id, dry_run)
    run.job("restoring:restore", source=source, into=into, feed_url=feed_url, until=until)


@app.command()
def audit(
    path: Annotated[str, typer.Argument(help="A factory.")],
    as_of: AsOf = "latest", url: Url = URL, master: Master = LOCAL, job_id: JobId = "",
) -> None:  # fmt: skip
    """Compare all copies of all documents, and name those that differ."""
    run = _JobRun("audit", url, master, job_id)
    run.job("auditing:audit", path=path, as_of=as_of)


@app.command()
def compact(
    older_than: Annotated[str, typer.Option(help="Replaced longer ago: 7d, 12h, 30m, 90s.")],
    url: Url = URL, master: Master = LOCAL, job_id: JobId = "", dry_run: DryRun = False,
) -> None:  # fmt: skip
    """Let go of old versions, on all nodes."""
    run = _JobRun("compact", url, master, job_id, dry_run)
    run.job("compacting:compact", older_than=older_than)


@app.command()
def balance(url: Url = URL, master: Master = LOCAL, job_id: JobId = "") -> None:
    """How evenly owners and rows lie."""
    run = _JobRun("balance", url, master, job_id)
    run.job("balancing:balance")


@app.command()
def matview(
    path: Annotated[str, typer.Argument(help="A factory.")],
    into: Annotated[str, typer.Option(help="The factory of the view.")],
    rows: Annotated[str, typer.Option(help="SELECT ... FROM documents: rows of one document.")],
    keys: Annotated[str, typer.Option(help="Columns to group by.")],
    checkpoint: Annotated[str, typer.Option(help="Spark's state between runs.")],
    sums: Annotated[str, typer.Option(help="Columns to sum.")] = "",
    schema: Annotated[str, typer.Option(help="Of the documents, in DDL.")] = "",
    seconds: Annotated[float, typer.Option(help="Follow for so long; 0 is once.")] = 0.0,
    check: Annotated[bool, typer.Option(help="Compare with a batch at the same cut.")] = False,
    url: Url = URL, master: Master = LOCAL, job_id: JobId = "matview", dry_run: DryRun = False,
) -> None:  # fmt: skip
    """Sums over a factory, kept up to date by its change feed."""
    run = _JobRun("matview", url, master, job_id, dry_run)
    run.job(
        "viewing:matview",
        path=path,
        into=into,
        rows=rows,
        keys=keys,
        checkpoint=checkpoint,
        sums=sums,
        schema=schema,
        seconds=seconds,
        check=check,
    )


@app.command()
def histcheck(
    log: Annotated[str, typer.Argument(help="Operations of clients, NDJSON.")],
    path: Annotated[str, typer.Option(help="Look for what was written in this factory.")] = "",
    url: Url = URL, master: Master = LOCAL, job_id: JobId = "",
) -> None:  # fmt: skip
    """Whether what clients saw could have been."""
    run = _JobRun("histcheck", url, master, job_id)
    run.job("checking:histcheck", log=log, path=path)


@app.command()
def migrate(
    path: Annotated[str, typer.Argument(help="A factory.")],
    to: Annotated[str, typer.Option(help="Nodes of the other group.")],
    into: Annotated[str, typer.Option(help="Its path there, if another one.")] = "",
    lag: Annotated[int, typer.Option(help="So few changes are left at the end.")] = 100,
    url: Url = URL, master: Master = LOCAL, job_id: JobId = "", dry_run: DryRun = False,
) -> None:  # fmt: skip
    """A factory to another group, while it is written to."""
    run = _JobRun("migrate", url, master, job_id, dry_run)
    run.job("migrating:migrate", path=path, to=to, into=into, lag=lag)


@app.command()
def finish(
    job_id: Annotated[str, typer.Argument(help="A job whose document says COMMITTING.")],
    url: Url = URL,
) -> None:
    """Go on with the commit of a job whose driver went away."""
    try:
        counts = writing.finish(url, job_id)
    except EXPECTED as error:
        raise _failed(error) from None
    sys.stdout.write(orjson.dumps({"jobId": job_id, **counts}).decode() + "\n")


@app.command(hidden=True)
def tour(
    path: Annotated[str, typer.Argument(help="A factory.")],
    member: Annotated[str, typer.Option(help="By which member to sum.")],
    directory: Annotated[str, typer.Option(help="For Parquet and Spark's state.")],
    url: Url = URL, master: Master = LOCAL, job_id: JobId = "",
) -> None:  # fmt: skip
    """The last act of the demo."""
    run = _JobRun("tour", url, master, job_id)
    run.job("touring:tour", path=path, member=member, directory=directory)


if __name__ == "__main__":
    app(prog_name="docstore spark")
