"""SQL statements for pages of scans, one per page. Pure.

A page continues after a cursor: (slot, link) in a snapshot, (slot, link, version) with all
versions, (slot, n) in a log; a search continues after a place in its order. The slots and their
bounds are in the table `spans`, so that every page is the same statement, and SQLite walks one
index from the cursor on.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from docstore.query.aggregates import Grouping
from docstore.query.condition import Condition
from docstore.query.ordering import Order, Place, link_of
from docstore.query.ranges import text_behind
from docstore.query.request import Scan
from docstore.query.scans_columns import COLUMNS

SPANS = "CREATE TEMP TABLE spans (slot INTEGER PRIMARY KEY, after INTEGER, until INTEGER)"
CLEAR_SPANS = "DELETE FROM temp.spans"
FILL_SPANS = (
    "INSERT INTO temp.spans SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'),"
    " json_extract(value, '$[2]') FROM json_each(?)"
)
GONE = (
    "SELECT k.slot, s.kept, coalesce((SELECT h.updated_us FROM history h WHERE h.slot = k.slot"
    " AND h.n > s.kept ORDER BY h.n LIMIT 1), 0) FROM temp.spans k JOIN main.slots s"
    " ON s.slot = k.slot WHERE s.kept > {bound} AND k.until > k.after LIMIT 1"
)
GONE_FROM_SNAPSHOT, GONE_FROM_LOG = GONE.format(bound="k.until"), GONE.format(bound="k.after")
"""A slot that was compacted beyond the requested rows: (slot, kept, time of the first row left).

