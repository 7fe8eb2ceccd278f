"""Pages as Arrow record batches, by the ADBC driver: the columns never become Python values.

Only in a process of its own: the driver brings its own SQLite, and two of them in one process
would undo each other's locks on the file.
"""

from collections.abc import Sequence
from typing import Any

import adbc_driver_sqlite.dbapi as adbc
import pyarrow as pa
import pyarrow.compute as pc

from docstore.scanning.columns import COLUMNS, FLAG, NUMBER, TEXT, Column
from docstore.scanning.statements import Cursor, Statement

TYPES = {TEXT: pa.string(), NUMBER: pa.int64(), FLAG: pa.bool_()}
MAPPED_BYTES = 1 << 30
BATCH_ROWS = "adbc.sqlite.query.batch_rows"
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

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a statement."""
        self._cursor.execute(sql, tuple(parameters) or None)
        return list(self._cursor.fetchall()) if self._cursor.description else []

    def head(self, columns: Sequence[str]) -> bytes:
        """Return the schema as the message that stands before all batches."""
        return bytes(schema_of(columns).serialize())

    def read(
        self, statement: Statement, columns: Sequence[str], at: Sequence[int], compression: str
    ) -> tuple[int, Cursor, memoryview | bytes]:
        """Return how many rows a page has, its cursor (at these columns), and its bytes."""
        self._cursor.adbc_statement.set_options(**{BATCH_ROWS: str(1 << 20)})
        self._cursor.execute(statement.sql, statement.parameters or None)
        table = self._cursor.fetch_arrow_table()
        if not table.num_rows:
            return 0, Cursor(), b""
        last = Cursor(*(table.column(place)[-1].as_py() for place in at))
        if not columns:
            return table.num_rows, last, b""
        arrays = [_column(table.column(n), COLUMNS[name]) for n, name in enumerate(columns)]
        batch = pa.RecordBatch.from_arrays(arrays, schema=schema_of(columns))
        return table.num_rows, last, _serialized(batch, compression)


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


def _column(found: pa.ChunkedArray, column: Column) -> pa.Array:
    array = found.chunk(0) if found.num_chunks == 1 else found.combine_chunks()
    if array.type != TYPES[column.type]:
        array = array.cast(TYPES[column.type])
    if column.empty_is_null:
        nothing = "" if column.type == TEXT else 0
        array = pc.if_else(pc.equal(array, nothing), None, array)
    return array
