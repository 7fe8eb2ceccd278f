"""A schema from a sample of documents: null < boolean < long < double < string."""

import json
from collections.abc import Iterable
from typing import Any

import pyspark.sql.types as T  # noqa: N812

KEYS_MAX = 250
"""Number of members of an object above which it becomes a map."""
_ORDER: tuple[type[T.DataType], ...] = (
    T.NullType,
    T.BooleanType,
    T.LongType,
    T.DoubleType,
    T.StringType,
)


def schema_of_sample(bodies: Iterable[str]) -> T.StructType:
    """Return the members of some documents. Types that conflict become a string."""
    found: T.DataType = T.StructType([])
    for body in bodies:
        found = _joined(found, _type_of(json.loads(body)))
    assert isinstance(found, T.StructType)
    fields = [T.StructField(f.name, _closed(f.dataType)) for f in found.fields]
    return T.StructType(sorted(fields, key=lambda field: field.name))


def _type_of(value: Any) -> T.DataType:
    match value:
        case None:
            return T.NullType()
        case bool():
            return T.BooleanType()
        case int():
            return T.LongType() if -(1 << 63) <= value < 1 << 63 else T.StringType()
        case float():
            return T.DoubleType()
        case str():
            return T.StringType()
        case list():
            inner: T.DataType = T.NullType()
            for each in value:
                inner = _joined(inner, _type_of(each))
            return T.ArrayType(inner)
        case _:
            return T.StructType(
                [T.StructField(name, _type_of(each)) for name, each in value.items()]
            )


def _joined(one: T.DataType, other: T.DataType) -> T.DataType:
    if isinstance(one, T.NullType) or isinstance(other, T.NullType):
        return other if isinstance(one, T.NullType) else one
    if isinstance(one, T.StructType) and isinstance(other, T.StructType):
        fields = {field.name: field.dataType for field in one.fields}
        for field in other.fields:
            before = fields.get(field.name, T.NullType())
            fields[field.name] = _joined(before, field.dataType)
        return T.StructType([T.StructField(name, kind) for name, kind in fields.items()])
    if isinstance(one, T.ArrayType) and isinstance(other, T.ArrayType):
        return T.ArrayType(_joined(one.elementType, other.elementType))
    ranks = [_ORDER.index(type(each)) if type(each) in _ORDER else -1 for each in (one, other)]
    numbers = {_ORDER.index(T.LongType), _ORDER.index(T.DoubleType)}
    if ranks[0] == ranks[1] != -1:
        return one
    return T.DoubleType() if set(ranks) == numbers else T.StringType()


def _closed(kind: T.DataType) -> T.DataType:
    """Replace types that were never seen by string, and large objects by maps."""
    if isinstance(kind, T.NullType):
        return T.StringType()
    if isinstance(kind, T.ArrayType):
        return T.ArrayType(_closed(kind.elementType))
    if isinstance(kind, T.StructType):
        if len(kind.fields) > KEYS_MAX:
            values: T.DataType = T.NullType()
            for field in kind.fields:
                values = _joined(values, field.dataType)
            return T.MapType(T.StringType(), _closed(values))
        return T.StructType([T.StructField(f.name, _closed(f.dataType)) for f in kind.fields])
    return kind
