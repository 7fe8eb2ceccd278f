"""A schema from a sample of documents: null < boolean < long < double < string."""

import json
from collections.abc import Iterable
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DoubleType,
    LongType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
)

KEYS_MAX = 250
"""An object with more members than that is a map."""
_ORDER: tuple[type[DataType], ...] = (NullType, BooleanType, LongType, DoubleType, StringType)


def schema_of_sample(bodies: Iterable[str]) -> StructType:
    """Return the members of some documents. Types that conflict become a string."""
    found: DataType = StructType([])
    for body in bodies:
        found = _joined(found, _type_of(json.loads(body)))
    assert isinstance(found, StructType)
    fields = [StructField(f.name, _closed(f.dataType)) for f in found.fields]
    return StructType(sorted(fields, key=lambda field: field.name))


def _type_of(value: Any) -> DataType:
    match value:
        case None:
            return NullType()
        case bool():
            return BooleanType()
        case int():
            return LongType() if -(1 << 63) <= value < 1 << 63 else StringType()
        case float():
            return DoubleType()
        case str():
            return StringType()
        case list():
            inner: DataType = NullType()
            for each in value:
                inner = _joined(inner, _type_of(each))
            return ArrayType(inner)
        case _:
            return StructType([StructField(name, _type_of(each)) for name, each in value.items()])


def _joined(one: DataType, other: DataType) -> DataType:
    if isinstance(one, NullType) or isinstance(other, NullType):
        return other if isinstance(one, NullType) else one
    if isinstance(one, StructType) and isinstance(other, StructType):
        fields = {field.name: field.dataType for field in one.fields}
        for field in other.fields:
            before = fields.get(field.name, NullType())
            fields[field.name] = _joined(before, field.dataType)
        return StructType([StructField(name, kind) for name, kind in fields.items()])
    if isinstance(one, ArrayType) and isinstance(other, ArrayType):
        return ArrayType(_joined(one.elementType, other.elementType))
    ranks = [_ORDER.index(type(each)) if type(each) in _ORDER else -1 for each in (one, other)]
    numbers = {_ORDER.index(LongType), _ORDER.index(DoubleType)}
    if ranks[0] == ranks[1] != -1:
        return one
    return DoubleType() if set(ranks) == numbers else StringType()


def _closed(kind: DataType) -> DataType:
    """Replace types that were never seen by string, and large objects by maps."""
    if isinstance(kind, NullType):
        return StringType()
    if isinstance(kind, ArrayType):
        return ArrayType(_closed(kind.elementType))
    if isinstance(kind, StructType):
        if len(kind.fields) > KEYS_MAX:
            values: DataType = NullType()
            for field in kind.fields:
                values = _joined(values, field.dataType)
            return MapType(StringType(), _closed(values))
        return StructType([StructField(f.name, _closed(f.dataType)) for f in kind.fields])
    return kind
