"""Pages as Arrow record batches, by the ADBC driver: the columns never become Python values.

Only in a process of its own: the driver brings its own SQLite, and two of them in one process
would undo each other's locks on the file.
"""

from collections.abc import Sequence
from typing import Any

import adbc_driver_sqlite.dbapi as adbc
import pyarrow as pa
import pyarrow.compute as pc

from docstore.scanning import statements
from docstore.scanning.columns import COLUMNS, FLAG, NUMBER, TEXT, Column
from docstore.scanning.page import Form, Page
from docstore.scanning.request import EVERYTHING, Scan
from docstore.scanning.statements import Cursor, Statement

TYPES = {TEXT: pa.string(), NUMBER: pa.int64(), FLAG: pa.bool_()}
MAPPED_BYTES = 1 << 30
BATCH_ROWS = "adbc.sqlite.query.batch_rows"
SWEPT_VERSIONS = 1.5
"""Up to so many versions of a document, reading all is cheaper than looking the newest up."""
END_OF_STREAM = b"\xff\xff\xff\xff\x00\x00\x00\x00"


def schema_of(columns: Sequence[str]) -> pa.Schema:
    """Return the schema of a scan."""
    return pa.schema(
        [
            pa.field(name, TYPES[COLUMNS[name].type], nullable=COLUMNS[name].empty_is_null)
            for name in columns
        ]
    )


class Batches:
    """One connection that answers in record batches."""

    def __init__(self, path: str) -> None:
        self._connection = adbc.connect(f"file:{path}?mode=ro", autocommit=True)
        self._cursor = self._connection.cursor()
        # An error of the disk in mapped memory ends this process, and the node says: ask again.
        self.execute(f"PRAGMA mmap_size = {MAPPED_BYTES}")

    def close(self) -> None:
        """Close the file."""
        self._cursor.close()
        self._connection.close()

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a statement."""
        self._cursor.execute(sql, tuple(parameters) or None)
        return list(self._cursor.fetchall()) if self._cursor.description else []

    def head(self, columns: Sequence[str]) -> bytes:
        """Return the schema as the message that stands before all batches."""
        return bytes(schema_of(columns).serialize())

    def read(self, scan: Scan, after: Cursor, rows: int, form: Form) -> Page:
        """Return the next page of a scan."""
        page = self._sweep(scan, after, rows, form) if self._is_swept(scan, after) else None
        if page is not None:
            return page
        table = self._table(statements.page(scan, after, rows, form.columns))
        following = None
        if table.num_rows == rows:
            at = statements.cursor_at(scan, form.columns)
            following = Cursor(*(table.column(place)[-1].as_py() for place in at))
        return Page(table.num_rows, following, _payload(table, form))

    def _table(self, statement: Statement) -> pa.Table:
        self._cursor.adbc_statement.set_options(**{BATCH_ROWS: str(1 << 20)})
        self._cursor.execute(statement.sql, statement.parameters or None)
        return self._cursor.fetch_arrow_table()

    def _is_swept(self, scan: Scan, after: Cursor) -> bool:
        """Say whether most documents have one version, where the page begins."""
        if scan.is_log or not scan.latest or scan.where is not EVERYTHING:
            return False
        slot = max(after.slot, min((slot for slot, _, _ in scan.spans), default=0))
        [(versions, links)] = self.execute(statements.VERSIONS_AND_LINKS, [slot])
        return bool(versions <= SWEPT_VERSIONS * links)

    def _sweep(self, scan: Scan, after: Cursor, rows: int, form: Form) -> Page | None:
        """Return the newest of the next rows, without tombstones; None if all have one link."""
        table = self._table(statements.sweep(scan, after, rows, form.columns))
        if not table.num_rows:
            return Page(0, None)
        at = {name: number for number, name in enumerate(statements.swept(form.columns))}
        links = _whole(table.column(at["documentSelfLink"]))
        is_newest = pc.not_equal(links.slice(0, len(links) - 1), links.slice(1))
        following = None
        if table.num_rows == rows:
            # Of the last document there may be more: the next page begins with it.
            last = pc.max(pc.indices_nonzero(is_newest)).as_py()
            if last is None:
                return None
            following = Cursor(table.column(at["slot"])[last].as_py(), links[last].as_py())
            table = table.slice(0, rows - 1)
        else:
            is_newest = pa.concat_arrays([is_newest, pa.array([True])])
        if not scan.deleted:
            is_newest = pc.and_(is_newest, pc.equal(_whole(table.column(at["deleted"])), 0))
        if not pc.all(is_newest).as_py():
            table = table.filter(is_newest)
        return Page(table.num_rows, following, _payload(table, form))


def _payload(table: pa.Table, form: Form) -> memoryview | bytes:
    """Return the first columns of a table as a batch in the form that was asked for."""
    if not table.num_rows or not form.columns:
        return b""
    arrays = [_column(table.column(n), COLUMNS[name]) for n, name in enumerate(form.columns)]
    batch = pa.RecordBatch.from_arrays(arrays, schema=schema_of(form.columns))
    return _serialized(batch, form.compression)


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


def _column(found: pa.ChunkedArray, column: Column) -> pa.Array:
    array = _whole(found)
    if array.type != TYPES[column.type]:
        array = array.cast(TYPES[column.type])
    if column.empty_is_null:
        nothing = "" if column.type == TEXT else 0
        array = pc.if_else(pc.equal(array, nothing), None, array)
    return array
