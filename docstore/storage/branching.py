"""Writes, reads and lists the versions at levels 1 and 2 in the file.

One table holds the versions in the order of arrival, so that all versions after a number are
adjacent in the file; an index finds them by link. Three partial indexes, which leave out most rows,
serve listings and the sweep.
"""

import sqlite3
from collections.abc import Iterable
from typing import assert_never

from sqlalchemy import Integer, bindparam, delete, func, literal_column, select, update
from sqlalchemy.dialects.sqlite import insert

from docstore.model.document import Row, expiry_us
from docstore.storage import packing
from docstore.storage.answers import within_bytes
from docstore.storage.replication_log import (
    Aged,
    Arrivals,
    Arrive,
    BranchQuery,
    BranchWrite,
    Heads,
    Lines,
    Prune,
    SaveCursor,
    Stand,
)
from docstore.storage.schema import AFTER, after, branches, cursors, wins
from docstore.storage.store import Expired
from docstore.storage.tables import count_between, links_between, sql

_ROW = [each for each in branches.columns if each.name not in ("standing", "expires_us")]
_ARRIVE = sql(insert(branches), *(column.name for column in branches.columns))
_n = branches.c.n == bindparam("number", type_=Integer)
_STAND = sql(update(branches).where(_n).values(standing=bindparam("to")), "to", "number")
_PRUNE = sql(delete(branches).where(_n), "number")
_cursor = insert(cursors)
_SAVE_CURSOR = sql(
    _cursor.on_conflict_do_update(
        index_elements=[cursors.c.disk],
        set_={name: _cursor.excluded[name] for name in ("configuration", "n", "checksum")},
    ),
    *(column.name for column in cursors.columns),
)
_of = (branches.c.slot == bindparam("slot"), branches.c.link == bindparam("link"))
_at_most = bindparam("limit", type_=Integer)
_NONE = literal_column("0", Integer)
_HEADS = sql(
    select(*_ROW).where(*_of, branches.c.standing > _NONE).order_by(branches.c.n), "slot", "link"
)
_LINES = sql(
    select(*_ROW)
    .where(*_of)
    .order_by(branches.c.version.desc(), branches.c.n.desc())
    .limit(_at_most)
    .offset(_NONE),
    "slot",
    "link",
    "limit",
)
_ARRIVALS = sql(
    select(*_ROW)
    .where(branches.c.n > bindparam("after"))
    .order_by(branches.c.n)
    .limit(_at_most)
    .offset(_NONE),
    "after",
    "limit",
)
_not_winning = branches.c.standing != literal_column("1")
_AGED = sql(
    select(*_ROW)
    .where(
        _not_winning,
        branches.c.standing == bindparam("standing"),
        branches.c.updated_us < bindparam("before"),
    )
    .order_by(branches.c.updated_us, branches.c.n)
    .limit(_at_most)
    .offset(_NONE),
    "standing",
    "before",
    "limit",
)
_EXPIRED = sql(
    select(*_ROW)
    .where(
        wins,
        branches.c.deleted == _NONE,
        branches.c.expires_us > _NONE,
        branches.c.expires_us < bindparam("before"),
        after(branches.c.expires_us, branches.c.slot, branches.c.n),
    )
    .order_by(branches.c.expires_us, branches.c.slot, branches.c.n)
    .limit(_at_most)
    .offset(_NONE),
    "before",
    *AFTER,
    "limit",
)
_ARRIVED = sql(select(func.max(branches.c.n)))
_IN_CONFLICT = sql(
    select(func.count((branches.c.link).distinct())).where(
        _not_winning, branches.c.standing == literal_column("2")
    )
)
_CURSORS = sql(select(cursors))
_live = (wins, branches.c.deleted == _NONE)
LINKS = links_between(branches, *_live)
COUNT = count_between(branches, *_live)


def write(connection: sqlite3.Connection, wanted: BranchWrite) -> None:
    """Do one write, inside the transaction of its batch."""
    match wanted:
        case Arrive(row, standing):
            about = (packing.row_checksum(row), int(standing), expiry_us(row.state))
            connection.execute(_ARRIVE, (*row, *about))
        case Stand(n, standing):
            connection.execute(_STAND, (int(standing), n))
        case Prune(numbers):
            connection.executemany(_PRUNE, [(n,) for n in numbers])
        case SaveCursor(disk, configuration, n):
            columns = packing.columns_of_cursor(disk, configuration, n)
            connection.execute(_SAVE_CURSOR, columns)
        case _:
            assert_never(wanted)


def answer(connection: sqlite3.Connection, query: BranchQuery | Expired) -> list[Row] | None:
    """Return the result of a query, None when a row is damaged."""
    match query:
        case Heads(slot, link):
            return _rows(connection.execute(_HEADS, (slot, link)))
        case Lines(slot, link, limit):
            return _rows(connection.execute(_LINES, (slot, link, limit)))
        case Expired(before_us, limit, after=last):
            return _rows(connection.execute(_EXPIRED, (before_us, *last, limit)))
        case Aged(standing, before_us, limit):
            return _rows(connection.execute(_AGED, (int(standing), before_us, limit)))
        case Arrivals(after, limit, bytes_max):
            found = _rows(connection.execute(_ARRIVALS, (after, limit)))
            return None if found is None else within_bytes(found, bytes_max)


def recovered(
    connection: sqlite3.Connection,
) -> tuple[int, int, dict[str, tuple[int, int]] | None]:
    """Return the last arrival number, the links in conflict, and the cursors (None: damaged)."""
    (arrived,) = connection.execute(_ARRIVED).fetchone()
    (in_conflict,) = connection.execute(_IN_CONFLICT).fetchone()
    found = [packing.cursor_of(columns) for columns in connection.execute(_CURSORS)]
    known = [each for each in found if each is not None]
    return arrived or 0, in_conflict, dict(known) if len(known) == len(found) else None


def _rows(lines: Iterable[tuple[object, ...]]) -> list[Row] | None:
    rows: list[Row] = []
    for columns in lines:
        row = packing.row_of(columns)
        if row is None:
            return None
        rows.append(row)
    return rows
