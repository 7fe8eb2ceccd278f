"""Indexes: a search by an index finds what a scan finds, whatever the index lacks."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from docstore.model.slots import slot_of
from docstore.reads.scans import indexed
from tests.docstore.reads.scans.copies import SLOTS
from tests.docstore.reads.scans.indexed_copies import STORE, IndexedCopy, Life, any_state


@pytest.fixture
def copy(tmp_path: Path) -> Iterator[IndexedCopy]:
    copy = IndexedCopy(tmp_path / "docstore.db", 1)
    copy.state = any_state
    yield copy
    copy.close()


def put(copy: IndexedCopy, **documents: object) -> None:
    """Put documents of /a/ by name, each with a member `a`."""
    for name, value in documents.items():
        copy.state = lambda rng, value=value: {"a": value}
        copy.rng.seed(5)  # Nothing is deleted.
        copy.write_links([f"/a/{name}"])


def names(copy: IndexedCopy, filter_: str, **how: object) -> list[str]:
    """Return the ids that an index finds."""
    found = copy.indexed(copy.question(filter_, **how))  # type: ignore[arg-type]
    assert found["index"] == "a", found
    return [row[-3].rpartition("/")[2] for row in found["found"]]


def life(path: Path, seed: int, questions: int) -> set[str]:
    """Ask generated questions between random events; return the indexes that answered."""
    (path / str(seed)).mkdir()
    copy = IndexedCopy(path / str(seed) / "docstore.db", seed)
    used, life = set(), Life(copy)
    try:
        for _ in range(questions):
            life.happen()
            asked, rows = life.any_question(), copy.rng.choice([1, 2, 3, 7, 50])
            found, name = copy.walked(asked, rows, by_index=True)
            if name:
                used.add(name)
                assert found == copy.walked(asked, rows, by_index=False)[0], (asked, name)
            totals = copy.totals(asked, by_index=True)
            if totals is not None:
                by_scan = copy.totals(asked, by_index=False)
                assert by_scan is not None
                assert (totals.documents, totals.groups) == (by_scan.documents, by_scan.groups)
    finally:
        copy.close()
    return used


def test_generated_searches_match_a_scan(tmp_path: Path) -> None:
    used = set().union(*(life(tmp_path, seed, 40) for seed in range(4)))
    assert len(used) > 5


@pytest.mark.parametrize(
    "seeds",
    [
        pytest.param(range(100, 105), marks=pytest.mark.thorough),
        pytest.param(range(105, 140), marks=pytest.mark.slow),
    ],
)
def test_many_generated_searches_match_a_scan(tmp_path: Path, seeds: range) -> None:
    used = set().union(*(life(tmp_path, seed, 100) for seed in seeds))
    assert len(used) > 8


def test_a_document_that_changed_behind_the_index_is_found_by_its_new_value(
    copy: IndexedCopy,
) -> None:
    put(copy, x=1, y=2)
    copy.follow(names=["a"])
    put(copy, y=1, z=1)
    assert names(copy, "a eq 1") == ["x", "y", "z"]
    assert names(copy, "a eq 2") == []


def test_an_old_cut_is_answered_by_an_index_that_is_ahead_of_it(copy: IndexedCopy) -> None:
    put(copy, x=1, y=2)
    cut = dict(copy.ends)
    put(copy, x=2, y=1, z=1)
    copy.follow(names=["a"])
    assert names(copy, "a eq 1", cut=cut) == ["x"]
    assert names(copy, "a ge 1", cut=cut, order="a desc") == ["y", "x"]


def test_an_unfinished_index_is_not_used_and_shows_its_progress(
    copy: IndexedCopy,
) -> None:
    put(copy, x=1)
    copy.follow({0: copy.ends[0], 1: copy.ends[1]}, names=["a"])
    found = copy.indexed(copy.question("a eq 1"))
    assert (found["index"], found["looked"]) == ("", 1)
    assert found["why"] == f"a is being built: 2 of {SLOTS} slots are done"


def test_an_index_far_behind_the_cut_is_not_used(
    copy: IndexedCopy, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy.follow(names=["a"])
    put(copy, **{f"x{number}": 1 for number in range(9)})
    monkeypatch.setattr(indexed, "CHANGED_MAX", 8)
    assert copy.indexed(copy.question("a eq 1"))["why"] == "a is 9 rows from the cut"
    monkeypatch.setattr(indexed, "CHANGED_MAX", 9)
    assert copy.indexed(copy.question("a eq 1"))["index"] == "a"


def entries(copy: IndexedCopy) -> list[tuple[object, ...]]:
    """Return value and id of the entries of the only index."""
    connection = sqlite3.connect(copy.path.with_name("indexes.db"))
    [(ix,)] = connection.execute("SELECT ix FROM indexes").fetchall()
    found = connection.execute(f"SELECT v0, substr(link, 4) FROM e{ix}").fetchall()
    connection.close()
    return sorted(found, key=repr)


def test_entries_follow_the_values_of_a_document(copy: IndexedCopy) -> None:
    put(copy, x=1, y=2)
    copy.follow(names=["a"])
    put(copy, x=3, z=1)
    copy.follow(names=["a"])
    assert entries(copy) == [(1, "z"), (2, "y"), (3, "x")]


def test_a_slot_whose_log_was_replaced_is_built_anew(copy: IndexedCopy) -> None:
    put(copy, x=1)
    copy.follow(names=["a"])
    [row] = copy.rows
    connection = sqlite3.connect(copy.path)
    state = row.state.replace(b"1", b"7")
    connection.execute("UPDATE history SET epoch = 2, state = ?", (state,))
    connection.commit()
    connection.close()
    copy.follow(names=["a"])
    assert entries(copy) == [(7, "x")]


def test_a_slot_is_built_anew_where_links_were_removed_for_good(copy: IndexedCopy) -> None:
    slot = slot_of("/a/x", SLOTS)
    other = next(f"y{n}" for n in range(99) if slot_of(f"/a/y{n}", SLOTS) == slot)
    put(copy, x=1, **{other: 2})
    copy.follow(names=["a"])
    copy.rng.random = lambda: 0.0  # type: ignore[method-assign]
    copy.write_links(["/a/x"])
    assert copy.rows[-1].deleted
    copy.trim(slot, copy.ends[slot])  # Not even the row of the deletion is left.
    copy.follow(names=["a"])
    assert entries(copy) == [(2, other)]


def test_a_cut_of_which_versions_are_gone_is_not_answered(copy: IndexedCopy) -> None:
    put(copy, x=1)
    cut = dict(copy.ends)
    put(copy, x=2)
    copy.follow(names=["a"])
    slot = copy.rows[0].slot
    copy.trim(slot, copy.ends[slot])
    assert copy.indexed(copy.question("a eq 1", cut=cut))["error"] == "trimmed"


def test_slots_that_left_this_node_are_forgotten(copy: IndexedCopy) -> None:
    put(copy, x=1, y=1)
    copy.follow(names=["a"])
    slot = copy.rows[0].slot
    held = [each for each in range(SLOTS) if each != slot]
    copy.follow({held[0]: copy.ends[held[0]]}, names=["a"], held=held)
    assert (1, "x") not in entries(copy)
    assert copy.indexed(copy.question("a eq 1"))["index"] == ""


def test_an_index_that_is_no_longer_declared_is_dropped(copy: IndexedCopy) -> None:
    put(copy, x=1)
    copy.follow(names=["a", "b"])
    copy.follow(names=["b"])
    assert copy.indexed(copy.question("a eq 1"))["why"] == "no index is a"
    copy.follow(names=["a"])
    assert entries(copy) == [(1, "x")]


@pytest.mark.parametrize("store", [["other", 1], ["store", 0]])
def test_a_file_of_other_documents_is_not_used(copy: IndexedCopy, store: list[object]) -> None:
    put(copy, x=1)
    copy.follow(names=["a"])
    asked = {**copy.question("a eq 1"), "rows": 9, "after": None, "links": 9, "most": 9}
    fields, _ = copy.pages.answer({**asked, "indexes": "find", "store": STORE})
    assert fields["index"] == "a"
    copy.pages.close()
    copy.pages = type(copy.pages)(str(copy.path))
    fields, _ = copy.pages.answer({**asked, "indexes": "find", "store": store})
    assert (fields["index"], fields["why"]) == ("", "no index is built yet")
    copy.follow(names=["a"], store=store)
    fields, _ = copy.pages.answer({**asked, "indexes": "find", "store": store})
    assert fields["index"] == "a"


def test_a_damaged_file_of_indexes_is_built_anew(copy: IndexedCopy) -> None:
    put(copy, x=1)
    copy.follow(names=["a"])
    copy.pages.close()
    file = copy.path.with_name("indexes.db")
    file.write_bytes(b"no database at all" * 1000)
    copy.pages = type(copy.pages)(str(copy.path))
    found = copy.indexed(copy.question("a eq 1"))
    assert (found["index"], found["looked"]) == ("", 1)
    assert "cannot be read" in found["why"]
    assert "why" in copy.follow(names=["a"])
    copy.follow(names=["a"])
    assert names(copy, "a eq 1") == ["x"]


def test_another_process_notices_that_the_file_was_replaced(copy: IndexedCopy) -> None:
    put(copy, x=1)
    copy.follow(names=["a"])
    assert names(copy, "a eq 1") == ["x"]
    copy.path.with_name("indexes.db").unlink()
    assert copy.indexed(copy.question("a eq 1"))["why"] == "no index is built yet"


def test_a_search_sees_no_index_of_rows_that_it_does_not_see(copy: IndexedCopy) -> None:
    """An index that is newer than the view of the documents would hide what changed since."""
    put(copy, x=1)
    copy.follow(names=["a"])
    statements: list[str] = []
    copy.pages._lines._connection.set_trace_callback(statements.append)
    assert names(copy, "a eq 1") == ["x"]
    begun = statements.index("BEGIN")
    assert "ix.store" in statements[begun + 1]


def test_a_search_in_an_order_reads_a_page_of_the_index(copy: IndexedCopy) -> None:
    put(copy, **{f"x{number:03}": number % 7 for number in range(100)})
    copy.follow(names=["a"])
    for order in ("a", "a desc"):
        found = copy.indexed(copy.question("", order), rows=3)
        assert (found["index"], found["looked"], len(found["found"])) == ("a", 19, 3)
    found = copy.indexed(copy.question("a eq 5"), rows=3)
    assert found["looked"] == 14  # All hits: they are few.


def test_hits_of_a_range_are_not_gathered_where_they_are_many(
    copy: IndexedCopy, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(copy, **{f"x{number}": number for number in range(20)})
    copy.follow(names=["a"])
    monkeypatch.setattr(indexed, "FEW", 9)
    monkeypatch.setattr(indexed, "GATHERED_MAX", 9)
    asked = copy.question("a ge 5", "b")
    assert copy.indexed(asked)["why"] == "more than 9 documents are in the ranges of a"
    assert copy.totals(asked, by_index=True) is None
    monkeypatch.setattr(indexed, "GATHERED_MAX", 15)
    assert copy.indexed(asked)["index"] == "a"


@pytest.mark.parametrize("how", [{"versions": "all"}, {"deleted": True}])
def test_an_index_has_the_newest_versions_of_live_documents_only(
    copy: IndexedCopy, how: dict[str, object]
) -> None:
    put(copy, x=1)
    copy.follow(names=["a"])
    found = copy.indexed({**copy.question("a eq 1"), **how})
    assert found["why"] == "an index has the newest versions of live documents only"


def test_a_round_ends_in_time_and_names_the_slots_left(
    copy: IndexedCopy, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(copy, x=1)
    monkeypatch.setattr("docstore.reads.scans.following.PATIENCE_S", 0.0)
    assert copy.follow(names=["a"])["late"] == sorted(copy.ends)


def test_others_on_the_machine_cannot_read_the_file(copy: IndexedCopy) -> None:
    put(copy, x=1)
    copy.follow(names=["a"])
    files = list(copy.path.parent.glob("indexes.db*"))
    assert len(files) == 3
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}


def test_a_slot_is_not_sure_where_the_file_does_not_have_it(copy: IndexedCopy) -> None:
    put(copy, x=1)
    copy.follow(names=["a"])
    copy.path.with_name("indexes.db").unlink()
    put(copy, x=2, y=2)
    copy.follow(names=["a"], sure=list(copy.ends))
    assert entries(copy) == [(2, "x"), (2, "y")]


def test_a_sure_slot_is_followed_by_the_newest_row_of_each_link(
    copy: IndexedCopy,
) -> None:
    put(copy, x=1, y=1)
    assert copy.follow(names=["a"])["built"] == [("/a/", "a", SLOTS)]
    put(copy, x=3)
    put(copy, x=2)
    assert copy.follow(names=["a"], sure=list(copy.ends))["built"] == []
    assert entries(copy) == [(1, "y"), (2, "x")]


def test_entries_of_other_slots_are_not_read(copy: IndexedCopy) -> None:
    put(copy, **{f"x{number}": 1 for number in range(20)})
    copy.follow(names=["a"])
    here = sum(row.slot == 2 for row in copy.rows)
    for order in ("", "a", "documentVersion"):
        found = copy.indexed(copy.question("a ge 1", order, {2: copy.ends[2]}))
        assert (found["index"], found["looked"], len(found["found"])) == ("a", here, here)


def test_a_condition_that_contradicts_itself_is_fulfilled_by_no_entry(copy: IndexedCopy) -> None:
    put(copy, x=1)
    copy.follow(names=["a"])
    for order in ("a", ""):
        found, _ = copy.walked(copy.question("a gt 5 and a lt 2", order), 9, by_index=True)
        assert found == []
    assert names(copy, "a gt 5 and a lt 2", order="a") == []
