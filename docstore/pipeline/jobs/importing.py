"""`import`: files into a factory: an export of ours, or JSON, CSV and Parquet of anybody's.

Ids come from fields, or, where there are none, from the row's content: the same file gives the same
ids, so that a run that broke off is simply repeated.
"""

from pathlib import Path
from typing import Any

import pyspark.sql.functions as F  # noqa: N812
from pyspark.sql import Column, DataFrame, Window

from docstore.pipeline import tables
from docstore.pipeline.errors import PipelineError
from docstore.pipeline.jobs.contents import digest
from docstore.pipeline.jobs.exporting import manifest_of
from docstore.pipeline.jobs.work import Work, declare

FORMATS = ("auto", "export", "json", "ndjson", "csv", "parquet", "arrow")


class NotTheSame(PipelineError):
    """What arrived is not what the manifest says."""


def import_(
    work: Work, *, source: str, into: str, ids: str = "", form: str = "auto",
    check: bool = True,
) -> dict[str, Any]:  # fmt: skip
    """Write every row of the source as a document. Raises ValueError, NotTheSame, WriteFailed."""
    manifest = manifest_of(work, source) if form in ("auto", "export", "parquet") else None
    if manifest is not None:
        documents = _moved(work.spark.read.parquet(source), into)
    else:
        documents = documents_of(_rows(work, source, form), into, ids)
    if work.dry_run:
        return {"source": source, "into": into, "rows": documents.count()}
    declare(work.group, into)
    tables.write(documents, work.url, into, job_id=work.job_id + "-rows")
    work.progress("written")
    result: dict[str, Any] = {"source": source, "into": into, "rows": documents.count()}
    if not check:
        return result
    now = tables.read(work.spark, work.url, into, columns=("documentSelfLink", "body"))
    stored = digest(now.join(documents, "documentSelfLink", "left_semi"))
    wanted = digest(documents)
    if manifest is not None and wanted != {name: manifest[name] for name in wanted}:
        raise NotTheSame(f"{source} is not what its manifest says")
    if stored != wanted:
        raise NotTheSame(f"{into} has {stored['rows']} of {wanted['rows']} documents as they came")
    return result | {"digestsEqual": True}


def _moved(exported: DataFrame, into: str) -> DataFrame:
    """Return an export's documents under another path."""
    name = F.element_at(F.split("documentSelfLink", "/"), -1)
    link = F.concat(F.lit(into.rstrip("/") + "/"), name)
    return exported.select(link.alias("documentSelfLink"), "body")


def _rows(work: Work, source: str, form: str) -> DataFrame:
    kind = Path(source.rstrip("/")).suffix.lower().lstrip(".") if form == "auto" else form
    reader = work.spark.read
    match kind:
        case "csv":
            return reader.option("header", "true").option("inferSchema", "true").csv(source)
        case "ndjson" | "jsonl":
            return reader.json(source)
        case "json":
            return reader.option("multiLine", _is_array(source)).json(source)
        case "arrow" | "feather":
            return _arrow(work, source)
        case "parquet" | "":
            return reader.parquet(source)
        case _:
            raise ValueError(f"--format is one of {', '.join(FORMATS)}")


def _is_array(source: str) -> bool:
    """Say whether a file is one JSON array, rather than a document a line."""
    path = Path(source)
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(64).lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"["


def _arrow(work: Work, source: str) -> DataFrame:
    """Return a file in Arrow's own format, which Spark does not read by itself."""
    import pyarrow as pa  # noqa: PLC0415 - here only

    with pa.memory_map(source) as file:
        try:
            table = pa.ipc.open_file(file).read_all()
        except pa.ArrowInvalid:
            file.seek(0)
            table = pa.ipc.open_stream(file).read_all()
    return work.spark.createDataFrame(table)


def documents_of(rows: DataFrame, into: str, ids: str) -> DataFrame:
    """Return links and bodies of rows whose ids are made of some fields, or of all they have."""
    body = F.to_json(F.struct(*(F.col(f"`{name}`") for name in rows.columns)))
    if ids:
        fields = [F.col(f"`{name.strip()}`").cast("string") for name in ids.split(",")]
        name = slugged(F.concat_ws("-", *fields))
        named = rows.select(name.alias("id"), body.alias("body"))
    else:
        named = rows.select(F.substring(F.sha2(body, 256), 1, 20).alias("id"), body.alias("body"))
    # Rows that are the same in all that counts are told apart by how many there were.
    turn = F.row_number().over(Window.partitionBy("id").orderBy("body"))
    name = F.when(turn == 1, F.col("id")).otherwise(F.concat_ws("-", "id", turn.cast("string")))
    link = F.concat(F.lit(into.rstrip("/") + "/"), name)
    return named.select(link.alias("documentSelfLink"), "body")


def slugged(name: Column) -> Column:
    """Return what a path can hold of a text."""
    kept = F.regexp_replace(F.lower(name), "[^a-z0-9._~]+", "-")
    short = F.substring(F.regexp_replace(kept, "^-+|-+$", ""), 1, 100)
    return F.when(short.isin("", ".", ".."), F.lit("unnamed")).otherwise(short)
