"""Overlay and tables together answer as tables do that have followed all entries."""

import asyncio
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docstore.storage.overlay import Overlay
from docstore.storage.store import (
    Append,
    History,
    Newest,
    SaveSlot,
    SlotRecord,
    Trim,
    Truncate,
)
from docstore.storage.tail import Ask, Wait
from tests.docstore.storage.lagging import Batch, Lagging, Script, batches, play, race, steps
from tests.docstore.storage.logs import FOR_EVER, Author

A, B = "/notes/a", "/notes/b"


def lagging(seed: int) -> Lagging:
    return Lagging(Random(seed), Overlay())


@settings(max_examples=40)
@given(steps, st.integers())
def test_answers_equal_those_of_tables_that_have_followed_all(script: Script, seed: int) -> None:
    asyncio.run(play(script, seed, lagging(seed)))


@pytest.mark.thorough
@settings(max_examples=200)
@given(steps, batches, st.integers())
def test_an_entry_between_plan_and_answer_is_ignored_or_included(
    script: Script, later: Batch, seed: int
) -> None:
    race(script, later, seed, lagging(seed))


# Single cases


def test_a_document_in_the_overlay_is_answered_without_the_tables() -> None:
    author, overlay = Author(), Overlay()
    rows = [author.row(1, link) for link in (A, B, A)]
    overlay.add(1, [Append(rows)])
    assert overlay.plan(Newest(1, A, FOR_EVER)) == [rows[2]]
    assert overlay.plan(Newest(1, A, 2)) == [rows[0]]
    assert overlay.plan(Newest(1, B, 1)) == Ask((Newest(1, B, 1),))
    assert overlay.plan(Newest(2, A, 9)) == Ask((Newest(2, A, 9),))


def test_only_the_slot_that_loses_rows_waits() -> None:
    author, overlay = Author(), Overlay()
    mine, other = author.row(1, A), author.row(2, B)
    overlay.add(1, [Append([mine, other])])
    overlay.add(2, [Truncate(1, 0)])
    overlay.add(3, [Append([author.row(2, B)])])
    assert overlay.plan(Newest(1, A, FOR_EVER)) == Wait(2)
    assert overlay.plan(Newest(2, B, 1)) == [other]
    overlay.drop(2)
    assert overlay.plan(Newest(1, A, FOR_EVER)) == Ask((Newest(1, A, FOR_EVER),))


def test_a_read_of_the_newest_row_does_not_wait_for_trimming() -> None:
    author, overlay = Author(), Overlay()
    rows = [author.row(1, A) for _ in range(3)]
    overlay.add(1, [Append(rows)])
    overlay.add(2, [Trim(1, 0, 2), SaveSlot(SlotRecord(1, kept=2))])
    assert overlay.plan(Newest(1, A, FOR_EVER)) == rows[2:]
    assert overlay.plan(Newest(1, A, 2)) == rows[1:2]
    assert overlay.plan(Newest(1, A, 1)) == Wait(2)
    assert overlay.plan(History(1, A, None, 9, FOR_EVER)) == Wait(2)
    assert overlay.below("/notes/", {1: 0}) == Wait(2)
    assert overlay.below("/other/", {1: 2}) == Wait(0)


def test_a_plan_from_before_a_commit_to_the_tables_alone_is_not_merged() -> None:
    author, overlay = Author(), Overlay()
    rows = [author.row(1, A) for _ in range(3)]
    overlay.add(1, [Append(rows[:2])])
    overlay.drop(1)
    overlay.add(2, [Append(rows[2:])])
    query = History(1, A, None, 9, FOR_EVER)
    plan = overlay.plan(query)
    assert isinstance(plan, Ask)
    overlay.drop(2)
    assert overlay.merged(query, plan, [[rows[1], rows[0]]]) == rows[::-1]
    overlay.announce(3, [Truncate(1, 1), Append([author.row(1, B)])])
    assert overlay.merged(query, plan, [[rows[0]]]) == Wait(0)
    assert overlay.plan(query) == Ask((query,))


def test_the_tables_are_behind_from_the_first_row_that_they_lack() -> None:
    author, overlay = Author(), Overlay()
    assert overlay.behind([1]) == {}
    overlay.add(1, [Append([author.row(1, A), author.row(1, B)])])
    overlay.add(2, [Append([author.row(1, A)])])
    overlay.add(3, [SaveSlot(SlotRecord(2))])
    assert overlay.behind([1, 2]) == {1: 1}
    overlay.drop(1)
    assert overlay.behind([1]) == {1: 3}
    overlay.add(4, [Truncate(1, 2)])
    assert overlay.behind([1]) == {1: 0}
    overlay.drop(4)
    assert overlay.behind([1]) == {}


def test_a_digest_waits_even_for_a_record() -> None:
    """Wait, as the digest has the end of a slot, which for an empty one is in its record."""
    overlay = Overlay()
    overlay.add(1, [SaveSlot(SlotRecord(1, kept=9))])
    assert (overlay.all_of([1, 2]), overlay.all_of([2])) == (Wait(1), Wait(0))


def test_entries_that_the_tables_have_are_dropped() -> None:
    author, overlay = Author(), Overlay()
    for number in range(1, 9):
        overlay.add(number, [Append([author.row(slot, A) for slot in (1, 2)])])
        overlay.drop(number - 1)
    overlay.drop(8)
    assert (overlay._slots, overlay._arrived) == ({}, {})
