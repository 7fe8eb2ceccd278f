"""Run `docstore spark <job>`: bulk work over a group, on a Spark of its own or on a cluster's.

Each job prints one line of JSON, and its progress on standard error. It runs in a process of its
own: `docstore` and nodes start without PySpark and without Java.
"""

import importlib
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
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

Factory = Annotated[str, typer.Argument(help="A factory.")]
Url = Annotated[str, typer.Option(envvar="DOCSTORE_URL", help="Nodes, with commas between them.")]
Master = Annotated[str, typer.Option(help="Spark's master.")]
JobId = Annotated[str, typer.Option(help="A run that is repeated with the same id does no harm.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Change nothing.")]
AsOf = Annotated[str, typer.Option(help="latest, a time, a snapshot's name, or a cut's token.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, as without the option.")]
URL, LOCAL = "http://127.0.0.1:8001", "local[2]"


def _run(
    function: str, url: str, master: str, job_id: str, dry_run: bool = False, **arguments: Any
) -> None:
    """Run `module:function` of the jobs, and print its result, or its error in one line."""
    try:
        with _noise_elsewhere():
            GroupClient(url.split(","))  # Checks the URLs before Spark starts.
            module, _, attribute = function.partition(":")
            name = attribute.removesuffix("_")
            is_ours = SparkSession.getActiveSession() is None
            spark = session(master, f"docstore {name}")
            try:
                if not master.startswith(REMOTE):
                    spark.sparkContext.setLogLevel("OFF")  # This process prints the error, once.
                job = getattr(
                    importlib.import_module(f"docstore.pipeline.jobs.{module}"), attribute
                )
                result = Work(spark, url, name, job_id, dry_run).run(job, **arguments)
            finally:
                if is_ours:  # Otherwise the caller still uses the session.
                    spark.stop()
    except EXPECTED as error:
        raise _failed(error) from None
    sys.stdout.write(orjson.dumps(result).decode() + "\n")


@contextmanager
def _noise_elsewhere() -> Iterator[None]:
    """Redirect Java's messages to standard error, since standard output is for the result."""
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logging.getLogger(name).disabled = True  # These loggers print PySpark's tracebacks as JSON.
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
    into: Annotated[str, typer.Option(help="The factory; declared if it does not exist.")],
    ids: Annotated[str, typer.Option("--id", help="Fields that make the id.")] = "",
    form: Annotated[str, typer.Option("--format", help="json, csv, parquet...")] = "auto",
    schema: Annotated[str, typer.Option(help="DDL of the rows; else values stay as they are.")]
    = "",
    infer: Annotated[bool, typer.Option("--infer", help="Infer the types of a CSV.")] = False,
    bad_lines: Annotated[str, typer.Option(help="Malformed rows: fail, skip or deadletter.")]
    = "fail",
    url: Url = URL, master: Master = LOCAL, job_id: JobId = "", dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Import files into a factory. Versions begin anew, those of an export too."""
    _run(
        "importing:import_", url, master, job_id, dry_run, source=source, into=into, ids=ids,
        form=form, schema=schema, infer=infer, bad_lines=bad_lines,
    )  # fmt: skip


@app.command()
def export(
    path: Factory,
    to: Annotated[str, typer.Option(help="A directory that does not exist yet.")],
    where: Annotated[str, typer.Option(help="A condition on the documents.")] = "",
    as_of: AsOf = "latest", url: Url = URL, master: Master = LOCAL, job_id: JobId = "",
    dry_run: DryRun = False, as_json: AsJson = False,
) -> None:  # fmt: skip
    """Export a factory's snapshot as Parquet, with a manifest."""
    _run(
        "exporting:export", url, master, job_id, dry_run, path=path, to=to, as_of=as_of, where=where
    )


