"""The reader of documents, on one SQLite connection, in the thread of the caller.

It returns no unverified row. A row with a damaged key is in the wrong place and must not read as
absent: a quorum of one lagging and one damaged copy would then forget a decided row. The pointer in
`current` and the neighbouring rows are the witnesses.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from docstore.errors import StoreBroken
from docstore.model.document import Row
from docstore.storage import branching, packing, store, tables
from docstore.storage.answers import row_bytes
from docstore.storage.inserts import MANY
from docstore.storage.transactions import FILE_ERRORS, is_unreadable, snapshot
from docstore.storage.writing import node_line

_ALL = (1 << 63) - 1
"""A number greater than any n, version or slot."""


class _Damaged(Exception):
    """A row differs from what was written, or is in another place."""


def answer(connection: sqlite3.Connection, queries: Sequence[store.Query]) -> list[store.Result]:
    """Return the results of `queries`, all from one snapshot."""
    with snapshot(connection):
        return answer_within(connection, queries)


def answer_within(
    connection: sqlite3.Connection, queries: Sequence[store.Query]
) -> list[store.Result]:
    """Return the results of `queries`, from the caller's snapshot."""
    results: list[store.Result] = []
    for query in queries:
        try:
            results.append(_answer(connection, query))
        except _Damaged:
            results.append(store.Corrupt(query.slot))
        except FILE_ERRORS as error:
            if not is_unreadable(error):
                raise
            results.append(store.Corrupt(query.slot))
    return results


def _answer(connection: sqlite3.Connection, query: store.Query) -> list[Row]:
    match query:
        case store.Newest():
            return _newest(connection, query)
        case store.NewestOfMany(asked):
            used = [store.Newest(*each) for each in _used(connection, asked)]
            return [row for each in used for row in _newest(connection, each)]
        case store.Version():
            return _version(connection, query)
        case store.AsOf():
            return _as_of(connection, query)
        case store.History():
            return _history(connection, query)
        case store.Rows():
            return _log(connection, query)
        case store.After():
            return _after(connection, query)
        case store.LastBefore():
            return _last_before(connection, query)
        case store.Tombstones(slot, until, before_us, limit):
            bounds = (slot, until, before_us, limit)
            return [_verified(each) for each in connection.execute(tables.TOMBSTONES, bounds)]
        case store.Expired(before_us, limit, level=3, after=last):
            found = connection.execute(tables.EXPIRED, (before_us, *last, limit))
            return [_verified(each) for each in found]
        case _:
            rows = branching.answer(connection, query)
            _insist(rows is not None)
            return rows or []


def _newest(connection: sqlite3.Connection, query: store.Newest) -> list[Row]:
    key = (query.slot, query.link)
    found = connection.execute(tables.NEWEST, (*key, query.until)).fetchone()
    if found is not None:
        *columns, current_n = found
        [row] = _rows_of(query, [tuple(columns)])
        if row.n == current_n:
            return [row]
        rows = [row]
    else:
        rows = []
    newer = _newer(connection, query, rows[0] if rows else None)
    _insist(newer is None or newer.n > query.until)
    return rows


def _used(
    connection: sqlite3.Connection, asked: Sequence[tuple[int, str, int]]
) -> Iterator[tuple[int, str, int]]:
    """Yield the (slot, link, until) whose link has rows: none in a load of new documents.

    The last few, fewer than a statement takes, are yielded without a look.
    """
    whole = len(asked) - len(asked) % MANY
    for start in range(0, whole, MANY):
        many = asked[start : start + MANY]
        keys = [key for slot, link, _ in many for key in (slot, link)]
        (found,) = connection.execute(tables.USED, keys).fetchone()
        yield from [many[int(place)] for place in found.split(",")] if found else ()
    yield from asked[whole:]


def _version(connection: sqlite3.Connection, query: store.Version) -> list[Row]:
    key = (query.slot, query.link, query.version)
    rows = _rows_of(query, connection.execute(tables.VERSION, key))
    _insist(all(row.version == query.version for row in rows))
    if not rows:
        older = _rows_of(query, connection.execute(tables.HISTORY, (*key, _ALL, 1)))
        newer = _newer(connection, query, older[0] if older else None)
        _insist(newer is None or newer.version > query.version)
    return [row for row in rows if row.n <= query.until]


