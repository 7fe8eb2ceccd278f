"""Pages of scans against a model: every cut, every page size, both forms, the same rows."""

import json
import sqlite3
from collections.abc import Iterator
from math import inf
from pathlib import Path
from typing import Any

import pytest

from docstore.errors import BadRequest
from docstore.scanning.pool import has_arrow
from docstore.scanning.request import scan_of
from tests.docstore.scanning.copies import Copy

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
                    "after": [-1, "", -1], "schema": False, "skipped": False,
                    "generation": 0}  # fmt: skip
        fields, _ = copy.pages.answer(question)
        assert (fields["error"], fields["slot"], fields["kept"]) == ("trimmed", 0, kept[0])


def test_a_hole_is_noticed(copy: Copy, tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "docstore.db")
    with connection:
        connection.execute("DELETE FROM history WHERE slot = 1 AND n = 3")
    connection.close()
    question = {"prefix": "/a/", "ranges": [[1, 0, copy.ends[1]]], "columns": [], "rows": 10,
                "format": "ndjson", "compression": "", "after": [-1, "", -1], "schema": False,
                "skipped": False, "generation": 0}  # fmt: skip
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
    ],
)
def test_what_is_malformed_is_refused(asked: dict[str, Any]) -> None:
    with pytest.raises(BadRequest):
        scan_of(asked)
