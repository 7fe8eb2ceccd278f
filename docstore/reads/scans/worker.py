"""The scanning process: it reads questions from standard input and writes answers to its output.

    python -m docstore.reads.scans.worker FILE DIRECTORY BYTES

It caches cold slots as columns in the directory, up to that many bytes (`cold_slots.py`).

A question is a line of JSON: a scan as in `request`, with `format` ("arrow" or "ndjson"),
`compression`, `rows`, `after` (a cursor) and `damages` (see `segments.py`), or a search with
`rows`, `after` (a place, or null) and `links` (how many to search), or stored rows with `of` (see
`stored.py`), or what concerns indexes, with `indexes` (see `index_answers.py`). An answer is two
lengths (32 bits each, big endian), a JSON object of the first length, and a payload of the second:
a record batch as an encapsulated message of Arrow's stream format, lines, or for a search an array.
Checksums of rows are not verified here, which would take five times the rest: the node scrubs all
rows in the background (`maintenance/upkeep/repair.py`).

The process ends with its input, so that it does not outlive its node.
"""

import os
import signal
import sqlite3
import sys
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from docstore.errors import BadRequest, DocstoreError, Picklable
from docstore.query import statements
from docstore.query.ordering import Place
from docstore.query.request import INT_MAX, Scan, Spans, scan_of
from docstore.query.scans_columns import COLUMNS, FLAG
from docstore.query.statements import Cursor, Form, Page
from docstore.reads.scans import stored
from docstore.reads.scans.index_answers import IndexAnswers
from docstore.reads.scans.pool import has_arrow

NICENESS = 10
"""Niceness of the process: the node's own process, which serves clients, goes first."""
CACHE_KIB = 16 << 10


class Gone(Picklable):
    """The requested rows were compacted. fields: of the answer, with the error's code."""

    def __init__(self, code: str, **fields: Any) -> None:
        super().__init__(code)
        self.fields = {"error": code, **fields}


class LineReader:
    """Answers in NDJSON, by the standard library's SQLite: for nodes without pyarrow."""

    def __init__(self, path: str) -> None:
        self._connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True, isolation_level=None)

    def close(self) -> None:
        self._connection.close()

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self._connection.execute(sql, tuple(parameters)).fetchall()

    def each(self, sql: str, parameters: Sequence[Any]) -> Generator[tuple[Any, ...], None, None]:
        with closing(self._connection.execute(sql, tuple(parameters))) as cursor:
            yield from cursor

    def head(self, columns: Sequence[str]) -> bytes:
        """Return b"": each line names its columns."""
        return b""

    def read(self, scan: Scan, after: Cursor, rows: int, form: Form) -> Page:
        statement = statements.page(scan, after, rows, form.columns)
        found = self.execute(statement.sql, statement.parameters)
        at = statements.cursor_at(scan, form.columns)
        following = Cursor(*(found[-1][place] for place in at)) if len(found) == rows else None
        if not form.columns:
            return Page(len(found), following)
        lines = [orjson.dumps(_named(form.columns, row, scan)) + b"\n" for row in found]
        return Page(len(found), following, b"".join(lines))

    def found(
        self, scan: Scan, after: Place | None, rows: int, links: int
    ) -> tuple[list[tuple[Any, ...]], Place | None]:
        """Return the next rows of a search, and the place up to which they are complete or None.

        links: number of links to search in the order of links; in another order all are searched.
        """
        assert scan.order is not None
        within, end = statements.bounds(scan), None
        if scan.order.is_by_link:
            first, beyond = within = statements.stretch(scan, after)
            for (link,) in self.execute(statements.LINK_AT, [first, beyond, links - 1]):
                within, end = (first, link + "\x00"), (link, INT_MAX)
        statement = statements.found(scan, scan.order, after, rows, within)
        found = self.execute(statement.sql, statement.parameters)
        return found, found[-1][:-1] if len(found) == rows else end

    def grouped(self, scan: Scan, after: Cursor, page: Page) -> Page:
        assert scan.grouping is not None
        statement = statements.grouped(scan.grouping, scan, after, page.rows)
        try:
            found = self.execute(statement.sql, statement.parameters)
        except sqlite3.OperationalError as error:
            if "integer overflow" not in str(error):
                raise
            raise BadRequest("a sum must fit into 64 bits: cast its member to double") from None
        return page._replace(payload=b"".join(orjson.dumps(row) + b"\n" for row in found))