A snapshot needs kept <= until, as compaction removes only superseded rows. A range of the log needs
kept <= after, or must be empty.
"""
VERSIONS_AND_LINKS = (
    "SELECT (SELECT count(*) FROM history WHERE slot = ?1),"
    " (SELECT count(*) FROM current WHERE slot = ?1)"
)
NEWEST_TIMES = (
    "SELECT k.slot, coalesce((SELECT h.updated_us FROM history h WHERE h.slot = k.slot"
    " AND h.n <= k.until ORDER BY h.n DESC LIMIT 1), 0) FROM temp.spans k"
)
"""Time of the last row that a scan sees in each slot."""
LINK_AT = (
    "SELECT link FROM current WHERE deleted = 0 AND link >= ? AND link < ?"
    " ORDER BY link LIMIT 1 OFFSET ?"
)
"""The link of a range of live links that has OFFSET links before it."""
SHORT = (
    "SELECT k.slot FROM temp.spans k WHERE (SELECT count(*) FROM history h WHERE h.slot = k.slot"
    " AND h.n > k.after AND h.n <= k.until) <> k.until - k.after LIMIT 1"
)
"""Slots whose log lacks rows in the requested range."""


SLOT_MAX = 65_535
ENTER, UPDATE, LEAVE = "enter", "update", "leave"
"""Events of a document and a condition: it begins to fulfil it, still does, or no longer does."""


class Cursor(NamedTuple):
    """The last row of the previous page; slot -1 for none."""

    slot: int = -1
    link: str = ""
    position: int = -1
    """Version in a snapshot of all versions, n in a log."""


class Form(NamedTuple):
    """Format of the rows of a page. compression: zstd, lz4 or "" (Arrow only)."""

    columns: Sequence[str]
    compression: str = ""


class Page(NamedTuple):
    """Rows of a page. following: the cursor of the next page, None for no more rows."""

    rows: int
    following: Cursor | None
    payload: bytes | memoryview = b""


class Statement(NamedTuple):
    """SQL with question marks, and its parameters."""

    sql: str
    parameters: tuple[Any, ...]


def page(
    scan: Scan, after: Cursor, rows: int, columns: Sequence[str], last: int = SLOT_MAX
) -> Statement:
    """Return the statement for up to `rows` rows after a cursor, of slots up to `last`.

    Its columns are the requested ones, after them the missing ones of `positions`, and at the end
    the event, if the scan asks for events.
    """
    every = list(dict.fromkeys([*columns, *positions(scan)]))
    chosen = ", ".join(f"{COLUMNS[name].sql} AS c{number}" for number, name in enumerate(every))
    parameters: tuple[Any, ...] = ()
    if scan.events:
        chosen, parameters = f"{chosen}, {_event(scan.where)}", 2 * scan.where.parameters
    return _select(Statement(chosen, parameters), scan, after, rows, last)


def grouped(grouping: Grouping, scan: Scan, after: Cursor, rows: int) -> Statement:
    documents = _select(_values(grouping), scan, after, rows)
    return Statement(grouping.sql(documents.sql), documents.parameters)


def _values(grouping: Grouping) -> Statement:
    values = grouping.values
    chosen = ", ".join(f"{each.sql} AS v{number}" for number, each in enumerate(values)) or "1"
    return Statement(chosen, tuple(path for each in values for path in each.parameters))


def found(
    scan: Scan, order: Order, after: Place | None, rows: int, within: tuple[str, str]
) -> Statement:
    """Return the statement for up to `rows` rows after a place, as in `query/ordering.py`.

    within: range of links to search, the end excluded.
    """
    return _in_order(scan, order, after, rows, _source(scan, Cursor(), within))


def _in_order(
    scan: Scan, order: Order, after: Place | None, rows: int, source: Statement
) -> Statement:
    every = _matching(Statement(order.columns, order.parameters), scan, source)
    behind, parameters = order.behind(after) if after is not None else ("1", ())
    sql = (
        f"SELECT * FROM ({every.sql}) WHERE {behind}"  # noqa: S608 - our own words
        f" ORDER BY {order.terms} LIMIT {int(rows)}"
    )
    return Statement(sql, (*every.parameters, *parameters))


def found_among(scan: Scan, order: Order, after: Place | None, rows: int) -> Statement:
    """Return the statement for up to `rows` rows after a place, of the links in `candidates`."""
    return _in_order(scan, order, after, rows, _AMONG)


def grouped_among(grouping: Grouping, scan: Scan) -> Statement:
    """Return the statement for the partial results of the links in `candidates`."""
    documents = _matching(_values(grouping), scan, _AMONG)
    return Statement(grouping.sql(documents.sql), documents.parameters)


def stretch(scan: Scan, after: Place | None) -> tuple[str, str]:
    """Return the range of links that a search in link order has yet to read, the end excluded."""
    first, beyond = bounds(scan)
    if after is None:
        return first, beyond
    link = link_of(after)
    return max(first, link + "\x00" if scan.latest else link), beyond


def _select(
    chosen: Statement, scan: Scan, after: Cursor, rows: int, last: int = SLOT_MAX
) -> Statement:
    every = _matching(chosen, scan, _source(scan, after, bounds(scan)), last)
    order = "k.slot, h.n" if scan.is_log else "k.slot, h.link, h.version"
    if scan.latest and not scan.is_log:
        order = "k.slot, c.link"
    return every._replace(sql=f"{every.sql} ORDER BY {order} LIMIT {int(rows)}")


def _source(scan: Scan, after: Cursor, within: tuple[str, str]) -> Statement:
    """Return the joins and the condition by which a scan reads rows."""
    if scan.is_log:
        return _log(scan, after, within)
    return _newest(after, within) if scan.latest else _every(after, within)


def _matching(chosen: Statement, scan: Scan, source: Statement, last: int = SLOT_MAX) -> Statement:
    """Return the statement for the chosen columns of each matching row, unsorted."""
    sql, parameters = source
    if not scan.deleted:
        sql += " AND h.deleted = 0"
    if not scan.nested:
        sql += f" AND instr(substr(h.link, {len(scan.prefix) + 1}), '/') = 0"
    where, fulfilling = scan.where.sql, scan.where.parameters
    if scan.events:
        # A version before that is gone may have fulfilled the condition.
        where = f"({where} OR {_fulfilled_before(scan.where, unknown='h.version > 0')})"
        fulfilling *= 2
    sql += f" AND k.slot <= {int(last)} AND {where}"
    sql = f"SELECT {chosen.sql} FROM temp.spans k {sql}"  # noqa: S608 - our own words
    return Statement(sql, (*chosen.parameters, *parameters, *fulfilling))


def _event(condition: Condition) -> str:
    return (
        f"CASE WHEN h.deleted OR NOT coalesce({condition.sql}, 0) THEN '{LEAVE}'"
        f" WHEN {_fulfilled_before(condition, unknown='0')} THEN '{UPDATE}' ELSE '{ENTER}' END"
    )


def _fulfilled_before(condition: Condition, *, unknown: str) -> str:
    """Return SQL that says whether the version before `h` exists and fulfils a condition.

    unknown: SQL for a version before that is not stored.
    """
    before = (
        "SELECT p.* FROM history p WHERE p.slot = h.slot AND p.link = h.link"
        " AND p.version < h.version ORDER BY p.version DESC LIMIT 1"
    )
    # The condition names its row `h`, so the version before takes this name inside.
    return (
        f"coalesce((SELECT h.deleted = 0 AND coalesce({condition.sql}, 0)"  # noqa: S608
        f" FROM ({before}) h), {unknown})"
    )


def sweep(
    scan: Scan, after: Cursor, rows: int, columns: Sequence[str], last: int = SLOT_MAX
) -> Statement:
    """Return the statement for the next rows of a snapshot by link, superseded rows included.

    It walks one index, where `page` looks each document up twice: it suits slots in which most
    documents have one version. Its columns are `swept`. The caller must drop tombstones and
    superseded versions.
    """
    first, beyond = bounds(scan)
    chosen = ", ".join(COLUMNS[name].sql for name in swept(columns))
    sql = (
        f"SELECT {chosen} FROM temp.spans k CROSS JOIN history h ON h.slot = k.slot"  # noqa: S608
        " AND h.link > CASE k.slot WHEN ? THEN ? ELSE ? END AND h.link < ?"
        f" WHERE k.slot >= ? AND k.slot <= {int(last)} AND h.n + 0 <= k.until"
        f" AND instr(substr(h.link, {len(scan.prefix) + 1}), '/') = 0"
        f" ORDER BY k.slot, h.link, h.version LIMIT {int(rows)}"
    )
    return Statement(sql, (after.slot, after.link, _before(first), beyond, after.slot))


def swept(columns: Sequence[str]) -> list[str]:
    """Return the columns of a sweep: the requested ones, and those to find superseded rows."""
    return list(dict.fromkeys([*columns, "slot", "documentSelfLink", "deleted"]))


def positions(scan: Scan) -> tuple[str, str, str]:
    return ("slot", "documentSelfLink", "seq" if scan.is_log else "documentVersion")


def cursor_at(scan: Scan, columns: Sequence[str]) -> list[int]:
    every = list(dict.fromkeys([*columns, *positions(scan)]))
    return [every.index(name) for name in positions(scan)]


def bounds(scan: Scan) -> tuple[str, str]:
    """Return the first link that a scan can find, and the first link after all that it can find."""
    if scan.where.links is not None:
        inside = [link for link in scan.where.links if link.startswith(scan.prefix)]
        return (min(inside), max(inside) + "\x00") if inside else (scan.prefix, scan.prefix)
    narrow = scan.where.prefix.startswith(scan.prefix)
    prefix = scan.where.prefix if narrow else scan.prefix
    return prefix, text_behind(prefix) or "\U0010ffff"


NEWEST = (
    " CROSS JOIN history h ON h.slot = c.slot AND h.link = c.link AND h.version ="
    " CASE WHEN c.n <= k.until THEN c.version ELSE (SELECT max(y.version) FROM history y"
    " WHERE y.slot = c.slot AND y.link = c.link AND y.n + 0 <= k.until) END"
)
"""Join of the newest version up to the cut of a row `c`, with slots `k`."""
_AMONG = Statement(
    "CROSS JOIN temp.candidates x ON x.slot = k.slot"
    f" CROSS JOIN current c ON c.slot = x.slot AND c.link = x.link{NEWEST} WHERE 1",
    (),
)
"""The newest versions up to the cut of the links in `candidates`."""


def _newest(after: Cursor, within: tuple[str, str]) -> Statement:
    """Return the source of each link's newest version up to the cut."""
    first, beyond = within
    source = (
        "CROSS JOIN current c ON c.slot = k.slot"
        f" AND c.link > CASE k.slot WHEN ? THEN ? ELSE ? END AND c.link < ?{NEWEST}"
        " WHERE k.slot >= ?"
    )
    return Statement(source, (after.slot, after.link, _before(first), beyond, after.slot))


