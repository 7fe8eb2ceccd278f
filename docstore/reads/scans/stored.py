"""Pages of rows for a backup, with all their columns, each verified by its checksum.

Rows come from the logs of some slots in the order of (slot, n), or are versions of levels 1 and 2
in the order of (slot, link, version, arrival).
"""

from collections import defaultdict
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from docstore.errors import BadRequest, Picklable
from docstore.model.document import Row
from docstore.model.settings import quoted
from docstore.query.request import Spans, spans_of
from docstore.reads.blocks import Block, Branch, LogChunk, pack_block
from docstore.storage import packing
from docstore.storage.store import SlotRecord

LOG, BRANCHES = "log", "branches"
ROWS_MAX = 8192
BYTES_MAX = 4 << 20
"""Bytes of states after which a page ends."""

COLUMNS = len(Row._fields) + 1
"""Number of the columns of a row and its checksum."""
_FIELDS = ", ".join(Row._fields)
_LOG = (
    f"SELECT {_FIELDS}, checksum FROM (SELECT h.* FROM temp.spans k"  # noqa: S608 - our own words
    " CROSS JOIN history h INDEXED BY history_n ON h.slot = k.slot"
    " AND h.n > CASE k.slot WHEN ?1 THEN ?2 ELSE k.after END AND h.n <= k.until"
    " WHERE k.slot >= ?1 ORDER BY k.slot, h.n)"
)
_BRANCHES = (
    f"SELECT {_FIELDS}, checksum, standing FROM (SELECT b.* FROM temp.spans k"  # noqa: S608
    " CROSS JOIN branches b INDEXED BY branches_of ON b.slot = k.slot"
    " WHERE k.slot >= ?1 AND (b.slot, b.link, b.version, b.n) > (?1, ?2, ?3, ?4)"
    " ORDER BY b.slot, b.link, b.version, b.n)"
)
_RECORDS = (
    "SELECT s.* FROM temp.spans k CROSS JOIN main.slots s ON s.slot = k.slot WHERE k.slot >= ?1"
)
_HELD = "SELECT count(*) FROM history INDEXED BY history_n WHERE slot = ? AND n <= ?"
GONE = (
    "SELECT k.slot, s.kept, coalesce((SELECT h.updated_us FROM history h WHERE h.slot = k.slot"
    " AND h.n > s.kept ORDER BY h.n LIMIT 1), 0) FROM temp.spans k JOIN main.slots s"
    " ON s.slot = k.slot WHERE s.kept > CASE k.after WHEN 0 THEN k.until ELSE k.after END"
    " AND k.until > k.after LIMIT 1"
)
"""A slot that was compacted beyond the requested rows, as in `query/statements.py`. A slot that is
read from its beginning may lack the superseded rows up to the cut."""
START: dict[str, list[Any]] = {LOG: [-1, -1], BRANCHES: [-1, "", -1, -1]}


class RowRequest(NamedTuple):
    """Request of a page. spans: (slot, after, until). after: the cursor. of: LOG or BRANCHES."""

    of: str
    spans: Spans
    after: Sequence[Any]
    rows: int


class DamagedSlot(Picklable):
    """A row or the record of a slot fails its checksum."""

    def __init__(self, slot: int) -> None:
        super().__init__(f"slot {slot}")
        self.slot = slot


class RowSource(Protocol):
    """A connection to the file, with the requested slots in its table `spans`."""

    def each(self, sql: str, parameters: Sequence[Any]) -> Generator[tuple[Any, ...], None, None]:
        """Yield the rows of a statement, one by one."""


@dataclass(frozen=True, slots=True)
class RowPage:
    """Rows as a block. following: cursor of the next page, None at the end."""

    block: bytes
    rows: int
    following: list[Any] | None


def asked_of(question: dict[str, Any]) -> RowRequest:
    of, after = question.get("of", LOG), question.get("after")
    if of not in START:
        raise BadRequest(f"`of` must be one of {', '.join(START)}; got {quoted(of)}")
    after = START[of] if after is None else after
    shapes = [type(each) for each in START[of]]
    if not isinstance(after, list) or [type(each) for each in after] != shapes:
        raise BadRequest("`after` must be the member `next` of the previous page, unchanged")
    rows = question.get("rows", ROWS_MAX)
    if type(rows) is not int or not 0 < rows <= ROWS_MAX:
        raise BadRequest(f"`rows` must be a whole number from 1 to {ROWS_MAX}; got {quoted(rows)}")
    unknown = sorted(question.keys() - {"of", "after", "rows", "ranges"})
    if unknown:
        raise BadRequest(
            f"a member must be `of`, `after`, `rows` or `ranges`; got {quoted(unknown[0])}"
        )
    spans = spans_of(question.get("ranges"), 3)
    if not spans:
        raise BadRequest("`ranges` must name at least one slot; got none")
    return RowRequest(of, spans, after, rows)


def page(reader: RowSource, asked: RowRequest) -> RowPage:
    """Return the next rows. Raises DamagedSlot."""
    return _of_log(reader, asked) if asked.of == LOG else _of_branches(reader, asked)


def _of_log(reader: RowSource, asked: RowRequest) -> RowPage:
    found, is_end = _taken(reader, _LOG, asked)
    rows: dict[int, list[Row]] = {}
    for row, _ in found:
        rows.setdefault(row.slot, []).append(row)
    first, last = asked.after[0], asked.spans[-1][0] if is_end else found[-1][0].slot
    records = _records(reader, first)
    stretches = [
        _stretch(reader, records[slot], slot, rows.get(slot, ()))
        for slot, _, _ in asked.spans
        if first <= slot <= last
    ]
    following = None if is_end else [last, found[-1][0].n]
    return RowPage(pack_block(Block(log=stretches)), len(found), following)


def _stretch(reader: RowSource, record: SlotRecord, slot: int, rows: Sequence[Row]) -> LogChunk:
    held = 0
    if record.kept:
        with closing(reader.each(_HELD, [slot, record.kept])) as lines:
            [(held,)] = lines
    return LogChunk(slot, record.kept, record.floor, held, rows)


def _of_branches(reader: RowSource, asked: RowRequest) -> RowPage:
    found, is_end = _taken(reader, _BRANCHES, asked)
    branches = [Branch(row, standing) for row, [standing] in found]
    following = None
    if not is_end:
        last = branches[-1].row
        following = [last.slot, last.link, last.version, last.n]
    return RowPage(pack_block(Block(branches=branches)), len(found), following)


def _taken(
    reader: RowSource, sql: str, asked: RowRequest
) -> tuple[list[tuple[Row, list[Any]]], bool]:
    taken: list[tuple[Row, list[Any]]] = []
    size = 0
    with closing(reader.each(sql, asked.after)) as lines:
        for columns in lines:
            row = packing.row_of(columns[:COLUMNS])
            if row is None:
                raise DamagedSlot(columns[0])
            taken.append((row, list(columns[COLUMNS:])))
            size += len(row.state)
            if len(taken) >= asked.rows or size >= BYTES_MAX:
                return taken, False
    return taken, True


def _records(reader: RowSource, first: int) -> Mapping[int, SlotRecord]:
    """Return slot -> its record; that of an empty slot where the disk has none."""
    records: defaultdict[int, SlotRecord] = defaultdict(lambda: SlotRecord(-1))
    with closing(reader.each(_RECORDS, [first])) as lines:
        for columns in lines:
            record = packing.record_of(columns)
            if record is None:
                raise DamagedSlot(columns[0])
            records[record.slot] = record
    return records