@app.command()
def restore(
    source: Annotated[str, typer.Argument(help="A directory of `export`.")],
    into: Annotated[str, typer.Option(help="The factory to restore.")],
    feed_url: Annotated[str, typer.Option(help="The exported group, to read its feed.")] = "",
    until: Annotated[str, typer.Option(help="The moment, with --feed-url.")] = "",
    url: Url = URL, master: Master = LOCAL, job_id: JobId = "", dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Restore a factory to a moment, by value. Versions and epochs begin anew."""
    _run(
        "restoring:restore", url, master, job_id, dry_run, source=source, into=into,
        feed_url=feed_url, until=until,
    )  # fmt: skip


@app.command()
def audit(
    path: Factory,
    as_of: AsOf = "latest", url: Url = URL, master: Master = LOCAL, job_id: JobId = "",
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Compare all copies of all documents, and name those that differ."""
    _run("auditing:audit", url, master, job_id, path=path, as_of=as_of)


@app.command()
def compact(
    older_than: Annotated[str, typer.Option(help="Age since replacement: 7d, 12h, 30m, 90s.")],
    url: Url = URL, master: Master = LOCAL, job_id: JobId = "", dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Delete old versions, on all nodes."""
    _run("compacting:compact", url, master, job_id, dry_run, older_than=older_than)


@app.command()
def balance(
    url: Url = URL, master: Master = LOCAL, job_id: JobId = "", as_json: AsJson = False
) -> None:
    """Show how evenly owners and rows are spread."""
    _run("balancing:balance", url, master, job_id)


@app.command()
def matview(
    path: Factory,
    into: Annotated[str, typer.Option(help="The factory of the view.")],
    rows: Annotated[str, typer.Option(help="SELECT ... FROM documents: rows of one document.")],
    keys: Annotated[str, typer.Option(help="Columns to group by.")],
    checkpoint: Annotated[str, typer.Option(help="Spark's state between runs.")],
    sums: Annotated[str, typer.Option(help="Columns to sum.")] = "",
    schema: Annotated[str, typer.Option(help="DDL of the documents.")] = "",
    seconds: Annotated[float, typer.Option(help="Seconds to follow; 0 for one run.")] = 0.0,
    check: Annotated[bool, typer.Option(help="Compare with a batch at the same cut.")] = False,
    url: Url = URL, master: Master = LOCAL, job_id: JobId = "matview", dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Keep sums over a factory up to date, by its change feed."""
    _run(
        "viewing:matview", url, master, job_id, dry_run, path=path, into=into, rows=rows, keys=keys,
        checkpoint=checkpoint, sums=sums, schema=schema, seconds=seconds, check=check,
    )  # fmt: skip


@app.command()
def histcheck(
    log: Annotated[str, typer.Argument(help="Operations of clients, NDJSON.")],
    path: Annotated[str, typer.Option(help="A factory that must have the versions.")] = "",
    url: Url = URL, master: Master = LOCAL, job_id: JobId = "", as_json: AsJson = False,
) -> None:  # fmt: skip
    """Check that the operations of clients are linearizable."""
    _run("checking:histcheck", url, master, job_id, log=log, path=path)


@app.command()
def migrate(
    path: Factory,
    to: Annotated[str, typer.Option(help="Nodes of the other group.")],
    into: Annotated[str, typer.Option(help="Its path there, if it differs.")] = "",
    lag: Annotated[int, typer.Option(help="Changes that may be left at the end.")] = 100,
    url: Url = URL, master: Master = LOCAL, job_id: JobId = "", dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Copy a factory to another group, while clients write to it."""
    _run("migrating:migrate", url, master, job_id, dry_run, path=path, to=to, into=into, lag=lag)


@app.command()
def finish(
    job_id: Annotated[str, typer.Argument(help="A job whose document says COMMITTING.")],
    url: Url = URL,
    as_json: AsJson = False,
) -> None:
    """Finish the commit of a job whose driver died."""
    try:
        counts = writing.finish(url, job_id)
    except EXPECTED as error:
        raise _failed(error) from None
    sys.stdout.write(orjson.dumps({"jobId": job_id, **counts}).decode() + "\n")


@app.command(hidden=True)
def tour(
    path: Factory,
    member: Annotated[str, typer.Option(help="The member to group by.")],
    directory: Annotated[str, typer.Option(help="For Parquet and Spark's state.")],
    url: Url = URL, master: Master = LOCAL, job_id: JobId = "",
) -> None:  # fmt: skip
    """Show the pipeline, as the last act of the demo."""
    _run("touring:tour", url, master, job_id, path=path, member=member, directory=directory)


if __name__ == "__main__":
    app(prog_name="docstore spark")
