"""Files as a DataFrame of rows: each as JSON bytes, with the place that it has in its file.

Lines are read in parts, by as many tasks as there are. A JSON array, and a CSV as texts, can only
be read from the beginning: each such file by one task, which for an array holds all of it.
"""

import io
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyspark.sql.functions as F  # noqa: N812
from pyspark.sql import Column, DataFrame
from pyspark.sql.types import DataType, DoubleType, FloatType, StringType, StructType

from docstore.pipeline.jobs.work import Work
from docstore.records import BOM, Record, is_array, of_array, of_table

FORMATS = ("auto", "export", "json", "ndjson", "csv", "parquet", "arrow")
ROW = "file string, block long, line long, raw binary, wrong string, isEnd boolean"
"""block: where the part of the file begins in which `line` counts, from 1 on."""
_NUMBER = "number of this row in its file"
_CORRUPT = "does not fit the schema"
_JSON = {
    "ignoreNullFields": "false",  # A null is a null, and not a member that is missing.
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}


def rows_of(work: Work, source: str, form: str, *, schema: str, infer: bool) -> DataFrame:
    """Return the rows of files as `ROW` says. Raises ValueError.

    schema: DDL, of the members that are kept. infer: take it from a CSV's own values.
    """
    kind = Path(source.rstrip("/")).suffix.lower().lstrip(".") if form == "auto" else form
    if infer and kind != "csv":
        raise ValueError("--infer is for CSV: other formats say themselves what a value is")
    match kind:
        case "csv":
            rows = _split(work, source, _tables)
            schema = schema or (_inferred(work, source) if infer else "")
            return _of_texts(rows, _parsed(schema)) if schema else rows
        case "json" | "ndjson" | "jsonl":
            rows = _split(work, source, _arrays) if _begins(work, source) else _lines(work, source)
            return _fitted(rows, _parsed(schema)) if schema else rows
        case "arrow" | "feather":
            return _columns(_arrow(work, source), F.lit(source), F.col(_NUMBER))
        case "parquet" | "":
            table = work.spark.read.parquet(source)
            return _columns(table, F.col("_metadata.file_path"), F.col("_metadata.row_index") + 1)
        case _:
            raise ValueError(f"--format is one of {', '.join(FORMATS)}")


def place(work: Work, source: str, row: Any) -> str:
    """Return in words where a row stands: its file and its line there."""
    line = row["line"]
    if row["block"]:
        inside = (F.col("file") == row["file"]) & (F.col("block") < row["block"])
        line += _text(work, source).filter(inside).count()
    return f"{_path(row['file'])}: line {line}"


def _path(file: str) -> str:
    parts = urlsplit(file)
    return unquote(parts.path if parts.scheme == "file" else file)


def _text(work: Work, source: str) -> DataFrame:
    """Return the lines of files as they are, those of a part in their order."""
    return work.spark.read.option("lineSep", "\n").text(source).select(
        F.col("_metadata.file_path").alias("file"),
        F.col("_metadata.file_block_start").alias("block"),
        F.col("value").cast("binary").alias("raw"),
    )  # fmt: skip


def _begins(work: Work, source: str) -> bool:
    """Say whether files are arrays, by the first line that there is."""
    begun = _text(work, source).select(F.substring("raw", 1, 64).alias("raw"))
    first = begun.filter(~F.col("raw").cast("string").rlike(r"^\s*$")).first()
    return first is not None and is_array(bytes(first["raw"]))


def _lines(work: Work, source: str) -> DataFrame:
    return _text(work, source).mapInArrow(_numbered, ROW)


