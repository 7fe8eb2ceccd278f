"""Read files as a DataFrame of rows: each as JSON bytes, with its place in its file.

Lines are read in parts, by many tasks. A JSON array, and a CSV of texts, can only be read from the
beginning: each such file by one task, which holds an array as a whole.
"""

import io
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyspark.sql.functions as F  # noqa: N812
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StringType, StructType

from docstore.model.ingest import BOM, SourceRow, is_array, of_array, of_table
from docstore.pipeline.errors import PipelineError
from docstore.pipeline.jobs.work import Work
from docstore.pipeline.kinds import check_members
from docstore.pipeline.values import objects

FORMATS = ("auto", "export", "json", "ndjson", "csv", "parquet", "arrow")
ROW = "file string, block long, line long, raw binary, wrong string, isEnd boolean"
"""Columns of rows, as DDL; block: offset of the part of the file in which `line` counts from 1."""
ROWS_AT_ONCE = 1000
_NUMBER = "number of this row in its file"
_CORRUPT = "does not fit the schema"
_ROW = "row"
"""Name of the column with the members of a row."""


class UnreadableFile(PipelineError, ValueError):
    """A file does not have the format that was named."""


def rows_of(work: Work, source: str, form: str, *, schema: str, infer: bool) -> DataFrame:
    """Return the rows of files with the columns of `ROW`. Raises ValueError.

    schema: DDL, of the members to keep. infer: infer it from the values of a CSV.
    """
    kind = Path(source.rstrip("/")).suffix.lower().lstrip(".") if form == "auto" else form
    if infer and kind != "csv":
        raise ValueError(
            "--infer must be left out unless the format is CSV: other formats have types"
        )
    match kind:
        case "csv":
            rows = _split(work, source, of_table)
            schema = schema or (_inferred(work, source) if infer else "")
            return _of_texts(rows, _parsed(schema)) if schema else rows
        case "json" | "ndjson" | "jsonl":
            is_one = _is_one_array(work, source)
            rows = _split(work, source, _array) if is_one else lines_of(work, source)
            return _fitted(rows, _parsed(schema)) if schema else rows
        case "arrow" | "feather":
            return _columns(_arrow(work, source), F.lit(source), F.col(_NUMBER))
        case "parquet" | "":
            table = _parquet(work, source)
            return _columns(table, F.col("_metadata.file_path"), F.col("_metadata.row_index") + 1)
        case _:
            raise ValueError(f"--format must be one of {', '.join(FORMATS)}")


def place(work: Work, source: str, row: Any) -> str:
    line = row["line"]
    if row["block"]:
        inside = (F.col("file") == row["file"]) & (F.col("block") < row["block"])
        line += _text(work, source).filter(inside).count()
    return f"{_path(row['file'])}: line {line}"


def _path(file: str) -> str:
    parts = urlsplit(file)
    return unquote(parts.path if parts.scheme == "file" else file)


def _text(work: Work, source: str) -> DataFrame:
    """Return the lines of files; lines of one (file, block) are in order."""
    return work.spark.read.option("lineSep", "\n").text(source).select(
        F.col("_metadata.file_path").alias("file"),
        F.col("_metadata.file_block_start").alias("block"),
        F.col("value").cast("binary").alias("raw"),
    )  # fmt: skip


def _is_one_array(work: Work, source: str) -> bool:
    """Say whether files are JSON arrays, by their first line."""
    begun = _text(work, source).select(F.substring("raw", 1, 64).alias("raw"))
    first = begun.filter(~F.col("raw").cast("string").rlike(r"^\s*$")).first()
    return first is not None and is_array(bytes(first["raw"]))


def lines_of(work: Work, source: str) -> DataFrame:
    """Return the lines of files that are not empty, with the columns of `ROW`."""
    return _text(work, source).mapInArrow(_numbered, ROW)