def _as_of(connection: sqlite3.Connection, query: store.AsOf) -> list[Row]:
    key = (query.slot, query.link, query.until, query.at_us)
    rows = _rows_of(query, connection.execute(tables.AS_OF, key))
    newer = _newer(connection, query, rows[0] if rows else None)
    _insist(newer is None or newer.updated_us > query.at_us or newer.n > query.until)
    return rows


def _history(connection: sqlite3.Connection, query: store.History) -> list[Row]:
    before = _ALL if query.before is None else query.before
    key = (query.slot, query.link, before, query.until, query.limit)
    rows: list[Row] = []
    weight, is_cut = 0, False
    for columns in connection.execute(tables.HISTORY, key):
        [row] = _rows_of(query, [columns])
        weight += row_bytes(row)
        is_cut = bool(rows) and weight > query.bytes_max
        if is_cut:
            break
        rows.append(row)
    newer = _newer(connection, query, rows[0] if rows else None)
    _insist(newer is None or newer.version >= before or newer.n > query.until or not query.limit)
    for row, older in pairwise(rows):
        _insist(older.version < row.version)
        _insist_neighbours(connection, query, older, row)
    if rows and len(rows) < query.limit and not is_cut:
        _insist_neighbours(connection, query, None, rows[-1])
    return rows


_OfLink = store.Newest | store.Version | store.AsOf | store.History


def _newer(connection: sqlite3.Connection, query: _OfLink, row: Row | None) -> Row | None:
    """Return the version after `row` (None: the first), after a check that none is missing."""
    key = (query.slot, query.link)
    after = row.version if row else -1
    rows = _rows_of(query, connection.execute(tables.AFTER_VERSION, (*key, after)))
    if rows:
        _insist_neighbours(connection, query, row, rows[0])
        return rows[0]
    pointer = connection.execute(tables.CURRENT_N, key).fetchone()
    _insist(pointer == ((row.n,) if row else None))
    return None


def _insist_neighbours(
    connection: sqlite3.Connection, query: _OfLink, older: Row | None, newer: Row
) -> None:
    """Raise _Damaged if the link has a row between `older` (None: none) and `newer`.

    Versions mostly grow by one, and then no look-up is needed. Otherwise the index over n, which
    has keys of its own, tells a skipped version from a damaged one. No n is missing, so every n in
    between must lead to a whole row.
    """
    if newer.version == (older.version + 1 if older else 0):
        return
    # There are holes up to `kept`, and the rows that they held do not matter any more.
    above = max(older.n if older else 0, _kept(connection, query.slot))
    between = 0
    for columns in connection.execute(tables.ROWS, (query.slot, above + 1, newer.n - 1)):
        _insist(_verified(columns).link != query.link)
        between += 1
    _insist(between == max(0, newer.n - above - 1))


def _log(connection: sqlite3.Connection, query: store.Rows) -> list[Row]:
    rows: list[Row] = []
    weight = 0
    for columns in connection.execute(tables.ROWS, (query.slot, query.first, query.last)):
        row = _verified(columns)
        _insist(row.slot == query.slot and query.first <= row.n <= query.last)
        _insist(not rows or row.n == rows[-1].n + 1 or row.n <= _kept(connection, query.slot) + 1)
        weight += row_bytes(row)
        if rows and weight > query.bytes_max:
            break
        rows.append(row)
    else:
        if rows and rows[-1].n == query.last and rows[0].n == query.first:
            return rows
        _insist_all_there(connection, query, rows)
    return rows


def _after(connection: sqlite3.Connection, query: store.After) -> list[Row]:
    """Return the next rows of a slot, with holes only up to `kept`."""
    kept = _kept(connection, query.slot)
    rows: list[Row] = []
    weight, above = 0, max(query.after, kept)
    asked = (query.slot, query.after, query.until, query.limit)
    for columns in connection.execute(tables.ROWS_AFTER, asked):
        row = _verified(columns)
        _insist(row.slot == query.slot and query.after < row.n <= query.until)
        if row.n > kept:
            above += 1
            _insist(row.n == above)
        weight += row_bytes(row)
        if rows and weight > query.bytes_max:
            break
        rows.append(row)
    return rows


