"""Writes, reads and lists the versions at levels 1 and 2 in the file.

One table holds the versions in the order of arrival, so that all versions after a number are
adjacent in the file; an index finds them by link. Three partial indexes, which leave out most rows,
serve listings and the sweep.
"""

import sqlite3
from collections.abc import Iterable
from typing import assert_never

from docstore.model.document import Row, expiry_us
from docstore.storage import branch_tables as tables
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
    SetStatus,
)
from docstore.storage.store import Expired


def write(connection: sqlite3.Connection, wanted: BranchWrite) -> None:
    """Do one write, inside the transaction of its batch."""
    match wanted:
        case Arrive(row, standing):
            about = (packing.row_checksum(row), int(standing), expiry_us(row.state))
            connection.execute(tables.ARRIVE, (*row, *about))
        case SetStatus(n, standing):
            connection.execute(tables.STAND, (int(standing), n))
        case Prune(numbers):
            connection.executemany(tables.PRUNE, [(n,) for n in numbers])
        case SaveCursor(disk, configuration, n):
            connection.execute(tables.SAVE_CURSOR, packing.sealed((disk, configuration, n)))
        case _:
            assert_never(wanted)


def answer(connection: sqlite3.Connection, query: BranchQuery | Expired) -> list[Row] | None:
    """Return the result of a query, None when a row is damaged."""
    match query:
        case Heads(slot, link):
            return _rows(connection.execute(tables.HEADS, (slot, link)))
        case Lines(slot, link, limit):
            return _rows(connection.execute(tables.LINES, (slot, link, limit)))
        case Expired(before_us, limit, after=last):
            return _rows(connection.execute(tables.EXPIRED, (before_us, *last, limit)))
        case Aged(standing, before_us, limit):
            return _rows(connection.execute(tables.AGED, (int(standing), before_us, limit)))
        case Arrivals(after, limit, bytes_max):
            found = _rows(connection.execute(tables.ARRIVALS, (after, limit)))
            return None if found is None else within_bytes(found, bytes_max)


def recovered(
    connection: sqlite3.Connection,
) -> tuple[int, int, dict[str, tuple[int, int]] | None]:
    """Return the last arrival number, the links in conflict, and the cursors (None: damaged)."""
    (arrived,) = connection.execute(tables.ARRIVED).fetchone()
    (in_conflict,) = connection.execute(tables.IN_CONFLICT).fetchone()
    found = [packing.line_of(SaveCursor, line) for line in connection.execute(tables.CURSORS)]
    known = {each.disk: (each.configuration, each.n) for each in found if each is not None}
    return arrived or 0, in_conflict, None if None in found else known


def _rows(lines: Iterable[tuple[object, ...]]) -> list[Row] | None:
    rows: list[Row] = []
    for columns in lines:
        row = packing.row_of(columns)
        if row is None:
            return None
        rows.append(row)
    return rows
