"""Which types of Spark's have a form in JSON. Everything else is refused, by its column.

The forms themselves are in `values.py`, the way back in `fitting.py`, both as a table in
docs/pipeline.md. What Spark would spell in a way that is not read back equal has no form here.
"""

from collections.abc import Iterable, Iterator

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegralType,
    MapType,
    NullType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

NAMES = (StringType, IntegralType, BooleanType, DateType, DecimalType, TimestampType,
         TimestampNTZType)  # fmt: skip
"""Types whose values name something: a document, or a member of an object."""
SCALARS = (*NAMES, BinaryType, DoubleType, FloatType, NullType)


def check_members(schema: StructType, names: Iterable[str]) -> None:
    """Refuse columns whose values JSON cannot say. Raises ValueError, naming the column."""
    for name in names:
        for where, why in _faults(schema[name].dataType, name):
            raise ValueError(f"docstore: column {where!r} {why}; cast it, or leave it out")


def check_name(schema: StructType, name: str) -> None:
    """Refuse a column that cannot name documents. Raises ValueError."""
    kind = schema[name].dataType
    if isinstance(kind, NAMES):
        return
    said = kind.simpleString()
    raise ValueError(f"docstore: column {name!r} is {said}, which names no document; cast it")


def _faults(kind: DataType, where: str) -> Iterator[tuple[str, str]]:
    """Yield what has no form, at its place, and why."""
    if isinstance(kind, ArrayType):
        yield from _faults(kind.elementType, f"{where}[]")
    elif isinstance(kind, StructType):
        if len(set(kind.names)) < len(kind.names):
            yield where, "has two members of one name"
        for field in kind.fields:
            yield from _faults(field.dataType, f"{where}.{field.name}")
    elif isinstance(kind, MapType):
        if not isinstance(kind.keyType, NAMES):
            yield where, f"has keys of {kind.keyType.simpleString()}, which name no members"
        yield from _faults(kind.valueType, f"{where}[]")
    elif not isinstance(kind, SCALARS):
        yield where, f"is {kind.simpleString()}, which has no form in JSON"
