"""Questions about indexes, in a scanning process.

follow    index the rows up to a cut (`following.py`)
find      the next rows of a search by an index (`indexed.py`), or why no index has them
total     aggregates of the documents that an index finds, or nothing
"""

import sqlite3
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson

from docstore.query import statements
from docstore.query.ordering import Order
from docstore.query.request import Scan, Spans, scan_of, spans_of
from docstore.reads.scans.following import NEWEST, Execute, IndexFile
from docstore.reads.scans.indexed import TEMPORARY, Chosen, IndexSearch, choose

_LIVE = (
    "SELECT count(*) FROM (SELECT 1 FROM current c INDEXED BY current_live WHERE c.deleted = 0"
    " AND c.link >= ? AND c.link < ? AND c.slot IN (SELECT slot FROM temp.spans) LIMIT ?)"
)

Answer = tuple[dict[str, Any], bytes]


class IndexAnswers:
    """Answers the questions of a node about indexes."""

    def __init__(
        self,
        execute: Execute,
        path: Path,
        fill: Callable[[Spans], None],
        moment: Callable[[Spans], AbstractContextManager[None]],
    ) -> None:
        """path: of the file of indexes. fill: fills the table `spans`.

        moment: opens a transaction on some slots that sees indexes of rows that it sees, never of
        later rows. Raises an error of the caller if they were compacted.
        """
        self._execute = execute
        self._fill = fill
        self._moment = moment
        self._file = IndexFile(execute, path)
        self._cut: tuple[Any, Spans] = ((), ())
        """The slots of the last question, as they came and checked: most questions have these."""
        for statement in (*TEMPORARY, NEWEST):
            execute(statement)

    def answer(self, question: dict[str, Any]) -> Answer:
        kind, store = question.pop("indexes"), question.pop("store")
        if kind == "follow":
            return self._follow(question, store), b""
        try:
            if not self._file.attach(store):
                return self._without(question, "no index is built yet")
            return self._found(question) if kind == "find" else self._total(question)
        except sqlite3.DatabaseError as error:
            self._file.detach()
            return self._without(question, f"the file of indexes cannot be read: {error}")

    def _follow(self, question: dict[str, Any], store: list[Any]) -> dict[str, Any]:
        self._fill(spans_of(question["cut"], 2))
        try:
            self._file.attach(store, creating=True)
            how = (question[each] for each in ("wanted", "held", "sure"))
            return self._file.follow(store, *how)
        except sqlite3.DatabaseError as error:
            self._file.detach()
            if not isinstance(error, sqlite3.OperationalError):  # Not the disk, but the file.
                self._file.delete()
            return {"late": [slot for slot, _ in question["cut"]], "why": str(error), "built": []}

    def _found(self, question: dict[str, Any]) -> Answer:
        rows, after, links, most = (question[each] for each in ("rows", "after", "links", "most"))
        scan = self._scan_of(question)
        assert scan.order is not None
        with self._moment(scan.spans):
            chosen = choose(self._execute, scan, scan.order, self._file.tables(scan.prefix))
            if chosen.plan is None:
                return self._scanned(scan, chosen, most)
            found = IndexSearch(self._execute, scan, scan.order, chosen).found(after, rows, links)
        fields = {
            "rows": len(found.rows), "until": found.until, "index": chosen.plan.index.name,
            "looked": found.looked, "changed": found.changed, "why": "",
        }  # fmt: skip
        return fields, orjson.dumps(found.rows)

    def _without(self, question: dict[str, Any], why: str) -> Answer:
        """Answer without an index."""
        scan = self._scan_of(question)
        self._fill(scan.spans)
        return self._scanned(scan, Chosen(None, why=why), question.get("most", 0))

    def _scanned(self, scan: Scan, chosen: Chosen, most: int) -> Answer:
        """Answer how many documents a scan would look at, up to a number."""
        [(live,)] = self._execute(_LIVE, (*statements.bounds(scan), most))
        fields = {"index": "", "why": chosen.why, "looked": live, "fits": chosen.fits, "rows": 0}
        return fields, b""

    def _total(self, question: dict[str, Any]) -> Answer:
        scan = self._scan_of(question)
        assert scan.grouping is not None
        with self._moment(scan.spans):
            tables = self._file.tables(scan.prefix)
            chosen = choose(self._execute, scan, Order(), tables, is_whole=True)
            if chosen.plan is None:
                return self._scanned(scan, chosen, 0)
            looked = IndexSearch(self._execute, scan, Order(), chosen).propose_every()
            statement = statements.grouped_among(scan.grouping, scan)
            rows = self._execute(statement.sql, statement.parameters)
        fields = {"index": chosen.plan.index.name, "looked": looked, "rows": len(rows)}
        return fields, b"".join(orjson.dumps(row) + b"\n" for row in rows)

    def _scan_of(self, question: dict[str, Any]) -> Scan:
        if question["cut"] != self._cut[0]:
            self._cut = (question["cut"], spans_of(question["cut"], 2))
        own = ("rows", "after", "links", "most")
        asked = {name: value for name, value in question.items() if name not in own}
        return replace(scan_of({**asked, "cut": []}), spans=self._cut[1])