def _numbered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Number the lines of each part, and leave out empty ones."""
    part, line = None, 0
    for batch in batches:
        rows = []
        for file, block, raw in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            line = line + 1 if (file, block) == part else 1
            part = (file, block)
            text = (raw.removeprefix(BOM) if line == 1 else raw).strip()
            if text:
                rows.append((file, block, SourceRow(line, text)))
        yield _batch(rows)


def _split(work: Work, source: str, parse: Callable[[IO[bytes]], Iterable[SourceRow]]) -> DataFrame:
    """Return the rows of files, each of which is parsed as a whole by one task."""
    files = work.spark.read.format("binaryFile").load(source)
    is_local = urlsplit(source).scheme in ("", "file")
    # The task opens a local file itself, as Spark would hold the whole file in memory.
    content = F.lit(None).cast("binary") if is_local else F.col("content")
    columns = (F.col("_metadata.file_path").alias("file"), content.alias("content"))
    return files.select(*columns).mapInArrow(partial(_whole, parse=parse), ROW)


def _whole(
    batches: Iterable[pa.RecordBatch], *, parse: Callable[[IO[bytes]], Iterable[SourceRow]]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for file, content in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            with Path(_path(file)).open("rb") if content is None else io.BytesIO(content) as opened:
                records = iter(parse(opened))
                while rows := [(file, 0, record) for record in islice(records, ROWS_AT_ONCE)]:
                    yield _batch(rows)


def _array(opened: IO[bytes]) -> Iterable[SourceRow]:
    return of_array(opened.read())


def _batch(rows: list[tuple[str, int, SourceRow]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [
            pa.array([file for file, _, _ in rows], pa.string()),
            pa.array([block for _, block, _ in rows], pa.int64()),
            pa.array([record.line for _, _, record in rows], pa.int64()),
            pa.array([record.raw for _, _, record in rows], pa.binary()),
            pa.array([record.wrong or None for _, _, record in rows], pa.string()),
            pa.array([record.is_end for _, _, record in rows], pa.bool_()),
        ],
        names=["file", "block", "line", "raw", "wrong", "isEnd"],
    )


def _parsed(schema: str) -> StructType:
    parsed = StructType.fromDDL(schema)
    assert isinstance(parsed, StructType)
    return parsed


def _inferred(work: Work, source: str) -> str:
    reader = work.spark.read.option("header", "true").option("inferSchema", "true")
    reader = reader.option("multiLine", "true").option("escape", '"')
    return str(reader.csv(source).schema.toDDL())


def _fitted(rows: DataFrame, schema: StructType) -> DataFrame:
    """Parse JSON with a schema, and mark the rows that do not fit."""
    with_corrupt = StructType([*schema.fields]).add(_CORRUPT, StringType())
    options = {"columnNameOfCorruptRecord": _CORRUPT}
    value = F.from_json(F.col("raw").cast("string"), with_corrupt, options)
    rows = rows.withColumn("value", value)
    is_wrong = F.col("value")[_CORRUPT].isNotNull()
    columns = [F.col("value")[field.name].alias(field.name) for field in schema.fields]
    # A NaN written as a text stays a text.
    return _with(rows, columns, F.when(is_wrong, F.lit(_CORRUPT)), words=True)


def _of_texts(rows: DataFrame, schema: StructType) -> DataFrame:
    """Parse texts with the types of a schema; an empty number or time is null.

    A row is wrong if a text is no value of its type, or if a column is missing.
    """
    texts = F.from_json(F.col("raw").cast("string"), "map<string,string>")
    rows = rows.withColumn("texts", texts)
    columns, faults = [], []
    for field in schema.fields:
        text, kind = F.col("texts")[field.name], field.dataType.simpleString()
        value = text if isinstance(field.dataType, StringType) else text.try_cast(field.dataType)
        columns.append(value.alias(field.name))
        faults.append(F.when(text.isNull(), F.lit(f"there is no column {field.name}")))
        said = F.concat(F.lit(f"{field.name} is no {kind}: "), F.substring(text, 1, 80))
        faults.append(F.when((text != "") & value.isNull(), said))
    return _with(rows, columns, F.coalesce(*faults), words=False)


def _columns(table: DataFrame, file: Column, line: Column) -> DataFrame:
    """Return the rows of a table as JSON, including members that are null."""
    names = [name for name in table.columns if name != _NUMBER]
    rows = table.select(
        file.alias("file"), F.lit(0).cast("long").alias("block"), line.alias("line"),
        F.lit(None).cast("binary").alias("raw"), F.lit(None).cast("string").alias("wrong"),
        F.lit("false").cast("boolean").alias("isEnd"),
        F.struct(*(_quoted(name) for name in names)).alias(_ROW),
    )  # fmt: skip
    return _spelled(rows)


def _quoted(name: str) -> Column:
    return F.col("`{}`".format(name.replace("`", "``")))


def _with(rows: DataFrame, columns: list[Column], fault: Column, *, words: bool) -> DataFrame:
    """Return the rows with the JSON of `columns` as their bytes.

    fault: why a row is wrong, null if it is not. words: as in `_spelled`.
    """
    wrong = F.coalesce("wrong", fault)
    names = ("file", "block", "line", "raw", wrong.alias("wrong"), "isEnd")
    return _spelled(rows.select(*names, F.struct(*columns).alias(_ROW)), words=words)


def _spelled(rows: DataFrame, *, words: bool = False) -> DataFrame:
    """Return rows with the JSON of their members, nulls included.

    words: write NaN and the infinities as texts, which are wrong otherwise. A wrong row keeps its
    bytes. Raises ValueError for a column without a form in JSON.
    """
    schema = rows.schema[_ROW].dataType
    assert isinstance(schema, StructType)
    check_members(schema, schema.names)
    return rows.mapInArrow(partial(_of_members, words=words), ROW)


def _of_members(batches: Iterable[pa.RecordBatch], *, words: bool) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        members = pa.RecordBatch.from_struct_array(batch.column(_ROW))
        found = objects(members, members.schema.names, nulls=True, words=words)
        given = zip(*(batch.column(name).to_pylist() for name in ("raw", "wrong")), strict=True)
        rows = []
        for at, ((raw, fault), (text, formless)) in enumerate(zip(given, found, strict=True)):
            wrong = fault or formless or None
            kept = raw or text or _in_words(members.slice(at, 1)) if wrong else text
            rows.append((kept, wrong))
        columns = {name: batch.column(name) for name in batch.schema.names if name != _ROW}
        columns["raw"] = pa.array([raw for raw, _ in rows], pa.binary())
        columns["wrong"] = pa.array([wrong for _, wrong in rows], pa.string())
        yield pa.RecordBatch.from_pydict(columns)


def _in_words(members: pa.RecordBatch) -> bytes:
    """Return an approximate JSON of a row that has none, for a dead letter."""
    [(raw, _)] = objects(members, members.schema.names, nulls=True)
    return raw


def _parquet(work: Work, source: str) -> DataFrame:
    """Read Parquet. Raises UnreadableFile for two columns that have one name in Spark."""
    try:
        return work.spark.read.parquet(source)
    except AnalysisException as error:
        if error.getCondition() != "COLUMN_ALREADY_EXISTS":
            raise
        column = (error.getMessageParameters() or {})["columnName"]
        raise UnreadableFile(
            f"{source}: the column {column} is named twice; rename one of the two"
        ) from None


def _arrow(work: Work, source: str) -> DataFrame:
    """Read Arrow's file or stream format, which Spark does not read. Raises UnreadableFile."""
    with pa.memory_map(source) as file:
        try:
            table = pa.ipc.open_file(file).read_all()
        except pa.ArrowInvalid:
            file.seek(0)
            table = _streamed(file, source)
    names = [name.casefold() for name in table.column_names]  # Spark ignores the case of names.
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UnreadableFile(
            f"{source}: the column {twice!r} is named twice; rename one of the two"
        )
    numbers = pa.array(range(1, table.num_rows + 1), pa.int64())
    table = table.append_column(_NUMBER, numbers)
    # Without the schema, Spark would give times without a zone the zone of the session.
    return work.spark.createDataFrame(table, from_arrow_schema(table.schema))


def _streamed(file: pa.NativeFile, source: str) -> pa.Table:
    try:
        return pa.ipc.open_stream(file).read_all()
    except pa.ArrowInvalid as error:
        raise UnreadableFile(f"{source} is not in Arrow's file or stream format: {error}") from None
