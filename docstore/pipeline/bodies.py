"""Bodies as columns: members of documents, with the types that a schema says.

A whole batch at once by Arrow's JSON reader; only when that refuses (a value of another type, a
number beyond 64 bits) row by row, so that one bad document costs its batch and not the job.
"""

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from docstore.pipeline.errors import PipelineError
from docstore.pipeline.options import PARSE_MODES

PERMISSIVE, DROP, FAIL = PARSE_MODES


class Malformed(PipelineError):
    """A document is not what the schema says, and the mode is FAILFAST."""


def members(
    bodies: pa.Array, fields: Sequence[pa.Field], mode: str
) -> tuple[list[pa.Array], pa.Array]:
    """Return an array for each member, and which rows are as the schema says."""
    if not len(bodies):
        return [pa.array([], field.type) for field in fields], pa.array([], pa.bool_())
    try:
        return _whole(bodies, fields), pa.array([True] * len(bodies))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
        return _by_row(bodies, fields, mode)


def _whole(bodies: pa.Array, fields: Sequence[pa.Field]) -> list[pa.Array]:
    filled = pc.fill_null(bodies, "{}")
    lines = b"\n".join(value.as_buffer().to_pybytes() for value in filled)
    options = pa.json.ParseOptions(
        explicit_schema=pa.schema([field.with_nullable(True) for field in fields]),
        unexpected_field_behavior="ignore", newlines_in_values=False,
    )  # fmt: skip
    block = pa.json.ReadOptions(block_size=len(lines) + 1, use_threads=False)
    table = pa.json.read_json(pa.BufferReader(lines), block, options)
    if table.num_rows != len(bodies):
        raise pa.ArrowInvalid("lines were lost")
    return [table.column(field.name).combine_chunks() for field in fields]


def _by_row(
    bodies: pa.Array, fields: Sequence[pa.Field], mode: str
) -> tuple[list[pa.Array], pa.Array]:
    columns: list[list[Any]] = [[] for _ in fields]
    good = []
    for body in bodies.to_pylist():
        values = _values(body, fields)
        if values is None and mode == FAIL:
            raise Malformed(f"a document does not fit the schema: {str(body)[:200]}")
        good.append(values is not None)
        for column, value in zip(columns, values or [None] * len(fields), strict=True):
            column.append(value)
    arrays = [pa.array(c, field.type) for c, field in zip(columns, fields, strict=True)]
    return arrays, pa.array(good)


def _values(body: str | None, fields: Sequence[pa.Field]) -> list[Any] | None:
    """Return a document's members, None if one of them does not fit."""
    if body is None:
        return [None] * len(fields)
    try:
        document = json.loads(body)
        found = [document.get(field.name) for field in fields]
        for value, field in zip(found, fields, strict=True):
            if not _fits(value, field.type):
                return None
            pa.array([value], field.type)
    except (ValueError, TypeError, AttributeError, OverflowError, pa.ArrowException):
        return None
    return found


def _fits(value: Any, kind: pa.DataType) -> bool:
    """Say whether JSON's type is the column's: Arrow would take true for 1."""
    if value is None:
        return True
    if isinstance(value, bool):
        return bool(pa.types.is_boolean(kind))
    if isinstance(value, str):
        return bool(pa.types.is_string(kind) or pa.types.is_temporal(kind))
    if isinstance(value, int):
        return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))
    if isinstance(value, float):
        return bool(pa.types.is_floating(kind))
    if isinstance(value, list):
        return bool(pa.types.is_list(kind)) and all(_fits(each, kind.value_type) for each in value)
    return bool(pa.types.is_struct(kind) or pa.types.is_map(kind))
