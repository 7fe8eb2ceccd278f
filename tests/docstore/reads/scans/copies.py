"""A file with random documents, and the same rows in a list to compare scans with."""

import json
import random
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from docstore.model.document import Row, chain_digest
from docstore.model.slots import slot_of
from docstore.reads.scans.worker import PageServer
from docstore.storage.database_threads import PRAGMAS
from docstore.storage.store import Append, Purge, SaveSlot, SlotRecord, Trim
from docstore.storage.writing import Writer

SLOTS = 4
COLUMNS = ["documentSelfLink", "documentVersion", "seq", "deleted", "body", "before"]


def any_state(rng: random.Random) -> dict[str, Any]:
    """Return a small body."""
    return {"n": rng.randrange(5), "s": rng.choice("xyz"), "é": None}


class Copy:
    """A file with random documents, and the same rows in a list."""

    def __init__(self, path: Path, seed: int) -> None:
        self.rng = random.Random(seed)
        self.rows: list[Row] = []
        self.ends = dict.fromkeys(range(SLOTS), 0)
        self._newest: dict[str, Row] = {}
        self._connection = sqlite3.connect(path, isolation_level=None)
        for pragma in PRAGMAS:
            self._connection.execute(f"PRAGMA {pragma}")
        self._writer = Writer(self._connection, Path(f"{path}-wal"))
        self._writer.prepare("store")
        self.path = path
        self.pages = PageServer(str(path))
        self.now_us: Callable[[], int] = lambda: len(self.rows) + 1
        self.state: Callable[[random.Random], dict[str, Any]] = any_state
        """Makes the body of each version."""
        self.text: Callable[[Any], str] = lambda body: json.dumps(body, separators=(",", ":"))
        """The writer of the file."""

    def close(self) -> None:
        """Close the file."""
        self.pages.close()
        self._connection.close()

    def write(self, count: int) -> None:
        """Put and delete documents of three factories, and of one below the first."""
        factories = ["/a/", "/a/", "/a/", "/a/b/", "/ab/", "/A/"]
        self.write_links(
            [f"{self.rng.choice(factories)}{self.rng.randrange(12)}" for _ in range(count)]
        )

    def write_links(self, links: Sequence[str]) -> None:
        """Put these documents; now and then delete one that is there."""
        batch = []
        for link in links:
            before = self._newest.get(link)
            slot = slot_of(link, SLOTS)
            self.ends[slot] += 1
            version = before.version + 1 if before else 0
            deleted = bool(before and not before.deleted and self.rng.random() < 0.2)
            state = before.state if deleted and before else self._state()
            digest = chain_digest(b"", link, version, deleted, state)
            row = Row(slot, self.ends[slot], 1, "n1", link, version, "PUT", self.now_us(),
                      deleted, b"", b"", digest, state)  # fmt: skip
            self._newest[link] = row
            self.rows.append(row)
            batch.append(row)
        self._writer.commit([Append(batch)])

    def _state(self) -> bytes:
        return self.text(self.state(self.rng)).encode()

    def trim(self, slot: int, kept: int) -> None:
        """Trim versions that the rows up to `kept` have replaced, tombstones included."""
        dead = [(row.link, row.version) for row in self._newest.values()
                if row.slot == slot and row.deleted and row.n <= kept]  # fmt: skip
        record = SaveSlot(SlotRecord(slot, kept=kept))
        self._writer.commit([Trim(slot, 0, kept), Purge(slot, dead), record])

    def scan(
        self, asked: dict[str, Any], form: str, rows: int, damages: int = 0
    ) -> Iterator[dict[str, Any]]:
        """Yield the rows of a scan, page by page."""
        after: list[Any] | None = [-1, "", -1]
        while after is not None:
            question = {"columns": COLUMNS, **asked, "format": form, "compression": "",
                        "rows": rows, "after": after, "schema": True, "skipped": False,
                        "damages": damages}  # fmt: skip
            fields, payload = self.pages.answer(question)
            assert "error" not in fields, fields
            found = list(_parsed(bytes(payload), form))
            assert len(found) == fields["rows"] <= rows
            yield from found
            after = fields["next"]

    def expected(
        self, spans: list[tuple[int, int, int]], *, is_log: bool, latest: bool, deleted: bool,
        wanted: Callable[[Row], bool] = lambda row: True,
    ) -> list[dict[str, Any]]:  # fmt: skip
        """Return the rows that a scan must find, by going through all of them."""
        found = []
        for slot, after, until in spans:
            within = [row for row in self.rows if row.slot == slot and row.n <= until]
            newest = {row.link: row for row in within}
            chosen = [row for row in within if row.n > after]
            if latest:
                chosen = [row for row in chosen if newest[row.link] is row]
            chosen.sort(key=lambda row: row.n if is_log else (row.link, row.version))
            found += [row for row in chosen if deleted or not row.deleted]
        found = [row for row in found if row.link.rpartition("/")[0] == "/a" and wanted(row)]
        return [self._shown(row) for row in found]

    def _shown(self, row: Row) -> dict[str, Any]:
        before = next((each for each in self.rows if each.link == row.link
                       and each.version == row.version - 1), None)  # fmt: skip
        shown = before.state if before and not before.deleted else None
        return {
            "documentSelfLink": row.link, "documentVersion": row.version, "seq": row.n,
            "deleted": row.deleted, "body": None if row.deleted else json.loads(row.state),
            "before": json.loads(shown) if shown else None,
        }  # fmt: skip


def _parsed(payload: bytes, form: str) -> Iterator[dict[str, Any]]:
    if form == "ndjson":
        yield from map(json.loads, payload.splitlines())
        return
    import pyarrow as pa

    end = b"\xff\xff\xff\xff\x00\x00\x00\x00"
    for row in pa.ipc.open_stream(pa.py_buffer(payload + end)).read_all().to_pylist():
        for name in {"body", "before"} & row.keys():
            row[name] = None if row[name] is None else json.loads(row[name])
        yield row
