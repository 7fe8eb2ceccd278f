"""Define the columns that Spark sees, and the columns of a scan that they are made of.

All other names are members of the documents, parsed from the body: the option `members`
("total double") and `.schema(...)` name them.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyspark.sql.types as T  # noqa: N812

from docstore.model import document_members
from docstore.model.document import EXPIRY
from docstore.model.document_members import Type

TYPES = {Type.TEXT: T.StringType(), Type.NUMBER: T.LongType(), Type.TIME: T.LongType()}


@dataclass(frozen=True, slots=True)
class Envelope:
    """Column that the store sets: its type, and the column of the scan that it is computed from."""

    wire: str
    type: T.DataType
    nullable: bool = False


def _of_store() -> Iterator[tuple[str, Envelope]]:
    for each in document_members.COLUMNS:
        if each.type is Type.TIME:
            yield each.time_name, Envelope(each.name, T.TimestampType())
        yield each.name, Envelope(each.name, TYPES[each.type])


ENVELOPE = {
    **dict(_of_store()),
    EXPIRY.removesuffix("Micros"): Envelope(EXPIRY, T.TimestampType(), nullable=True),
    "slot": Envelope("slot", T.LongType()),
    "seq": Envelope("seq", T.LongType()),
    "deleted": Envelope("deleted", T.BooleanType()),
    "digest": Envelope("digest", T.StringType()),
    "body": Envelope("body", T.StringType(), nullable=True),
    "before": Envelope("before", T.StringType(), nullable=True),
}

TABLE = (
    *(each.time_name if each.type is Type.TIME else each.name for each in document_members.COLUMNS),
    "slot", "seq", "body",
)  # fmt: skip
FEED = (
    "slot", "documentEpoch", "seq", "documentSelfLink", "documentVersion", "documentUpdateAction",
    "documentUpdateTime", "deleted", "body",
)  # fmt: skip


def schema_of(names: Sequence[str]) -> T.StructType:
    """Return the schema of some columns of the store. Raises ValueError."""
    unknown = [name for name in names if name not in ENVELOPE]
    if unknown:
        raise ValueError(
            f"docstore: there is no column {unknown[0]!r}; members of documents are read with"
            " the option members, columns of the store are " + ", ".join(ENVELOPE)
        )
    insist_on_distinct(names)
    return T.StructType(
        [T.StructField(name, ENVELOPE[name].type, ENVELOPE[name].nullable) for name in names]
    )


def insist_on_distinct(names: Sequence[str]) -> None:
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"docstore: the column {twice!r} is named twice; name it once")


def insist_on_own_types(schema: T.StructType) -> None:
    """Raise ValueError for a column of the store with another type than it has."""
    for field in schema.fields:
        own = ENVELOPE[field.name].type if field.name in ENVELOPE else field.dataType
        if field.dataType != own:
            raise _taken(field.name, f"which is {own.simpleString()}")


def insist_on_members(names: Iterable[str]) -> None:
    """Raise ValueError for a member with the name of a column of the store."""
    taken = next((name for name in names if name in ENVELOPE), None)
    if taken is not None:
        raise _taken(taken, "and no member")


def _taken(name: str, what: str) -> ValueError:
    return ValueError(
        f"docstore: {name!r} is a column of the store's own, {what}: "
        "read a member of that name from the column body"
    )


def with_members(own: T.StructType, members: str) -> T.StructType | str:
    """Return columns of the store, followed by members of documents, which are given in DDL."""
    if not members:
        return own
    names = [
        f"{field.name} {field.dataType.simpleString()}{'' if field.nullable else ' NOT NULL'}"
        for field in own.fields
    ]
    return ", ".join([*names, members])  # Only a session can parse DDL, so Spark does.


def wire_columns(schema: T.StructType, corrupt: str) -> list[str]:
    """Return the columns of the scan that a schema needs; all members need the body."""
    insist_on_distinct(schema.names)
    wanted = [
        ENVELOPE[name].wire if name in ENVELOPE else "body"
        for name in schema.names
        if name != corrupt
    ]
    # Even a count needs rows; this is the narrowest column.
    return list(dict.fromkeys(wanted)) or ["documentVersion"]
