"""`import`: write files into a factory: an export, or JSON, CSV, Parquet and Arrow.

JSON is stored as it is, and the values of a CSV are texts, unless a schema is given. Ids are made
of fields, or of the row's content: the same file gives the same ids, so an import that broke off is
simply repeated. No row is written before all rows are known to be valid, with ids of their own.
"""

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyspark.sql.functions as F  # noqa: N812
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, Window

from docstore.model import json
from docstore.model.ingest import id_of_fields, record_of
from docstore.pipeline import tables
from docstore.pipeline.errors import PipelineError
from docstore.pipeline.jobs.contents import NotTheSame, digest, moved, told_apart
from docstore.pipeline.jobs.exporting import manifest_of
from docstore.pipeline.jobs.files import place, rows_of
from docstore.pipeline.jobs.work import LINK_AND_BODY, Work, declare
from docstore.pipeline.outcomes import DEAD_LETTERS

BAD_LINES = ("fail", "skip", "deadletter")
_JUDGED = ("file string, block long, line long, raw binary, wrong string, isEnd boolean,"
           " id string, body string")  # fmt: skip


class BadLines(PipelineError, ValueError):
    """Rows of a file are malformed, or share an id."""


def import_(
    work: Work, *, source: str, into: str, ids: str = "", form: str = "auto", schema: str = "",
    infer: bool = False, bad_lines: str = "fail",
) -> dict[str, Any]:  # fmt: skip
    """Write every row of the source as a document. Raises ValueError, NotTheSame, WriteFailed.

    bad_lines: how to treat malformed rows: `fail` before any row is written, `skip`, or
    `deadletter`, a document for each under /core/spark/dead.
    """
    if bad_lines not in BAD_LINES:
        raise ValueError(f"--bad-lines must be one of {', '.join(BAD_LINES)}")
    result: dict[str, Any] = {"source": source, "into": into}
    manifest = manifest_of(work, source) if form in ("auto", "export", "parquet") else None
    if manifest is not None:
        exported = read_export(work, source, manifest)
        return stored(work, moved(exported, manifest["path"], into), into, result)
    if form == "export":
        raise ValueError(
            f"{source} has no manifest, so it is not a complete export; export it again"
        )
    rows = _judged(rows_of(work, source, form, schema=schema, infer=infer), ids).persist()
    try:
        count = _settle(work, source, into, rows.filter("wrong IS NOT NULL"), bad_lines)
        good = rows.filter("wrong IS NULL")
        if ids:
            _insist_on_ids(work, source, good)
        result = stored(work, documents_of(good, into), into, result)
    finally:
        rows.unpersist()
    return result if bad_lines == "fail" else result | {"badLines": count}


def read_export(work: Work, source: str, manifest: dict[str, Any]) -> DataFrame:
    """Return the rows of an export. Raises NotTheSame unless they match its manifest."""
    try:
        exported = work.spark.read.parquet(source)
        found = digest(exported)
    except AnalysisException as error:
        if error.getCondition() != "UNABLE_TO_INFER_SCHEMA":
            raise  # Otherwise all its files are gone.
    else:
        if found == {name: manifest[name] for name in found}:
            return exported
    raise NotTheSame(
        f"{source} does not match its manifest: its files were changed after the export;"
        " export it again"
    )


def stored(
    work: Work, documents: DataFrame, into: str, result: dict[str, Any], *, is_all: bool = False
) -> dict[str, Any]:
    """Write documents and compare them by value; return the result. Raises NotTheSame, WriteFailed.

    is_all: the factory must hold these documents and no others.
    """
    result |= {"rows": documents.count(), "versions": "begin anew"}
    if work.dry_run:
        return result
    declare(work.group, into)
    mode, how = ("overwrite", "full") if is_all else ("append", "left")
    tables.write(documents, work.url, into, mode=mode, job_id=work.job_id + "-rows")
    work.progress("written")
    now = tables.read(work.spark, work.url, into, columns=LINK_AND_BODY)
    told_apart(into, documents, now, how=how)
    return result | {"digestsEqual": True}


