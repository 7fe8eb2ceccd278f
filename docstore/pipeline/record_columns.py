"""Define the columns of a topic's records, and make them of the leader's answers."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyspark.sql.types as T  # noqa: N812
from pyspark.sql.pandas.types import to_arrow_schema

from docstore.pipeline.columns import insist_on_distinct
from docstore.pipeline.errors import PipelineError
from docstore.pipeline.fetching import Range, RecordBlock
from docstore.pipeline.options import Options

FORMS: dict[str, T.DataType] = {"string": T.StringType(), "binary": T.BinaryType()}
HEADERS = T.MapType(T.StringType(), T.BinaryType(), valueContainsNull=True)


class NotText(PipelineError):
    """Bytes to be read as text are not UTF-8."""


def schema_of(options: Options) -> T.StructType:
    """Return the columns of the options, all by default. Raises ValueError."""
    every = {
        "topic": T.StructField("topic", T.StringType(), nullable=False),
        "partition": T.StructField("partition", T.IntegerType(), nullable=False),
        "offset": T.StructField("offset", T.LongType(), nullable=False),
        "epoch": T.StructField("epoch", T.LongType(), nullable=False),
        "key": T.StructField("key", FORMS[options.choice("keyAs", FORMS)]),
        "value": T.StructField("value", FORMS[options.choice("valueAs", FORMS)]),
        "headers": T.StructField("headers", HEADERS),
        "timestamp": T.StructField("timestamp", T.TimestampType(), nullable=False),
    }
    names = options.words("columns") or list(every)
    unknown = next((name for name in names if name not in every), None)
    if unknown is not None:
        known = ", ".join(every)
        raise ValueError(f"docstore: records have no column {unknown!r}; they have {known}")
    insist_on_distinct(names)
    return T.StructType([every[name] for name in names])


class RecordColumns:
    """Converts blocks of records to batches of a schema."""

    def __init__(self, schema: T.StructType) -> None:
        self._schema = schema

    def of(self, asked: Range, found: RecordBlock) -> pa.RecordBatch:
        """Return the records of a block. Raises NotText."""
        target = to_arrow_schema(self._schema, timezone="UTC")
        columns = [self._column(asked, found, field) for field in target]
        return pa.RecordBatch.from_arrays(columns, schema=target)

    def _column(self, asked: Range, found: RecordBlock, field: pa.Field) -> pa.Array:
        count, kind = len(found.values), field.type
        match field.name:
            case "topic":
                return pa.repeat(pa.scalar(asked.topic, kind), count)
            case "partition":
                return pa.repeat(pa.scalar(asked.partition, kind), count)
            case "offset":
                return pa.array(found.offsets, kind)
            case "epoch":
                return pa.array(found.epochs, kind)
            case "key":
                return _content(asked, found.offsets, found.keys, field)
            case "value":
                return _content(asked, found.offsets, found.values, field)
            case "headers":
                return pa.array(found.headers, kind)
            case _:
                return pa.array(found.times, pa.int64()).cast(kind)


def _content(
    asked: Range, offsets: Sequence[int], content: Sequence[bytes | None], field: pa.Field
) -> pa.Array:
    raw = pa.array(content, pa.binary())
    if pa.types.is_binary(field.type):
        return raw
    try:
        return raw.cast(field.type)  # The cast checks for UTF-8.
    except pa.ArrowInvalid:
        at = next(
            offset for offset, each in zip(offsets, content, strict=True) if not _is_text(each)
        )
        raise NotText(
            f"docstore: {asked.name}: the {field.name} at offset {at} is not UTF-8; read it"
            f' with option("{field.name}As", "binary")'
        ) from None


def _is_text(content: Any) -> bool:
    try:
        return content is None or content.decode() is not None
    except UnicodeDecodeError:
        return False
