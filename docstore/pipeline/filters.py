"""Translate Spark's filters into conditions that keep at least the rows that Spark keeps.

Spark evaluates each filter again, so a condition may keep more rows, and must not keep fewer. It is
"" where nodes and Spark differ: collations, times and decimals in documents, `is null` (a document
that does not fit the schema has null in all members). Spark's doubles are rounded, and may be NaN.
"""

import math
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

import pyspark.sql.types as T  # noqa: N812
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from docstore.errors import BadRequest
from docstore.model.document_members import STORE_SET
from docstore.model.json import NO_CHARACTER
from docstore.pipeline.columns import ENVELOPE
from docstore.query.moments import EPOCH
from docstore.query.parser import parse

_SIGNS: dict[type[Filter], str] = {
    EqualTo: "=", EqualNullSafe: "=", GreaterThan: ">", GreaterThanOrEqual: ">=", LessThan: "<",
    LessThanOrEqual: "<=",
}  # fmt: skip
_TESTS: dict[type[Filter], str] = {
    StringStartsWith: "startswith", StringEndsWith: "endswith", StringContains: "contains",
}  # fmt: skip
_WHOLE = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)
_EXACT = 1 << 53
"""Doubles below it are exact, if they are whole."""
_SLACK = 1e-12
"""Relative error to allow for numbers that are not whole: far more than SQLite or Spark makes."""
_NOT_FINITE = "('NaN', 'Infinity', '-Infinity')"
Column = tuple[str, T.DataType]
"""The name of a column in a condition, and its type in Spark."""


class _Different(Exception):
    """A filter that means something else to nodes."""


def condition_of(filters: Iterable[Filter], schema: T.StructType, *, any_is_text: bool) -> str:
    """Return what the nodes must check of some filters that all must hold, "" for nothing."""
    found: list[str] = []
    for each in filters:
        try:
            text = _said(each, schema, any_is_text)
            parse(text)
        except (_Different, BadRequest):
            continue
        found.append(text)
    return " and ".join(f"({each})" for each in found)


def _said(each: Filter, schema: T.StructType, any_is_text: bool) -> str:
    inner = each.child if isinstance(each, Not) else each
    attribute: Sequence[str] = getattr(inner, "attribute", ())
    name, kind = _column(attribute, schema)
    if isinstance(inner, IsNotNull) and not isinstance(each, Not):
        return f"{name} is not null"
    text = _negated(inner, name, kind) if isinstance(each, Not) else _plain(inner, name, kind)
    if isinstance(kind, T.DoubleType):
        return f"{text} or {name} in {_NOT_FINITE}"
    if kind == T.StringType() and any_is_text and attribute[0] not in ENVELOPE:
        return f"({text}) or {name} is not null and not (length({name}) ge 0)"
    return text


def _plain(each: Filter, name: str, kind: T.DataType) -> str:
    sign, test = _SIGNS.get(type(each)), _TESTS.get(type(each))
    if sign is not None:
        return _compared(name, sign, each.value, kind)  # type: ignore[attr-defined]
    if isinstance(each, In):
        values = [value for value in each.value if value is not None]
        if values:
            return " or ".join(_compared(name, "=", value, kind) for value in values)
    if test is not None:
        return f"{test}({name}, {_literal(each.value, kind)})"  # type: ignore[attr-defined]
    raise _Different


def _negated(each: Filter, name: str, kind: T.DataType) -> str:
    """Return the negation of a filter, which null does not fulfil."""
    if isinstance(kind, T.DoubleType) or isinstance(each, EqualNullSafe):
        raise _Different
    opposites = {"=": "<>", ">": "<=", ">=": "<", "<": ">=", "<=": ">"}
    sign, test = _SIGNS.get(type(each)), _TESTS.get(type(each))
    if sign is not None:
        return _compared(name, opposites[sign], each.value, kind)  # type: ignore[attr-defined]
    if isinstance(each, In) and each.value and None not in each.value:
        return f"{name} not in ({', '.join(_literal(value, kind) for value in each.value)})"
    if test is not None:
        text = _literal(each.value, kind)  # type: ignore[attr-defined]
        return f"{name} is not null and {test}({name}, {text}) eq false"
    raise _Different


def _compared(name: str, sign: str, value: Any, kind: T.DataType) -> str:
    if not isinstance(kind, T.DoubleType):
        return f"{name} {sign} {_literal(value, kind)}"
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _Different
    if not math.isfinite(value) or abs(value) >= _EXACT:
        raise _Different
    slack = abs(value) * _SLACK + _SLACK
    bounds = {"=": (">=", "<="), ">": (">=",), ">=": (">=",), "<": ("<=",), "<=": ("<=",)}[sign]
    ends = {">=": value - slack, "<=": value + slack}
    return " and ".join(f"{name} {bound} {ends[bound]!r}" for bound in bounds)


def _literal(value: Any, kind: T.DataType) -> str:
    if isinstance(kind, T.BooleanType) and isinstance(value, bool):
        return str(value).lower()
    if isinstance(kind, _WHOLE) and isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if kind == T.StringType() and isinstance(value, str) and not NO_CHARACTER.search(value):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(kind, T.TimestampType) and isinstance(value, datetime) and value.tzinfo:
        return str((value - EPOCH) // (datetime.resolution))
    raise _Different


def _column(path: Sequence[str], schema: T.StructType) -> Column:
    """Return a column, or a member of one. Raises _Different."""
    kind: T.DataType = schema
    for name in path:
        if not isinstance(kind, T.StructType) or name not in kind.names or "`" in name or not name:
            raise _Different
        kind = kind[name].dataType
    if not path or path[0] in ("body", "before"):
        raise _Different
    if path[0] in ENVELOPE:
        return ENVELOPE[path[0]].wire, kind
    if path[0] in STORE_SET or isinstance(kind, T.TimestampType):
        raise _Different
    return ".".join(f"`{name}`" for name in path), kind