def _judged(rows: DataFrame, ids: str) -> DataFrame:
    fields = [name.strip() for name in ids.split(",") if name.strip()]

    def judged(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            raws, wrongs = batch.column("raw").to_pylist(), batch.column("wrong").to_pylist()
            found = [_judge(*each, fields) for each in zip(raws, wrongs, strict=True)]
            columns = {name: batch.column(name) for name in batch.schema.names}
            for at, name in enumerate(("wrong", "id", "body")):
                columns[name] = pa.array([each[at] for each in found], pa.string())
            yield pa.RecordBatch.from_pydict(columns)

    return rows.mapInArrow(judged, _JUDGED)


def _judge(
    raw: bytes, wrong: str | None, fields: list[str]
) -> tuple[str | None, str | None, str | None]:
    """Return the fault of a row, or its id and its body."""
    if wrong:
        return wrong, None, None
    record = record_of(0, raw)
    if record.wrong:
        return record.wrong, None, None
    try:
        name = id_of_fields(record.value, fields) if fields else _content(record.value)
    except ValueError as error:
        return f"the row {error}", None, None
    return None, name, raw.decode()


def _content(value: dict[str, Any]) -> str:
    return hashlib.sha256(json.canonical(value)).hexdigest()[:20]


def _settle(work: Work, source: str, into: str, bad: DataFrame, bad_lines: str) -> int:
    """Treat malformed rows as `bad_lines` says; return their number. Raises BadLines."""
    count = bad.count()
    if not count:
        return 0
    # At isEnd parsing has stopped and the rest of the file is unknown, so it cannot be skipped.
    order = (F.desc("isEnd"), "file", "block", "line")
    first = bad.orderBy(*order).first()
    assert first is not None
    if bad_lines == "fail" or first["isEnd"]:
        more = f" (and {count - 1} more such lines)" if count > 1 else ""
        raise BadLines(f"{place(work, source, first)}: {first['wrong']}{more}")
    if bad_lines == "deadletter" and not work.dry_run:
        for row in bad.toLocalIterator():
            _bury(work, into, row, place(work, source, row))
    return count


def _bury(work: Work, into: str, row: Any, where: str) -> None:
    """Keep a malformed row as a dead letter, named by its place so that a repetition adds none."""
    raw = bytes(row["raw"] or b"")
    name = hashlib.sha256(f"{work.job_id}\0{where}\0".encode() + raw).hexdigest()[:32]
    letter = {
        "job": work.job_id, "batch": 0, "link": into, "status": 400, "errorCode": "malformed",
        "detail": f"{where}: {row['wrong']}", "row": raw.decode(errors="replace"),
    }  # fmt: skip
    work.group.json("PUT", f"{DEAD_LETTERS}/{name}", letter)


def _insist_on_ids(work: Work, source: str, rows: DataFrame) -> None:
    """Raise BadLines if two rows share an id: one of them would be lost."""
    where = F.struct("file", "block", "line")
    same = rows.groupBy("id").agg(F.min(where).alias("first"), F.max(where).alias("last"))
    twice = same.filter("first <> last").orderBy("first").first()
    if twice is not None:
        first, last = (place(work, source, twice[name]) for name in ("first", "last"))
        raise BadLines(
            f"{first} and {last} have the same id {twice['id']!r}: name "
            "more fields with --id, or leave --id out for ids that are "
            "made of the content of the rows"
        )


def documents_of(rows: DataFrame, into: str) -> DataFrame:
    """Return links and bodies. Rows with equal content get a number after their id."""
    turn = F.row_number().over(Window.partitionBy("id").orderBy("file", "block", "line"))
    name = F.when(turn == 1, F.col("id")).otherwise(F.concat_ws("-", "id", turn.cast("string")))
    link = F.concat(F.lit(into.rstrip("/") + "/"), name)
    return rows.select(link.alias("documentSelfLink"), "body")