def _every(after: Cursor, within: tuple[str, str]) -> Statement:
    first, beyond = within
    source = (
        "CROSS JOIN history h ON h.slot = k.slot"
        " AND h.link >= CASE k.slot WHEN ? THEN ? ELSE ? END AND h.link < ?"
        " WHERE k.slot >= ? AND h.n + 0 <= k.until"
        " AND NOT (h.slot = ? AND h.link = ? AND h.version <= ?)"
    )
    return Statement(source, (
        after.slot, after.link, first, beyond, after.slot, after.slot, after.link, after.position,
    ))  # fmt: skip


def _log(scan: Scan, after: Cursor, within: tuple[str, str]) -> Statement:
    ranges = [(scan.prefix, *within), *((each, each, text_behind(each)) for each in scan.others)]
    inside = " OR ".join(["h.link >= ? AND h.link < ? OR h.link = ?"] * len(ranges))
    source = (
        "CROSS JOIN history h INDEXED BY history_n ON h.slot = k.slot"
        " AND h.n > CASE k.slot WHEN ? THEN ? ELSE k.after END AND h.n <= k.until"
        f" WHERE k.slot >= ? AND ({inside})"
    )
    if scan.latest:
        source += (
            " AND NOT EXISTS (SELECT 1 FROM history y WHERE y.slot = h.slot AND y.link = h.link"
            " AND y.version > h.version AND y.n + 0 <= k.until)"
        )
    bounding: list[str] = []
    for prefix, first, beyond in ranges:
        itself = prefix[:-1] if scan.nested else ""  # No link is empty, so "" matches none.
        bounding += (first, beyond, itself)
    return Statement(source, (after.slot, after.position, after.slot, *bounding))


def _before(link: str) -> str:
    """Return a text smaller than `link`, with no link between them."""
    if not link or link[-1] == "\x00":
        return link[:-1]
    before = ord(link[-1]) - 1
    # Surrogates are not valid characters.
    return link[:-1] + chr(0xD7FF if 0xD800 <= before < 0xE000 else before) + "\U0010ffff"
