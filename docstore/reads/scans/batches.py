"""Pages as Arrow record batches, by the ADBC driver: the columns never become Python values.

It must run in a process of its own: the driver brings its own SQLite, and two SQLite libraries in
one process drop each other's locks on the file.
"""

import time
from collections.abc import Sequence
from typing import Any

import adbc_driver_sqlite.dbapi as adbc
import pyarrow as pa
import pyarrow.compute as pc

from docstore.query import statements
from docstore.query.request import EVERYTHING, Scan
from docstore.query.scans_columns import COLUMNS, FLAG, NUMBER, TEXT, ScanColumn
from docstore.query.statements import SLOT_MAX, Cursor, Form, Page, Statement
from docstore.reads.scans.cold_slots import COLUMNS as OF_SEGMENTS
from docstore.reads.scans.cold_slots import ColdSlots, Span, behind_slot, is_of_segments
from docstore.reads.scans.segments import Segments

TYPES = {TEXT: pa.string(), NUMBER: pa.int64(), FLAG: pa.bool_()}
MAPPED_BYTES = 1 << 30
BATCH_ROWS = "adbc.sqlite.query.batch_rows"
SWEPT_VERSIONS = 1.5
"""Average versions of a document up to which reading all is cheaper than finding the newest."""
REST_US = 10_000_000
"""Microseconds since the newest row after which a slot is cold."""
PAGES_AT_ONCE = 8
"""Maximum pages of a slot that is read as a whole: a larger slot would take too much memory."""
END_OF_STREAM = b"\xff\xff\xff\xff\x00\x00\x00\x00"


def schema_of(columns: Sequence[str]) -> pa.Schema:
    return pa.schema(
        [
            pa.field(name, TYPES[COLUMNS[name].type], nullable=COLUMNS[name].empty_is_null)
            for name in columns
        ]
    )