def _last_before(connection: sqlite3.Connection, query: store.LastBefore) -> list[Row]:
    """Search by bisection: times grow along a slot, and no row is missing above `kept`."""
    low, high = _kept(connection, query.slot), query.until
    found: list[Row] = []
    while low < high:
        middle = (low + high + 1) // 2
        columns = connection.execute(tables.ROWS, (query.slot, middle, middle)).fetchone()
        row = _verified(columns) if columns else None
        if row is not None and row.updated_us < query.before_us:
            low, found = middle, [row]
        else:
            high = middle - 1
    return found


def _insist_all_there(connection: sqlite3.Connection, query: store.Rows, rows: list[Row]) -> None:
    """Raise _Damaged if an answer shorter than its query lacks rows of the slot."""
    kept = _kept(connection, query.slot)
    first = max(query.first, kept + 1)
    last = min(query.last, number(connection, tables.END_BY_POINTERS, query.slot))
    if first <= last:
        _insist(bool(rows) and rows[0].n <= first and rows[-1].n == last)
    else:
        _insist(not rows or rows[-1].n <= kept)


def _kept(connection: sqlite3.Connection, slot: int) -> int:
    record = connection.execute(tables.SLOT, (slot,)).fetchone()
    return record_of(record).kept if record else 0


def number(connection: sqlite3.Connection, sql: str, slot: int) -> int:
    """Return the number that a statement selects for a slot, 0 for none."""
    found: tuple[int | None] | None = connection.execute(sql, (slot,)).fetchone()
    return (found and found[0]) or 0


def recovered(connection: sqlite3.Connection) -> store.Recovered:
    """Return the content that a starting node needs: one seek a slot, however many rows.

    A log that has lost its last rows would be wrong evidence. So the pointers in `current` are
    checked too: one look at each link, 0.1 s for a million of them. A slot with a damaged or
    missing last row is returned as faulty. A damaged record raises StoreBroken: a forgotten promise
    fences no owner, so such a disk must not be used.
    """
    with snapshot(connection):
        line = node_line(connection)
        records: dict[int, store.SlotRecord] = {}
        for columns in connection.execute(tables.SLOTS):
            records[columns[0]] = record_of(columns)
        last = {columns[0]: columns for columns in _last_rows(connection)}
        ends = dict(connection.execute(tables.ENDS_BY_POINTERS).fetchall())
        arrived, in_conflict, cursors = branching.recovered(connection)
    if not all(type(number) is int for number in (*last, *ends, *ends.values())):
        raise StoreBroken("the key of a row is damaged")
    slots = {
        slot: _slot_recovered(
            records.get(slot, store.SlotRecord(slot)), last.get(slot), ends.get(slot)
        )
        for slot in sorted(records.keys() | last.keys() | ends.keys())
    }
    return store.Recovered(
        line.store_id, line.boot, line.configuration, slots, arrived, in_conflict, cursors or {}
    )


def _slot_recovered(
    record: store.SlotRecord, last: tuple[int, ...] | None, end: int | None
) -> store.SlotRecovered:
    """Return a slot, given its last row and the end of its log that the pointers prove."""
    if last is None and end is None:
        return store.SlotRecovered(record, record.kept, 0)
    row = packing.row_of(last) if last else None
    if row is None or row.n != end:
        record = replace(record, status=store.Status.FAULTY)
    return store.SlotRecovered(record, max(end or 0, record.kept), row.updated_us if row else 0)


def _last_rows(connection: sqlite3.Connection) -> Iterator[tuple[int, ...]]:
    """Yield the columns of each slot's last row, from the highest slot downwards."""
    slot = _ALL
    while columns := connection.execute(tables.LAST_ROW_BEFORE_SLOT, (slot,)).fetchone():
        yield columns
        slot = columns[0]


def record_of(columns: tuple[object, ...]) -> store.SlotRecord:
    """Return a slot's record from its columns. Raises StoreBroken when it is damaged."""
    record = packing.record_of(columns)
    if record is None:
        raise StoreBroken(f"the record of slot {columns[0]} is damaged")
    return record


def _rows_of(query: "_OfLink", lines: Iterable[tuple[object, ...]]) -> list[Row]:
    """Return the rows, each checked to be of the wanted link: an index may point elsewhere."""
    rows = [_verified(columns) for columns in lines]
    for row in rows:
        _insist(row.slot == query.slot and row.link == query.link)
    return rows


def _verified(columns: tuple[object, ...]) -> Row:
    row = packing.row_of(columns)
    if row is None:
        raise _Damaged
    return row


def _insist(held: bool) -> None:
    if not held:
        raise _Damaged
