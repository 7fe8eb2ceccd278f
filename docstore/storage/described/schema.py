"""The seven tables of the file of documents.

`history` holds the rows in the order of insertion, found by (slot, link, version) and, as the
slot's log, by (slot, n). Sorting a batch by the first key made inserts four times as fast as random
order. `current` points to the newest row of each link. It serves listings, and is a second witness
against a damaged key in `history`, which alone would make a document look absent.
"""

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

from docstore.model.document import Row

metadata = MetaData()

AFTER = ("after0", "after1", "after2")
"""The parameters of `after`: a position in an order of three columns."""

_AFFINITIES = {int: Integer, bool: Integer, str: Text, bytes: LargeBinary}


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

current = Table(
    "current",
    metadata,
    Column("slot", Integer, primary_key=True),
    Column("link", Text, primary_key=True),
    Column("version", Integer, nullable=False),
    Column("n", Integer, nullable=False),
    Column("deleted", Integer, nullable=False),
    Column("expires_us", Integer, nullable=False),
    sqlite_with_rowid=False,
)

live = current.c.deleted == literal_column("0")
dead = current.c.deleted == literal_column("1")

# Partial, so that only creations and deletions of documents write them, and updates do not:
# see `documents.ADVANCE`.
Index("current_live", current.c.link, sqlite_where=live)
Index("current_dead", current.c.slot, current.c.n, sqlite_where=dead)
expires = live & (current.c.expires_us > literal_column("0"))
Index("current_expiring", current.c.expires_us, sqlite_where=expires)

slots = Table(
    "slots",
    metadata,
    Column("slot", Integer, primary_key=True),
    Column("promised_epoch", Integer, nullable=False),
    Column("promised_owner", Text, nullable=False),
    Column("adopted_epoch", Integer, nullable=False),
    Column("adopted_owner", Text, nullable=False),
    Column("reigns", LargeBinary, nullable=False),
    Column("kept", Integer, nullable=False),
    Column("floor", Integer, nullable=False),
    Column("decided", Integer, nullable=False),
    Column("status", Text, nullable=False),
    Column("checksum", Integer, nullable=False),
)

node = Table(
    "node",
    metadata,
    Column("format", Integer, primary_key=True),
    Column("store_id", Text, nullable=False),
    Column("boot", Integer, nullable=False),
    Column("configuration", LargeBinary),
    Column("schema", Integer, nullable=False),
    Column("checksum", Integer, nullable=False),
)

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

cursors = Table(
    "cursors",
    metadata,
    Column("disk", Text, primary_key=True),
    Column("configuration", Integer, nullable=False),
    Column("n", Integer, nullable=False),
    Column("checksum", Integer, nullable=False),
    sqlite_with_rowid=False,
)

journal = Table(
    "journal",
    metadata,
    Column("key", LargeBinary, nullable=False),
    Column("number", Integer, nullable=False),
    Column("stamp", LargeBinary, nullable=False),
    Column("alone", Integer, nullable=False),
    Column("checksum", Integer, nullable=False),
    Column("written", Integer, nullable=False),
)


def after(*columns: ColumnElement[Any]) -> ColumnElement[bool]:
    """Return the condition that a row comes after the last row of the previous page."""
    return tuple_(*columns) > tuple_(*(bindparam(name, type_=Integer) for name in AFTER))