class ArrowReader:
    """A connection that answers in record batches. segments: the cache, None for no cache."""

    def __init__(self, path: str, segments: Segments | None = None) -> None:
        self._cold_slots = ColdSlots(segments, self) if segments is not None else None
        self._newest_us: tuple[Any, dict[int, int]] = (None, {})
        self._connection = adbc.connect(f"file:{path}?mode=ro", autocommit=True)
        self._cursor = self._connection.cursor()
        # A disk error in mapped memory kills this process; the node then answers "ask again".
        self.execute(f"PRAGMA mmap_size = {MAPPED_BYTES}")

    def close(self) -> None:
        self._cursor.close()
        self._connection.close()

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        self._cursor.execute(sql, tuple(parameters) or None)
        return list(self._cursor.fetchall()) if self._cursor.description else []

    def head(self, columns: Sequence[str]) -> bytes:
        """Return the schema as the message before all batches."""
        return bytes(schema_of(columns).serialize())

    def read(self, scan: Scan, after: Cursor, rows: int, form: Form) -> Page:
        if self._cold_slots is None or not is_of_segments(scan):
            return self._from_file(scan, after, rows, form)
        cutting = self._cold_slots.page(scan, after, rows, form.columns)
        if cutting is not None:
            payload = _joined(cutting.pieces, form) if cutting.rows else b""
            return Page(cutting.rows, cutting.following, payload)
        last = self._cold_slots.last_written(scan, after)
        page = self._from_file(scan, after, rows, form, last)
        if page.following is None and last < scan.spans[-1][0]:
            return page._replace(following=behind_slot(last))
        return page

    def is_at_rest(self, scan: Scan, slot: int) -> bool:
        if self._newest_us[0] is not scan.spans:
            self._newest_us = (scan.spans, dict(self.execute(statements.NEWEST_TIMES)))
        return self._newest_us[1][slot] < time.time_ns() // 1000 - REST_US

    def whole(self, scan: Scan, run: Sequence[Span], rows: int) -> dict[int, pa.RecordBatch]:
        first, last = run[0][0], run[-1][0]
        versions, links = self._extent(first)
        if versions > PAGES_AT_ONCE * rows:
            return {}
        all_of_it = (scan, behind_slot(first - 1), sum(n for _, n in run) + 1, OF_SEGMENTS, last)
        found = self._sweep(*all_of_it) if versions <= SWEPT_VERSIONS * links else None
        table = found[0] if found else self._table(statements.page(*all_of_it))
        batch = _batch(table, OF_SEGMENTS)
        counted = pc.value_counts(batch["slot"]).to_pylist()
        counts = {each["values"]: each["counts"] for each in counted}
        slots, at = {}, 0
        for slot, _ in run:
            count = counts.get(slot, 0)
            slots[slot] = batch.slice(at, count)
            at += count
        return slots

    def _from_file(
        self, scan: Scan, after: Cursor, rows: int, form: Form, last: int = SLOT_MAX
    ) -> Page:
        columns = form.columns
        found = (
            self._sweep(scan, after, rows, columns, last) if self._is_swept(scan, after) else None
        )
        if found is not None:
            table, following = found
            return Page(table.num_rows, following, _payload(table, form))
        table = self._table(statements.page(scan, after, rows, columns, last))
        following = None
        if table.num_rows == rows:
            at = statements.cursor_at(scan, columns)
            following = Cursor(*(table.column(place)[-1].as_py() for place in at))
        return Page(table.num_rows, following, _payload(table, form))

    def _table(self, statement: Statement) -> pa.Table:
        self._cursor.adbc_statement.set_options(**{BATCH_ROWS: str(1 << 20)})
        self._cursor.execute(statement.sql, statement.parameters or None)
        return self._cursor.fetch_arrow_table()

    def _is_swept(self, scan: Scan, after: Cursor) -> bool:
        """Say whether most documents of the page's first slot have one version."""
        if scan.is_log or not scan.latest or scan.where is not EVERYTHING:
            return False
        slot = max(after.slot, min((slot for slot, _, _ in scan.spans), default=0))
        versions, links = self._extent(slot)
        return versions <= SWEPT_VERSIONS * links

    def _extent(self, slot: int) -> tuple[int, int]:
        [(versions, links)] = self.execute(statements.VERSIONS_AND_LINKS, [slot])
        return versions, links

    def _sweep(
        self, scan: Scan, after: Cursor, rows: int, columns: Sequence[str], last: int = SLOT_MAX
    ) -> tuple[pa.Table, Cursor | None] | None:
        """Return the newest versions of the next rows; None if all rows are of one link."""
        table = self._table(statements.sweep(scan, after, rows, columns, last))
        if not table.num_rows:
            return table, None
        at = {name: number for number, name in enumerate(statements.swept(columns))}
        links = _whole(table.column(at["documentSelfLink"]))
        is_newest = pc.not_equal(links.slice(0, len(links) - 1), links.slice(1))
        following = None
        if table.num_rows == rows:
            # The last document may have more versions: the next page begins with it.
            end = pc.max(pc.indices_nonzero(is_newest)).as_py()
            if end is None:
                return None
            following = Cursor(table.column(at["slot"])[end].as_py(), links[end].as_py())
            table = table.slice(0, rows - 1)
        else:
            is_newest = pa.concat_arrays([is_newest, pa.array([True])])
        if not scan.deleted:
            is_newest = pc.and_(is_newest, pc.equal(_whole(table.column(at["deleted"])), 0))
        if not pc.all(is_newest).as_py():
            table = table.filter(is_newest)
        return table, following


def _payload(table: pa.Table, form: Form) -> memoryview | bytes:
    if not table.num_rows or not form.columns:
        return b""
    return _serialized(_batch(table, form.columns), form.compression)


def _joined(pieces: Sequence[pa.RecordBatch], form: Form) -> memoryview | bytes:
    if not form.columns:
        return b""
    [batch] = pa.Table.from_batches(pieces).combine_chunks().to_batches()
    return _serialized(batch, form.compression)


def _batch(table: pa.Table, columns: Sequence[str]) -> pa.RecordBatch:
    """Return the first columns of a table, with the types of the scan's schema."""
    schema = schema_of(columns)
    if not table.num_rows:
        return pa.RecordBatch.from_pylist([], schema=schema)
    arrays = [_column(table.column(n), COLUMNS[name]) for n, name in enumerate(columns)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _serialized(batch: pa.RecordBatch, compression: str) -> memoryview:
    """Return the batch as one encapsulated message, without its schema."""
    if not compression:
        return memoryview(batch.serialize())
    options = pa.ipc.IpcWriteOptions(compression=compression)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
        writer.write_batch(batch)
    written = memoryview(sink.getvalue())
    return written[batch.schema.serialize().size : -len(END_OF_STREAM)]


def _whole(found: pa.ChunkedArray) -> pa.Array:
    return found.chunk(0) if found.num_chunks == 1 else found.combine_chunks()


def _column(found: pa.ChunkedArray, column: ScanColumn) -> pa.Array:
    array = _whole(found)
    if array.type != TYPES[column.type]:
        array = array.cast(TYPES[column.type])
    if column.empty_is_null:
        nothing = "" if column.type == TEXT else 0
        array = pc.if_else(pc.equal(array, nothing), None, array)
    return array