def _numbered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Count the lines of each part; leave empty ones out."""
    part, line = None, 0
    for batch in batches:
        rows = []
        for file, block, raw in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            line = line + 1 if (file, block) == part else 1
            part = (file, block)
            text = (raw.removeprefix(BOM) if line == 1 else raw).strip()
            if text:
                rows.append((file, block, Record(line, text)))
        yield _batch(rows)


def _split(work: Work, source: str, split: Any) -> DataFrame:
    """Return the rows of files that are read as a whole."""
    files = work.spark.read.format("binaryFile").load(source)
    is_local = urlsplit(source).scheme in ("", "file")
    # A file of this machine is opened where it is; Spark itself would hold all of it.
    content = F.lit(None).cast("binary") if is_local else F.col("content")
    columns = (F.col("_metadata.file_path").alias("file"), content.alias("content"))
    return files.select(*columns).mapInArrow(split, ROW)


def _arrays(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for file, content in _files(batches):
        raw = Path(_path(file)).read_bytes() if content is None else content
        yield from _batched(file, of_array(raw))


def _tables(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for file, content in _files(batches):
        with Path(_path(file)).open("rb") if content is None else io.BytesIO(content) as opened:
            yield from _batched(file, of_table(opened))


def _files(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, bytes | None]]:
    for batch in batches:
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _batched(file: str, records: Iterable[Record]) -> Iterator[pa.RecordBatch]:
    rows: list[tuple[str, int, Record]] = []
    for record in records:
        rows.append((file, 0, record))
        if len(rows) == 1000:
            yield _batch(rows)
            rows = []
    yield _batch(rows)


def _batch(rows: list[tuple[str, int, Record]]) -> pa.RecordBatch:
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
    """Return JSON as the members of a schema; what does not fit it is wrong."""
    with_corrupt = StructType([*schema.fields]).add(_CORRUPT, StringType())
    options = {"columnNameOfCorruptRecord": _CORRUPT}
    value = F.from_json(F.col("raw").cast("string"), with_corrupt, options)
    rows = rows.withColumn("value", value)
    is_wrong = F.col("value")[_CORRUPT].isNotNull()
    columns = [F.col("value")[field.name].alias(field.name) for field in schema.fields]
    return _with(rows, columns, F.when(is_wrong, F.lit(_CORRUPT)))


def _of_texts(rows: DataFrame, schema: StructType) -> DataFrame:
    """Return texts as values of a schema's types: those of numbers and times that are empty, null.

    A text that is no such value is wrong, and so is a column that is not there.
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
        faults.append(_not_json(value, field.name, field.dataType))
    return _with(rows, columns, F.coalesce(*faults))


def _columns(table: DataFrame, file: Column, line: Column) -> DataFrame:
    """Return a table's rows as JSON, with its nulls."""
    fields = [field for field in table.schema.fields if field.name != _NUMBER]
    columns = [table[f"`{field.name}`"] for field in fields]
    faults = [_not_json(table[f"`{f.name}`"], f.name, f.dataType) for f in fields]
    rows = table.withColumns({
        "file": file, "block": F.lit(0).cast("long"), "line": line,
        "raw": F.lit(None).cast("binary"), "wrong": F.lit(None).cast("string"),
        "isEnd": F.lit("false").cast("boolean"),
    })  # fmt: skip
    return _with(rows, columns, F.coalesce(*faults, F.lit(None).cast("string")))


def _with(rows: DataFrame, columns: list[Column], fault: Column) -> DataFrame:
    """Return the rows with the JSON of some columns in place of their bytes."""
    raw = F.to_json(F.struct(*columns), _JSON).cast("binary")
    wrong = F.coalesce(F.col("wrong"), fault)
    kept = F.when(wrong.isNull(), raw).otherwise(F.coalesce("raw", raw))
    return rows.select("file", "block", "line", kept.alias("raw"), wrong.alias("wrong"), "isEnd")


def _not_json(value: Column, name: str, kind: DataType) -> Column:
    """Return what is wrong with a number that JSON cannot say, null if nothing is."""
    if not isinstance(kind, (DoubleType, FloatType)):
        return F.lit(None).cast("string")
    is_odd = F.isnan(value) | (F.abs(value) == float("inf"))
    said = F.concat(F.lit(f"{name} is "), value.cast("string"), F.lit(", which JSON cannot say"))
    return F.when(is_odd, said)


def _arrow(work: Work, source: str) -> DataFrame:
    """Return a file in Arrow's own format, which Spark does not read by itself."""
    with pa.memory_map(source) as file:
        try:
            table = pa.ipc.open_file(file).read_all()
        except pa.ArrowInvalid:
            file.seek(0)
            table = pa.ipc.open_stream(file).read_all()
    numbers = pa.array(range(1, table.num_rows + 1), pa.int64())
    return work.spark.createDataFrame(table.append_column(_NUMBER, numbers))
