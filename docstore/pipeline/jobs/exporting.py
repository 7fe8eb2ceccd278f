"""`export`: write a snapshot of a factory as Parquet, with a manifest.

It is plain Parquet, which pandas and other engines read. The manifest is written last, from the
files as they were read back, so a directory with a manifest is complete.
"""

import json
import re
import time
from pathlib import Path
from typing import Any

from pyspark.errors import AnalysisException

from docstore import __version__
from docstore.model import document_members
from docstore.pipeline import tables
from docstore.pipeline.jobs.contents import digest
from docstore.pipeline.jobs.work import Work

MANIFEST = "_manifest.json"
_PATTERN = re.compile(r"[*?\[\]{}\\]")
COLUMNS = (*document_members.COLUMN_NAMES, "slot", "seq", "body")


def export(
    work: Work, *, path: str, to: str, as_of: str = "latest", where: str = ""
) -> dict[str, Any]:
    """Export the documents of a factory at a cut. Raises ValueError."""
    if _PATTERN.search(to):
        raise ValueError(
            "--to must not contain *, ?, [, ], {, } or \\, which Spark "
            f"reads as a pattern; got {to}"
        )
    table = tables.read(
        work.spark, work.url, path, columns=COLUMNS, where=where, as_of=as_of,
    )  # fmt: skip
    cut = tables.cut_of(table)
    if work.dry_run:
        return {"path": path, "to": to, "cut": cut, "rows": table.count()}
    done = manifest_of(work, to)
    if done is not None and done["jobId"] == work.job_id:
        return {**_summary(done), "to": to, "repeated": True}
    try:  # An existing directory is never overwritten, since a wrong --to could destroy it.
        table.write.mode("errorifexists").option("compression", "zstd").parquet(to)
    except AnalysisException as error:
        if error.getCondition() != "PATH_ALREADY_EXISTS":
            raise
        why = f"--to {to}: it is there already; name a directory that is not, or remove this one"
        raise ValueError(why) from None
    work.progress("written; reading it back")
    written = digest(work.spark.read.parquet(to))
    manifest = {
        "format": 1, "docstore": __version__, "jobId": work.job_id, "path": path, "cut": cut,
        "where": where, "createdTimeMicros": int(time.time() * 1_000_000), **written,
    }  # fmt: skip
    _put(work, to, json.dumps(manifest))
    return {**_summary(manifest), "to": to}


def _summary(manifest: dict[str, Any]) -> dict[str, Any]:
    return {name: manifest[name] for name in ("path", "cut", "rows")}


def manifest_of(work: Work, directory: str) -> dict[str, Any] | None:
    """Return the manifest of an export, None if the export is incomplete."""
    local = local_path(directory)
    if local is not None:
        file = local / MANIFEST
        return dict(json.loads(file.read_text())) if file.exists() else None
    path, system = _hadoop(work, directory)
    if not system.exists(path):
        return None
    text = "".join(row.value for row in work.spark.read.text(f"{directory}/{MANIFEST}").collect())
    return dict(json.loads(text))


def _put(work: Work, directory: str, text: str) -> None:
    local = local_path(directory)
    if local is not None:
        (local / MANIFEST).write_text(text)
        return
    path, system = _hadoop(work, directory)
    stream = system.create(path, True)
    stream.write(text.encode())
    stream.close()


def local_path(directory: str) -> Path | None:
    """Return the path of a directory on this machine, None if it is elsewhere.

    The name is taken literally, as Spark does: it has no query and no fragment.
    """
    parts = re.fullmatch(r"(?:([A-Za-z][A-Za-z0-9+.-]*):(?://[^/]*)?)?(.*)", directory, re.DOTALL)
    assert parts is not None
    return Path(parts[2]) if parts[1] in (None, "file") else None


def _hadoop(work: Work, directory: str) -> tuple[Any, Any]:
    """Return the manifest's path and file system, if it is not on this machine."""
    context: Any = work.spark.sparkContext
    path = context._jvm.org.apache.hadoop.fs.Path(f"{directory}/{MANIFEST}")  # noqa: SLF001
    return path, path.getFileSystem(context._jsc.hadoopConfiguration())  # noqa: SLF001
