"""Searches of a file against a model: every cut, every order, every page size, the same rows."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from docstore.model.document import Row
from docstore.query.ordering import Place
from tests.docstore.reads.scans.copies import Copy

Key = Callable[[Row], Any]
ORDERS: dict[str, Key] = {
    "": lambda row: (),
    "documentSelfLink": lambda row: (),
    "n": lambda row: (state(row)["n"],),
    "s desc, n": lambda row: (-ord(state(row)["s"]), state(row)["n"]),
    "documentVersion desc": lambda row: (-row.version,),
}


def state(row: Row) -> Any:
    return json.loads(row.state)


@pytest.fixture(params=range(3))
def copy(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Copy]:
    copy = Copy(tmp_path / "docstore.db", request.param)
    copy.write(200)
    yield copy
    copy.close()


def searched(copy: Copy, asked: dict[str, Any], rows: int) -> list[tuple[str, int]]:
    """Return (link, version) of all documents that a search finds, page by page."""
    found: list[tuple[str, int]] = []
    after: Place | None = None
    while True:
        fields, payload = copy.pages.answer({**asked, "rows": rows, "after": after, "links": 3})
        page = json.loads(bytes(payload))
        assert len(page) == fields["rows"] <= rows
        found += [(row[-3], row[-2]) for row in page]
        if fields["until"] is None:
            return found
        assert fields["until"] != after
        after = fields["until"]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("rows", [1, 4, 1000])
def test_a_search_at_any_cut(copy: Copy, order: str, rows: int) -> None:
    for latest in (True, False):
        for deleted in (False, True):
            spans = [(slot, 0, copy.rng.randint(0, end)) for slot, end in copy.ends.items()]
            asked = {
                "prefix": "/a/", "cut": [[slot, until] for slot, _, until in spans],
                "filter": "n ge 1 and s ne 'y'", "where": "n <= 3", "orderBy": order,
                "versions": "latest" if latest else "all", "deleted": deleted,
            }  # fmt: skip
            wanted = [
                row
                for row in seen(copy, spans, latest=latest, deleted=deleted)
                if 1 <= state(row)["n"] <= 3 and state(row)["s"] != "y"
            ]
            wanted.sort(key=lambda row: (*ORDERS[order](row), row.link, row.version))
            found = searched(copy, asked, rows)
            assert found == [(row.link, row.version) for row in wanted]


def seen(
    copy: Copy, spans: list[tuple[int, int, int]], *, latest: bool, deleted: bool
) -> list[Row]:
    """Return the rows of a snapshot."""
    shown = copy.expected(spans, is_log=False, latest=latest, deleted=deleted)
    chosen = {(each["documentSelfLink"], each["documentVersion"]) for each in shown}
    return [row for row in copy.rows if (row.link, row.version) in chosen]


def test_a_search_of_trimmed_history_says_trimmed(copy: Copy) -> None:
    kept = copy.ends[0] // 2
    copy.trim(0, kept)
    asked = {"prefix": "/a/", "cut": [[0, kept - 1]], "orderBy": ""}
    fields, _ = copy.pages.answer({**asked, "rows": 9, "after": None, "links": 9})
    assert (fields["error"], fields["slot"]) == ("trimmed", 0)


def test_links_of_any_character_are_walked_once(tmp_path: Path) -> None:
    copy = Copy(tmp_path / "docstore.db", 1)
    names = ["\ue000", "\ud7ff", "\U0010ffff", "a", "a\ue000", "a!", "\x7f"]
    links = sorted(f"/a/{name}" for name in names)
    copy.write_links(links)
    cut = [[slot, end] for slot, end in copy.ends.items()]
    for rows in (1, 2, 9):
        asked = {"prefix": "/a/", "cut": cut, "orderBy": ""}
        assert [link for link, _ in searched(copy, asked, rows)] == links
    begins = {
        "prefix": "/a/",
        "cut": cut,
        "orderBy": "",
        "filter": "startswith(documentSelfLink,'/a/\ue000')",
    }
    assert [link for link, _ in searched(copy, begins, 9)] == ["/a/\ue000"]
    copy.close()