def _named(columns: Sequence[str], row: tuple[Any, ...], scan: Scan) -> dict[str, Any]:
    found: dict[str, Any] = {"event": row[-1]} if scan.events else {}
    for name, value in zip(columns, row, strict=False):
        column = COLUMNS[name]
        if column.type == FLAG:
            found[name] = bool(value)
        elif name in ("body", "before") and value:
            found[name] = orjson.Fragment(value)
        else:
            found[name] = None if column.empty_is_null and not value else value
    return found


class PageServer:
    """Answers questions, one at a time."""

    def __init__(self, path: str, segments: str = "", segments_bytes: int = 0) -> None:
        self._lines = LineReader(path)
        self._lines.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
        self._lines.execute(statements.SPANS)
        self._indexes = IndexAnswers(
            self._lines.execute, Path(path).with_name("indexes.db"),
            lambda spans: self._fill(self._lines, spans), self._moment_of_indexes,
        )  # fmt: skip
        self._batches: Any = None
        self._path = path
        self._segments_at = (Path(segments), segments_bytes)
        self._segments: Any = None
        self._asked: dict[str, Any] = {}
        self._scan: Scan | None = None
        self._filled: dict[Any, Any] = {}
        """Reader -> the spans in its table, which all pages of a scan share."""

    def answer(self, question: dict[str, Any]) -> tuple[dict[str, Any], bytes | memoryview]:
        if "indexes" in question:
            try:
                return self._indexes.answer(question)
            except Gone as gone:
                return gone.fields, b""
        if "orderBy" in question:
            return self._found(question)
        if "of" in question:
            return self._rows(question)
        form, compression = question.pop("format"), question.pop("compression")
        rows, after = question.pop("rows"), Cursor(*question.pop("after"))
        with_schema, skipped = question.pop("schema"), question.pop("skipped")
        damages = question.pop("damages")
        reader, scan = self._reader(form), self._scan_of(question)
        if self._segments is not None:
            self._segments.damages = damages
        head = reader.head(scan.columns) if with_schema else b""
        try:
            if scan.grouping is None:
                columns = () if skipped else scan.columns
                page = self._page(reader, scan, after, rows, Form(columns, compression))
            else:
                page = self._grouped(scan, after, rows)
        except Gone as gone:
            return gone.fields, b""
        following = list(page.following) if page.following else None
        payload = b"" if skipped else page.payload
        return {"rows": page.rows, "next": following}, head + payload if head else payload

    def _found(self, question: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
        """Answer a search: rows as in `query/ordering.py`, in JSON."""
        rows, after, links = (question.pop(name) for name in ("rows", "after", "links"))
        scan = self._scan_of(question)
        try:
            with self._moment(self._lines, scan, Cursor()):
                found, until = self._lines.found(scan, after, rows, links)
        except Gone as gone:
            return gone.fields, b""
        return {"rows": len(found), "until": until}, orjson.dumps(found)

    def _rows(self, question: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
        asked = stored.asked_of(question)
        try:
            with self._at_one_moment(self._lines, asked.spans):
                _insist_none_gone(self._lines, stored.GONE)
                page = stored.page(self._lines, asked)
        except Gone as gone:
            return gone.fields, b""
        except stored.DamagedSlot as damaged:
            return {"error": "damaged", "slot": damaged.slot}, b""
        return {"rows": page.rows, "next": page.following}, page.block

    def _scan_of(self, question: dict[str, Any]) -> Scan:
        if self._scan is None or question != self._asked:
            self._asked, self._scan = question, scan_of(question)
        return self._scan

    def close(self) -> None:
        self._lines.close()
        if self._batches is not None:
            self._batches.close()

    def _reader(self, form: str) -> Any:
        if form != "arrow":
            return self._lines
        if self._batches is None:
            # Imported late: pyarrow may not be installed.
            from docstore.reads.scans.batches import ArrowReader  # noqa: PLC0415
            from docstore.reads.scans.segments import Segments  # noqa: PLC0415

            directory, bytes_max = self._segments_at
            self._segments = Segments(directory, bytes_max) if bytes_max else None
            self._batches = ArrowReader(self._path, self._segments)
            self._batches.execute(statements.SPANS)
        return self._batches

    def _page(self, reader: Any, scan: Scan, after: Cursor, rows: int, form: Form) -> Page:
        with self._moment(reader, scan, after):
            page: Page = reader.read(scan, after, rows, form)
            return page

    def _grouped(self, scan: Scan, after: Cursor, rows: int) -> Page:
        """Return the partial results of a page; the faster reader finds its extent."""
        page = self._page(self._reader("arrow" if has_arrow() else ""), scan, after, rows, Form(()))
        with self._moment(self._lines, scan, after):
            return self._lines.grouped(scan, after, page)

    @contextmanager
    def _moment(self, reader: Any, scan: Scan, after: Cursor) -> Iterator[None]:
        """Open a transaction on the scan's slots. Raises Gone if requested rows were compacted."""
        with self._at_one_moment(reader, scan.spans):
            _insist_there(reader, scan, after)
            yield

    @contextmanager
    def _moment_of_indexes(self, spans: Spans) -> Iterator[None]:
        """Open a transaction that sees the indexes of rows that it sees, never of later rows."""
        with self._at_one_moment(self._lines, spans, first="SELECT 1 FROM ix.store"):
            _insist_none_gone(self._lines, statements.GONE_FROM_SNAPSHOT)
            yield

    @contextmanager
    def _at_one_moment(self, reader: Any, spans: Spans, first: str = "") -> Iterator[None]:
        """Open a read transaction, with these slots in the table `spans`."""
        self._fill(reader, spans)
        reader.execute("BEGIN")
        try:
            if first:
                reader.execute(first)
            yield
        finally:
            reader.execute("ROLLBACK")

    def _fill(self, reader: Any, spans: Spans) -> None:
        if self._filled.get(reader) != spans:
            self._filled.pop(reader, None)
            reader.execute(statements.CLEAR_SPANS)
            reader.execute(statements.FILL_SPANS, [orjson.dumps(spans).decode()])
            self._filled[reader] = spans


def _insist_there(reader: Any, scan: Scan, after: Cursor) -> None:
    gone = statements.GONE_FROM_LOG if scan.is_log else statements.GONE_FROM_SNAPSHOT
    _insist_none_gone(reader, gone)
    if scan.is_log and after.slot < 0:
        for (slot,) in reader.execute(statements.SHORT):
            raise Gone("incomplete", slot=slot)


def _insist_none_gone(reader: Any, gone: str) -> None:
    for slot, kept, first_us in reader.execute(gone):
        raise Gone("trimmed", slot=slot, kept=kept, firstTimeMicros=first_us)


def serve(pages: PageServer, source: BinaryIO, sink: BinaryIO) -> None:
    with closing(pages):
        _answer_all(pages, source, sink)


def _answer_all(pages: PageServer, source: BinaryIO, sink: BinaryIO) -> None:
    for line in source:
        try:
            fields, payload = pages.answer(orjson.loads(line))
        except DocstoreError as error:
            fields, payload = {"error": error.code, "detail": str(error)}, b""
        except Exception as error:  # noqa: BLE001 - the node passes it on to the caller
            fields = {"error": "failed", "detail": f"{type(error).__name__}: {error}"}
            payload = b""
        head = orjson.dumps(fields)
        sink.write(len(head).to_bytes(4, "big") + len(payload).to_bytes(4, "big") + head)
        sink.write(payload)
        sink.flush()


if __name__ == "__main__":
    os.nice(NICENESS)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # The node handles it and closes the input.
    file, segments, segments_bytes = sys.argv[1:]
    serve(PageServer(file, segments, int(segments_bytes)), sys.stdin.buffer, sys.stdout.buffer)
