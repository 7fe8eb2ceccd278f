"""Pages of scans against a model: every cut, every page size, both forms, the same rows."""

import json
import random
import sqlite3
from collections.abc import Callable, Iterator
from math import inf
from pathlib import Path
from typing import Any

import pytest

from docstore.document import Row, chain_digest
from docstore.errors import BadRequest
from docstore.protocol.slots import slot_of
from docstore.scanning.pool import has_arrow
from docstore.scanning.request import scan_of
from docstore.scanning.worker import Pages
from docstore.storage.sqlite import PRAGMAS
from docstore.storage.store import Append, Purge, SaveSlot, SlotRecord, Trim
from docstore.storage.writing import Writer

SLOTS = 4
COLUMNS = ["documentSelfLink", "documentVersion", "seq", "deleted", "body", "before"]
FORMS = ["ndjson", "arrow"] if has_arrow() else ["ndjson"]


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
        self.pages = Pages(str(path))

    def write(self, count: int) -> None:
        """Put and delete documents of two factories, and of one below the first."""
        batch = []
        for _ in range(count):
            factory = self.rng.choice(["/a/", "/a/", "/a/", "/a/b/", "/ab/"])
            link = f"{factory}{self.rng.randrange(12)}"
            before = self._newest.get(link)
            slot = slot_of(link, SLOTS)
            self.ends[slot] += 1
            version = before.version + 1 if before else 0
            deleted = bool(before and not before.deleted and self.rng.random() < 0.2)
            state = before.state if deleted and before else self._state()
            digest = chain_digest(b"", link, version, deleted, state)
            row = Row(slot, self.ends[slot], 1, "n1", link, version, "PUT", len(self.rows) + 1,
                      deleted, b"", b"", digest, state)  # fmt: skip
            self._newest[link] = row
            self.rows.append(row)
            batch.append(row)
        self._writer.commit([Append(batch)])

    def _state(self) -> bytes:
        value = {"n": self.rng.randrange(5), "s": self.rng.choice("xyz"), "é": None}
        return json.dumps(value, separators=(",", ":")).encode()

    def trim(self, slot: int, kept: int) -> None:
        """Let go of what the rows up to `kept` have replaced, tombstones included."""
        dead = [(row.link, row.version) for row in self._newest.values()
                if row.slot == slot and row.deleted and row.n <= kept]  # fmt: skip
        record = SaveSlot(SlotRecord(slot, kept=kept))
        self._writer.commit([Trim(slot, 0, kept), Purge(slot, dead), record])

    def scan(self, asked: dict[str, Any], form: str, rows: int) -> Iterator[dict[str, Any]]:
        """Yield the rows of a scan, page by page."""
        after: list[Any] | None = [-1, "", -1]
        while after is not None:
            question = {**asked, "columns": COLUMNS, "format": form, "compression": "",
                        "rows": rows, "after": after, "schema": True, "skipped": False}  # fmt: skip
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
        """Return what a scan must find, by going through all rows."""
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
        for name in ("body", "before"):
            row[name] = None if row[name] is None else json.loads(row[name])
        yield row


@pytest.fixture(params=range(4))
def copy(tmp_path: Path, request: pytest.FixtureRequest) -> Copy:
    copy = Copy(tmp_path / "docstore.db", request.param)
    copy.write(200)
    return copy


