"""Rows on disk: all of them, page after page, each verified by its checksum."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from docstore.errors import BadRequest
from docstore.model.document import Row
from docstore.reads.blocks import Block, Branch, Coverage, unpack_block
from docstore.reads.scans import stored
from docstore.reads.scans.worker import PageServer
from docstore.storage.replication_log import Arrive, BranchStatus
from docstore.storage.store import Append, Base, Purge, SaveSlot, SlotRecord, Trim
from tests.docstore.storage.logs import Author
from tests.docstore.storage.small import small

SLOTS = (2, 3, 5, 9)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "docstore.db"


@pytest.fixture
async def rows(path: Path) -> list[Row]:
    """Return sixty rows in three of four slots of a file that is closed."""
    author = Author()
    rows = [author.row(slot, f"/a/{n % 7}") for slot in (2, 5, 9) for n in range(20)]
    rows.append(author.row(5, "/a/3", deleted=True))
    store = small(path)
    await store.open()
    await store.commit([Append(rows)])
    await store.close()
    return sorted(rows)


def answer(path: Path, **question: Any) -> tuple[dict[str, Any], bytes]:
    """Return the answer of a scanning process."""
    with closing(PageServer(str(path))) as pages:
        fields, block = pages.answer(question)
    return fields, bytes(block)


def walked(path: Path, **question: Any) -> list[Block]:
    """Return the blocks of all pages."""
    blocks, after = [], None
    while True:
        fields, block = answer(path, after=after, **question)
        assert "error" not in fields, fields
        blocks.append(unpack_block(block))
        assert fields["rows"] == blocks[-1].rows <= question.get("rows", stored.ROWS_MAX)
        after = fields["next"]
        if after is None:
            return blocks


def rows_in(blocks: list[Block]) -> list[Row]:
    return [row for block in blocks for stretch in block.log for row in stretch.rows]


@pytest.mark.parametrize("most", [1, 2, 7, 20, 60, 61, 62, 8192])
def test_pages_have_all_rows_in_order(path: Path, rows: list[Row], most: int) -> None:
    spans = [[slot, 0, 21 if slot == 5 else 20 * (slot != 3)] for slot in SLOTS]
    blocks = walked(path, of="log", ranges=spans, rows=most)
    assert rows_in(blocks) == rows
    for slot, after, until in spans:
        coverage = Coverage(slot, after, until)
        its = [each for block in blocks for each in block.log if each.slot == slot]
        assert its  # A slot without a row has a stretch too.
        for stretch in its:
            coverage.add(stretch)
        assert coverage.end() == (0, -1)


def test_a_stretch_has_the_rows_of_its_ranges(path: Path, rows: list[Row]) -> None:
    found = rows_in(walked(path, of="log", ranges=[[2, 3, 9], [5, 20, 21]], rows=4))
    assert [(row.slot, row.n) for row in found] == [*((2, n) for n in range(4, 10)), (5, 21)]
    assert all(row in rows for row in found)


async def test_a_page_ends_where_it_is_long_enough(path: Path) -> None:
    author, store = Author(), small(path)
    await store.open()
    for n in range(6):
        await store.commit([Append([author.row(2, f"/big/{n}", state=b"x" * 1_000_000)])])
    await store.close()
    blocks = walked(path, of="log", ranges=[[2, 0, 6]])
    assert [block.rows for block in blocks] == [5, 1]


async def test_a_walk_says_which_history_is_trimmed(path: Path) -> None:
    author, store = Author(), small(path)
    await store.open()
    rows = [author.row(2, link) for link in ("/a/b", "/a/b", "/a/c")]
    rows += [author.row(2, "/a/c", deleted=True), author.row(2, "/a/d")]
    await store.commit([Append(rows)])
    record = SlotRecord(2, kept=4, floor=1)
    await store.commit([Trim(2, 0, 4), Purge(2, [("/a/c", 1)]), SaveSlot(record)])
    await store.close()
    [block] = walked(path, of="log", ranges=[[2, 0, 5]])
    [stretch] = block.log
    assert (stretch.kept, stretch.floor, stretch.held) == (4, 1, 1)
    assert stretch.rows == [rows[1], rows[4]]
    # A log may be read from `kept` on, and from its beginning up to `kept` or later.
    assert rows_in(walked(path, of="log", ranges=[[2, 4, 5]])) == [rows[4]]
    assert rows_in(walked(path, of="log", ranges=[[2, 0, 4]])) == [rows[1]]
    for span in ([2, 3, 5], [2, 0, 3]):
        fields, _ = answer(path, of="log", ranges=[span])
        assert (fields["error"], fields["slot"]) == ("trimmed", 2)


async def test_a_copy_that_begins_with_a_base_is_read_like_its_source(path: Path) -> None:
    author, store = Author(ends={2: 6}), small(path)
    await store.open()
    base, row = author.row(2, "/a/b"), author.row(2, "/a/c")._replace(n=10)
    record = SlotRecord(2, kept=9, floor=3)
    await store.commit([Base([base]), SaveSlot(record), Append([row])])
    await store.close()
    [block] = walked(path, of="log", ranges=[[2, 0, 10]])
    assert [tuple(each) for each in block.log] == [(2, 9, 3, 1, [base, row])]


@pytest.mark.parametrize(
    "damage",
    ["UPDATE history SET state = X'7b7d' WHERE slot = 5 AND n = 4",
     "UPDATE history SET operation = 'text' WHERE slot = 5 AND n = 4",
     "UPDATE slots SET floor = 7 WHERE slot = 5"],
)  # fmt: skip
async def test_damage_is_reported_and_not_copied(path: Path, rows: list[Row], damage: str) -> None:
    store = small(path)
    await store.open()
    await store.commit([SaveSlot(SlotRecord(5))])
    await store.close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(damage)
        connection.commit()
    fields, block = answer(path, of="log", ranges=[[2, 0, 20], [5, 0, 21]])
    assert (fields, block) == ({"error": "damaged", "slot": 5}, b"")
    assert len(rows_in(walked(path, of="log", ranges=[[2, 0, 20]]))) == 20


@pytest.mark.parametrize("most", [1, 2, 3, 100])
async def test_branches_come_by_link(path: Path, most: int) -> None:
    author, store = Author(), small(path)
    branches = [
        Branch(author.row(slot, f"/weak/{link}")._replace(n=n), standing)
        for n, (slot, link, standing) in enumerate(
            [(5, "b", 0), (2, "z", 1), (5, "b", 1), (3, "x", 1), (5, "a", 2), (5, "a", 1)], 1
        )
    ]
    await store.open()
    await store.commit([Arrive(each.row, BranchStatus(each.standing)) for each in branches])
    await store.close()
    blocks = walked(path, of="branches", ranges=[[2, 0, 0], [5, 7, 9]], rows=most)
    found = [each for block in blocks for each in block.branches]
    assert found == [branches[place] for place in (1, 4, 5, 0, 2)]


@pytest.mark.parametrize(
    "question",
    [
        {"of": "rows", "ranges": [[1, 0, 1]]},
        {"of": "log"},
        {"of": "log", "ranges": []},
        {"of": "log", "ranges": [[1, 0]]},
        {"of": "log", "ranges": [[1, 0, 1]], "after": [1]},
        {"of": "log", "ranges": [[1, 0, 1]], "after": [1, "x"]},
        {"of": "log", "ranges": [[1, 0, 1]], "after": [True, 1]},
        {"of": "branches", "ranges": [[1, 0, 1]], "after": [1, 1]},
        {"of": "log", "ranges": [[1, 0, 1]], "rows": 0},
        {"of": "log", "ranges": [[1, 0, 1]], "rows": 8193},
        {"of": "log", "ranges": [[1, 0, 1]], "prefix": "/a/"},
    ],
)
def test_a_malformed_walk_is_refused(question: dict[str, Any]) -> None:
    with pytest.raises(BadRequest):
        stored.asked_of(question)
