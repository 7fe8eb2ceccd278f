"""Define the types of Spark that have a form in JSON. All others are refused, by column.

`values.py` has the forms, `fitting.py` parses them, and docs/pipeline.md has them as a table. A
type whose text in Spark would not be read back equal has no form.
"""

from collections.abc import Iterable, Iterator

import pyspark.sql.types as T  # noqa: N812

NAMES = (T.StringType, T.IntegralType, T.BooleanType, T.DateType, T.DecimalType, T.TimestampType,
         T.TimestampNTZType)  # fmt: skip
"""Types whose values can name a document, or a member of an object."""
SCALARS = (*NAMES, T.BinaryType, T.DoubleType, T.FloatType, T.NullType)


def check_members(schema: T.StructType, names: Iterable[str]) -> None:
    """Raise ValueError for a column whose type has no form in JSON."""
    for name in names:
        for where, why in _faults(schema[name].dataType, name):
            raise ValueError(f"docstore: column {where!r} {why}; cast it, or leave it out")


def check_name(schema: T.StructType, name: str) -> None:
    """Raise ValueError for a column that cannot name documents."""
    kind = schema[name].dataType
    if isinstance(kind, NAMES):
        return
    said = kind.simpleString()
    raise ValueError(
        f"docstore: column {name!r} is {said}, which cannot be the key of documents; cast it"
    )


def _faults(kind: T.DataType, where: str) -> Iterator[tuple[str, str]]:
    """Yield the place and the fault of each type without a form."""
    if isinstance(kind, T.ArrayType):
        yield from _faults(kind.elementType, f"{where}[]")
    elif isinstance(kind, T.StructType):
        if len(set(kind.names)) < len(kind.names):
            yield where, "has two members of one name"
        for field in kind.fields:
            yield from _faults(field.dataType, f"{where}.{field.name}")
    elif isinstance(kind, T.MapType):
        if not isinstance(kind.keyType, NAMES):
            yield where, f"has keys of {kind.keyType.simpleString()}, which name no members"
        yield from _faults(kind.valueType, f"{where}[]")
    elif not isinstance(kind, SCALARS):
        yield where, f"is {kind.simpleString()}, which has no form in JSON"