@pytest.mark.parametrize("form", [*FORMS, *(["swept"] if has_arrow() else [])])
@pytest.mark.parametrize("rows", [1, 3, 17, 1000])
def test_a_snapshot_at_any_cut(
    copy: Copy, form: str, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if form == "swept":  # Whatever there is, and not only where documents have few versions.
        monkeypatch.setattr("docstore.scanning.batches.SWEPT_VERSIONS", inf)
        form = "arrow"
    for _ in range(3):
        spans = [(slot, 0, copy.rng.randint(0, end)) for slot, end in copy.ends.items()]
        cut = [[slot, until] for slot, _, until in spans]
        for versions in ("latest", "all"):
            for deleted in (False, True):
                asked = {"prefix": "/a/", "cut": cut, "versions": versions, "deleted": deleted}
                wanted = copy.expected(
                    spans, is_log=False, latest=versions == "latest", deleted=deleted
                )
                assert list(copy.scan(asked, form, rows)) == wanted


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("rows", [1, 7, 1000])
def test_a_stretch_of_the_log(copy: Copy, form: str, rows: int) -> None:
    for _ in range(3):
        spans = []
        for slot, end in copy.ends.items():
            after = copy.rng.randint(0, end)
            spans.append((slot, after, copy.rng.randint(after, end)))
        for versions in ("latest", "all"):
            asked = {"prefix": "/a/", "ranges": [list(span) for span in spans],
                     "versions": versions}  # fmt: skip
            wanted = copy.expected(spans, is_log=True, latest=versions == "latest", deleted=True)
            assert list(copy.scan(asked, form, rows)) == wanted


@pytest.mark.parametrize("form", FORMS)
def test_a_condition_finds_what_it_says(copy: Copy, form: str) -> None:
    spans = [(slot, 0, end) for slot, end in copy.ends.items()]
    cut = [[slot, end] for slot, end in copy.ends.items()]
    conditions = {
        "n >= 3": lambda row: json.loads(row.state)["n"] >= 3,
        "s in ('x', 'y') and not (n = 1)": lambda row: (
            json.loads(row.state)["s"] in "xy" and json.loads(row.state)["n"] != 1
        ),
        "documentVersion > 2": lambda row: row.version > 2,
        "documentSelfLink like '/a/1%'": lambda row: row.link.startswith("/a/1"),
        "documentSelfLink in ('/a/1', '/a/7', '/ab/1')": lambda row: row.link in ("/a/1", "/a/7"),
        "`é` is null": lambda row: True,
        "s > 1": lambda row: False,
    }
    for where, wanted in conditions.items():
        asked = {"prefix": "/a/", "cut": cut, "where": where}
        found = copy.expected(spans, is_log=False, latest=True, deleted=False, wanted=wanted)
        assert list(copy.scan(asked, form, 5)) == found, where


@pytest.mark.parametrize("form", FORMS)
def test_every_cut_from_kept_on_can_be_read_and_none_before(copy: Copy, form: str) -> None:
    kept = {slot: end // 2 for slot, end in copy.ends.items()}
    for slot, n in kept.items():
        copy.trim(slot, n)
    for part in (0.0, 0.5, 1.0):
        spans = [(slot, 0, kept[slot] + int((end - kept[slot]) * part))
                 for slot, end in copy.ends.items()]  # fmt: skip
        asked = {"prefix": "/a/", "cut": [[slot, until] for slot, _, until in spans]}
        wanted = copy.expected(spans, is_log=False, latest=True, deleted=False)
        found = list(copy.scan(asked, form, 10))
        assert [{**row, "before": None} for row in found] == [
            {**row, "before": None} for row in wanted
        ]
    for asked in (
        {"prefix": "/a/", "cut": [[0, kept[0] - 1]]},
        {"prefix": "/a/", "ranges": [[0, kept[0] - 1, copy.ends[0]]]},
    ):
        question = {**asked, "columns": [], "format": form, "compression": "", "rows": 10,
                    "after": [-1, "", -1], "schema": False, "skipped": False}  # fmt: skip
        fields, _ = copy.pages.answer(question)
        assert (fields["error"], fields["slot"], fields["kept"]) == ("trimmed", 0, kept[0])


def test_a_hole_is_noticed(copy: Copy, tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "docstore.db")
    with connection:
        connection.execute("DELETE FROM history WHERE slot = 1 AND n = 3")
    connection.close()
    question = {"prefix": "/a/", "ranges": [[1, 0, copy.ends[1]]], "columns": [], "rows": 10,
                "format": "ndjson", "compression": "", "after": [-1, "", -1], "schema": False,
                "skipped": False}  # fmt: skip
    assert copy.pages.answer(question)[0] == {"error": "incomplete", "slot": 1}


@pytest.mark.parametrize(
    "asked",
    [
        {"prefix": "/a/"},
        {"prefix": "/a/", "cut": [], "ranges": []},
        {"prefix": "/a", "cut": []},
        {"prefix": "/a/", "cut": [[1]]},
        {"prefix": "/a/", "cut": [[1, -1]]},
        {"prefix": "/a/", "cut": [[1, 2], [1, 3]]},
        {"prefix": "/a/", "cut": [], "columns": ["name"]},
        {"prefix": "/a/", "cut": [], "columns": ["slot", "slot"]},
        {"prefix": "/a/", "cut": [], "where": 7},
        {"prefix": "/a/", "cut": [], "versions": "some"},
        {"prefix": "/a/", "cut": [], "deleted": 1},
        {"prefix": "/a/", "cut": [], "limit": True},
        {"prefix": "/a/", "cut": [], "limit": 0},
        {"prefix": "/a/", "cut": [], "else": 1},
    ],
)
def test_what_is_malformed_is_refused(asked: dict[str, Any]) -> None:
    with pytest.raises(BadRequest):
        scan_of(asked)
