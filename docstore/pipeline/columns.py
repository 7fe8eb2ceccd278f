"""The columns that Spark sees, and how they come from those of a scan.

What is none of the names here is a member of the document: the option `members` ("total double")
reads some, parsed from the body, and so does `.schema(...)`.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pyspark.sql.types import (
    BooleanType,
    DataType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from docstore.model import document_members
from docstore.model.document import EXPIRY
from docstore.model.document_members import Type

TYPES = {Type.TEXT: StringType(), Type.NUMBER: LongType(), Type.TIME: LongType()}


@dataclass(frozen=True, slots=True)
class Envelope:
    """A column that the store sets: the scan's column that it is made of, and its type."""

    wire: str
    type: DataType
    nullable: bool = False


def _of_store() -> Iterator[tuple[str, Envelope]]:
    for each in document_members.COLUMNS:
        if each.type is Type.TIME:
            yield each.time_name, Envelope(each.name, TimestampType())
        yield each.name, Envelope(each.name, TYPES[each.type])


ENVELOPE = {
    **dict(_of_store()),
    EXPIRY.removesuffix("Micros"): Envelope(EXPIRY, TimestampType(), nullable=True),
    "slot": Envelope("slot", LongType()),
    "seq": Envelope("seq", LongType()),
    "deleted": Envelope("deleted", BooleanType()),
    "digest": Envelope("digest", StringType()),
    "body": Envelope("body", StringType(), nullable=True),
    "before": Envelope("before", StringType(), nullable=True),
}

TABLE = (
    *(each.time_name if each.type is Type.TIME else each.name for each in document_members.COLUMNS),
    "slot", "seq", "body",
)  # fmt: skip
FEED = (
    "slot", "documentEpoch", "seq", "documentSelfLink", "documentVersion", "documentUpdateAction",
    "documentUpdateTime", "deleted", "body",
)  # fmt: skip


def schema_of(names: Sequence[str]) -> StructType:
    """Return the schema of some columns of the store. Raises ValueError."""
    unknown = [name for name in names if name not in ENVELOPE]
    if unknown:
        raise ValueError(
            f"docstore: there is no column {unknown[0]!r}; members of documents are read with"
            " the option members, columns of the store are " + ", ".join(ENVELOPE)
        )
    insist_on_distinct(names)
    return StructType(
        [StructField(name, ENVELOPE[name].type, ENVELOPE[name].nullable) for name in names]
    )


def insist_on_distinct(names: Sequence[str]) -> None:
    """Refuse two columns of one name. Raises ValueError."""
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"docstore: the column {twice!r} is named twice")


def insist_on_own_types(schema: StructType) -> None:
    """Refuse the store's own columns as anything but what they are. Raises ValueError."""
    for field in schema.fields:
        own = ENVELOPE[field.name].type if field.name in ENVELOPE else field.dataType
        if field.dataType != own:
            raise _taken(field.name, f"which is {own.simpleString()}")


def insist_on_members(names: Iterable[str]) -> None:
    """Refuse members that are called as the store's own columns. Raises ValueError."""
    taken = next((name for name in names if name in ENVELOPE), None)
    if taken is not None:
        raise _taken(taken, "and no member")


def _taken(name: str, what: str) -> ValueError:
    return ValueError(
        f"docstore: {name!r} is a column of the store's own, {what}: a member that is called so is"
        " read from the body"
    )


def with_members(own: StructType, members: str) -> StructType | str:
    """Return columns of the store with members of the documents behind them, given in DDL."""
    if not members:
        return own
    names = [
        f"{field.name} {field.dataType.simpleString()}{'' if field.nullable else ' NOT NULL'}"
        for field in own.fields
    ]
    return ", ".join([*names, members])  # Only a session can parse it: Spark does so by itself.


def wire_columns(schema: StructType, corrupt: str) -> list[str]:
    """Return the scan's columns that a schema needs: the body for whatever is not the store's."""
    insist_on_distinct(schema.names)
    wanted = [
        ENVELOPE[name].wire if name in ENVELOPE else "body"
        for name in schema.names
        if name != corrupt
    ]
    # A count needs rows all the same: the narrowest column there is.
    return list(dict.fromkeys(wanted)) or ["documentVersion"]
