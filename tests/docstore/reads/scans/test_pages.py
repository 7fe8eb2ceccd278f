"""Pages of scans against a model: every cut, every page size, both forms, the same rows."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

import pytest

from docstore.errors import BadRequest
from docstore.model.document import Row
from docstore.model.slots import slot_of
from docstore.query.parser import DEPTH_MAX
from docstore.query.request import scan_of
from docstore.reads.scans.pool import has_arrow
from tests.docstore.reads.scans.copies import SLOTS, Copy

FORMS = ["ndjson", "arrow"] if has_arrow() else ["ndjson"]


@pytest.fixture(params=range(4))
def copy(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Copy]:
    copy = Copy(tmp_path / "docstore.db", request.param)
    copy.write(200)
    yield copy
    copy.close()


@pytest.mark.parametrize("form", [*FORMS, *(["swept"] if has_arrow() else [])])
@pytest.mark.parametrize("rows", [1, 3, 17, 1000])
def test_a_snapshot_at_any_cut(
    copy: Copy, form: str, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if form == "swept":  # Also where documents have many versions.
        monkeypatch.setattr("docstore.reads.scans.batches.SWEPT_VERSIONS", inf)
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


@pytest.mark.parametrize("rows", [1, 7, 1000])
def test_events_of_a_condition(copy: Copy, rows: int) -> None:
    """A row is found if it, or the version before it, fulfils the condition."""
    spans = [(slot, copy.rng.randint(0, end), end) for slot, end in copy.ends.items()]
    by_version = {(row.link, row.version): row for row in copy.rows}

    def event(row: Row) -> str | None:
        before = by_version.get((row.link, row.version - 1))
        did = before is not None and not before.deleted and json.loads(before.state)["n"] > 2
        does = json.loads(row.state)["n"] > 2
        if does and not row.deleted:
            return "update" if did else "enter"
        return "leave" if did or does else None

    wanted = [
        (row.link, row.version, said)
        for slot, after, until in spans
        for row in copy.rows
        if row.slot == slot and after < row.n <= until and (said := event(row))
        if row.link.startswith(("/a/b/", "/ab/"))
    ]
    asked = {"prefix": ["/a/b/", "/ab/"], "ranges": [list(span) for span in spans],
             "nested": True, "events": True, "where": "n > 2"}  # fmt: skip
    found = [
        (each["documentSelfLink"], each["documentVersion"], each["event"])
        for each in copy.scan(asked, "ndjson", rows)
    ]
    assert found == wanted
    assert {said for *_, said in found} == {"enter", "update", "leave"}


def test_a_row_whose_version_before_is_purged_may_end_a_match(tmp_path: Path) -> None:
    """A superfluous leave event is harmless: without one a reader keeps the document for good."""
    copy = Copy(tmp_path / "docstore.db", 1)
    copy.state = lambda rng: {"n": 0}
    copy.write_links(["/a/1", "/a/1", "/a/2"])
    with closing(sqlite3.connect(copy.path)) as connection, connection:
        connection.execute("DELETE FROM history WHERE link = '/a/1' AND version = 0")
    asked = {"prefix": "/a/", "ranges": [[slot_of("/a/1", SLOTS), 1, 2]],
             "nested": True, "events": True, "where": "n > 2"}  # fmt: skip
    found = [(each["documentVersion"], each["event"]) for each in copy.scan(asked, "ndjson", 9)]
    assert found == [(1, "leave")]
    copy.close()


@pytest.mark.parametrize("form", FORMS)
def test_a_condition_finds_the_matching_rows(copy: Copy, form: str) -> None:
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
        "slot = 2 and seq > 3": lambda row: row.slot == 2 and row.n > 3,
        "slot <> 2": lambda row: row.slot != 2,
        "not (seq between 2 and 9)": lambda row: not 2 <= row.n <= 9,
        "deleted = false": lambda row: True,
        "deleted = true or deleted is null": lambda row: False,
        "documentUpdateTime > '1970-01-01T00:00:00.000100Z'": lambda row: row.updated_us > 100,
        "documentUpdateTime in ('1970-01-01T01:00:00.000100+01:00')": (
            lambda row: row.updated_us == 100
        ),
        "documentUpdateTimeMicros <= 100": lambda row: row.updated_us <= 100,
        "documentExpirationTime is null": lambda row: True,
        "documentExpirationTime > '2026-11-20T19:00:00Z'": lambda row: False,
        "digest like 'A%'": lambda row: row.digest.hex().upper().startswith("A"),
        "`documentVersion` > 2": lambda row: row.version > 2,
        "`slot` = 2": lambda row: False,  # In backquotes a name is a member's.
        "s > 1": lambda row: False,
    }
    for where, wanted in conditions.items():
        asked = {"prefix": "/a/", "cut": cut, "where": where}
        found = copy.expected(spans, is_log=False, latest=True, deleted=False, wanted=wanted)
        assert list(copy.scan(asked, form, 5)) == found, where


ODD = ["a\\b", "a\tb", 'a"b', "é", "a/b", "a'b", "a<b", "a.b", "a b", "$", "😀", "slot", "x\x01"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("spelt", ["as it is", "in ASCII"])
def test_a_name_finds_its_member_however_it_is_spelt(tmp_path: Path, form: str, spelt: str) -> None:
    copy = Copy(tmp_path / "docstore.db", 1)
    copy.text = partial(json.dumps, ensure_ascii=spelt == "in ASCII")
    names = iter(ODD)
    copy.state = lambda _: {(name := next(names)): 1, "deep": {name: [{name: "x"}]}}
    copy.write_links([f"/a/{number}" for number in range(len(ODD))])
    cut = [[slot, end] for slot, end in copy.ends.items()]
    for number, name in enumerate(ODD):
        for where in (
            f"`{name}` = 1", f"deep.`{name}`[0].`{name}` = 'x'", f"deep.`{name}` is not null",
            f"not (`{name}` is null) and `{name}` in (1, 2)",
        ):  # fmt: skip
            found = copy.scan({"prefix": "/a/", "cut": cut, "where": where}, form, 5)
            assert [row["documentSelfLink"] for row in found] == [f"/a/{number}"], where
    copy.close()


@pytest.mark.parametrize("form", FORMS)
def test_the_longest_and_deepest_conditions_are_carried_out(tmp_path: Path, form: str) -> None:
    copy = Copy(tmp_path / "docstore.db", 1)
    copy.write(30)
    cut = [[slot, end] for slot, end in copy.ends.items()]
    every = list(copy.scan({"prefix": "/a/", "cut": cut}, form, 100))
    for where in (
        " or ".join(f"n={number}" for number in range(1500)),
        " and ".join(["n<9"] * 1800),
        " or ".join(["n<9", *["`é`.`é`.`é`=1"] * 250]),
        "n in (" + ", ".join(map(str, range(2500))) + ")",
        "not " * DEPTH_MAX + "n < 9",
        "not (n = 9 or " * 8 + "n < 9" + ")" * 8,
        "(n = 9 or n = 8 or s in ('x', 'y', 'z') and " * 8 + "n < 9" + ")" * 8,
        "not (n = 9 and " * 5 + "`é`.`é`.`é` is not null" + ")" * 5,
    ):
        asked = {"prefix": "/a/", "cut": cut, "where": where}
        assert list(copy.scan(asked, form, 100)) == every, where[:40]
    copy.close()


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
                    "after": [-1, "", -1], "schema": False, "skipped": False,
                    "damages": 0}  # fmt: skip
        fields, _ = copy.pages.answer(question)
        assert (fields["error"], fields["slot"], fields["kept"]) == ("trimmed", 0, kept[0])


def test_a_hole_is_noticed(copy: Copy, tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "docstore.db")
    with connection:
        connection.execute("DELETE FROM history WHERE slot = 1 AND n = 3")
    connection.close()
    question = {"prefix": "/a/", "ranges": [[1, 0, copy.ends[1]]], "columns": [], "rows": 10,
                "format": "ndjson", "compression": "", "after": [-1, "", -1], "schema": False,
                "skipped": False, "damages": 0}  # fmt: skip
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
        {"prefix": "/a/", "cut": [], "aggregates": 1},
        {"prefix": "/a/", "cut": [], "aggregates": "mean(n)"},
        {"prefix": "/a/", "cut": [], "groupBy": ["n"]},
        {"prefix": "/a/", "cut": [], "aggregates": "count", "columns": ["slot"]},
        {"prefix": "/a/", "cut": [], "aggregates": "count", "limit": 3},
        {"prefix": "/a/", "ranges": [], "aggregates": "count"},
        {"prefix": "/a/", "ranges": [], "events": True},
        {"prefix": "/a/", "ranges": [], "nested": True, "events": 1},
        {"prefix": ["/a/"], "ranges": []},
        {"prefix": [], "ranges": [], "nested": True},
    ],
)
def test_a_malformed_scan_is_refused(asked: dict[str, Any]) -> None:
    with pytest.raises(BadRequest):
        scan_of(asked)
