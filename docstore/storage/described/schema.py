"""The seven tables of the file of documents.

`history` holds the rows in the order of insertion, found by (slot, link, version) and, as the
slot's log, by (slot, n). Sorting a batch by the first key made inserts four times as fast as random
order. `current` points to the newest row of each link. It serves listings, and is a second witness
against a damaged key in `history`, which alone would make a document look absent.
"""

from collections.abc import Mapping
from typing import Any, get_type_hints

from sqlalchemy import (
    Column,
    ColumnElement,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    bindparam,
    literal_column,
    tuple_,
)
from sqlalchemy.schema import SchemaItem
from sqlalchemy.types import TypeEngine

from docstore.model.document import Row

metadata = MetaData()

AFTER = ("after0", "after1", "after2")
"""The parameters of `after`: a position in an order of three columns."""

_AFFINITIES = {int: Integer, bool: Integer, str: Text, bytes: LargeBinary}


def table(
    metadata: MetaData,
    name: str,
    key: str,
    columns: Mapping[str, type[TypeEngine[Any]]],
    *more: SchemaItem,
    nullable: str = "",
    has_rowid: bool = True,
) -> Table:
    """Return a table. key, nullable: names of columns, separated by blanks. more: its indexes."""
    made: list[Column[Any]] = [
        Column(each, kind, primary_key=each in key.split(), nullable=each in nullable.split())
        for each, kind in columns.items()
    ]
    return Table(name, metadata, *made, *more, sqlite_with_rowid=has_rowid)


def _fields_of_row(*key: str) -> list[Column[Any]]:
    """Return a column for each field of Row, in their order, and one for their checksum."""
    columns: list[Column[Any]] = [
        Column(name, _AFFINITIES[of], primary_key=name in key, nullable=False)
        for name, of in get_type_hints(Row).items()
    ]
    return [*columns, Column("checksum", Integer, nullable=False)]


history = Table(
    "history",
    metadata,
    # `n` is not part of the key: the index below holds it.
    *_fields_of_row("slot", "link", "version"),
    Index("history_n", "slot", "n", unique=True),
    # With rowid on purpose: states are appended at the end of the file, many to a page, and only
    # the two narrow indexes are written at random. Clustered by the key instead, a batch of 25
    # rows over 1,024 slots cost twice the processor time and took a third longer.
)

current = table(metadata, "current", "slot link", {
    "slot": Integer, "link": Text, "version": Integer, "n": Integer, "deleted": Integer,
    "expires_us": Integer,
}, has_rowid=False)  # fmt: skip

live = current.c.deleted == literal_column("0")
dead = current.c.deleted == literal_column("1")

# Partial, so that only creations and deletions of documents write them, and updates do not:
# see `documents.ADVANCE`.
Index("current_live", current.c.link, sqlite_where=live)
Index("current_dead", current.c.slot, current.c.n, sqlite_where=dead)
expires = live & (current.c.expires_us > literal_column("0"))
Index("current_expiring", current.c.expires_us, sqlite_where=expires)

slots = table(metadata, "slots", "slot", {
    "slot": Integer, "promised_epoch": Integer, "promised_owner": Text, "adopted_epoch": Integer,
    "adopted_owner": Text, "reigns": LargeBinary, "kept": Integer, "floor": Integer,
    "decided": Integer, "status": Text, "checksum": Integer,
})  # fmt: skip

node = table(metadata, "node", "format", {
    "format": Integer, "store_id": Text, "boot": Integer, "configuration": LargeBinary,
    "schema": Integer, "checksum": Integer,
}, nullable="configuration")  # fmt: skip

branches = Table(
    "branches",
    metadata,
    *_fields_of_row("n"),
    # The checksum covers the columns before it; the others differ between disks.
    Column("standing", Integer, nullable=False),
    Column("expires_us", Integer, nullable=False),
    Index("branches_of", "slot", "link", "version"),
)

wins = branches.c.standing == literal_column("1")
Index(
    "branches_live",
    branches.c.link,
    sqlite_where=wins & (branches.c.deleted == literal_column("0")),
)
Index(
    "branches_expiring",
    branches.c.expires_us,
    sqlite_where=wins
    & (branches.c.deleted == literal_column("0"))
    & (branches.c.expires_us > literal_column("0")),
)
Index(
    "branches_old", branches.c.updated_us, sqlite_where=branches.c.standing != literal_column("1")
)

cursors = table(metadata, "cursors", "disk", {
    "disk": Text, "configuration": Integer, "n": Integer, "checksum": Integer,
}, has_rowid=False)  # fmt: skip

journal = table(metadata, "journal", "", {
    "key": LargeBinary, "number": Integer, "stamp": LargeBinary, "alone": Integer,
    "checksum": Integer, "written": Integer,
})  # fmt: skip


def after(*columns: ColumnElement[Any]) -> ColumnElement[bool]:
    """Return the condition that a row comes after the last row of the previous page."""
    return tuple_(*columns) > tuple_(*(bindparam(name, type_=Integer) for name in AFTER))
