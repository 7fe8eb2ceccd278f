"""After the same random writes, all stores give the same answers to all queries."""

import asyncio
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.disk.disk import Disk
from tests.docstore.storage.lagging import OneByOne, writes_after
from tests.docstore.storage.scripts import SLOTS, answers_of, changes, queries, scripts, writes_of
from tests.docstore.storage.small import small
from tests.docstore.storage.stepped import STEPS, Stepped
from tests.memory.ledger import Ledger
from tests.memory.memory import MemoryStore


async def play(script: list[list[tuple[str, int, object]]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        memory, sqlite = MemoryStore(), small(Path(folder) / "db")
        await memory.open()
        await sqlite.open()
        try:
            for batch in script:
                writes = writes_after(memory._ledger, batch)
                await memory.commit(writes)
                await sqlite.commit(writes)
                assert await answers_of(sqlite) == await answers_of(memory)
            await sqlite.close()
            await memory.open()
            sqlite = small(Path(folder) / "db")
            await sqlite.open()
            assert await answers_of(sqlite) == await answers_of(memory)
        finally:
            await sqlite.close()


Script = list[list[tuple[str, int, object]]]


@settings(max_examples=20)
@given(scripts)
def test_stores_agree_after_the_same_writes(script: Script) -> None:
    asyncio.run(play(script))


@pytest.mark.slow
@settings(max_examples=100)
@given(scripts)
def test_stores_agree_after_many_more(script: Script) -> None:
    asyncio.run(play(script))


Steps = list[tuple[list[tuple[str, int, object]], str]]


async def play_behind(script: Steps) -> None:
    """Write to a store in memory, and to two whose tables follow: when they must, and in steps."""
    memory, lazy, stepped = MemoryStore(), Stepped(Disk()), Stepped(Disk())
    await memory.open()
    try:
        for batch, step in script:
            writes = writes_after(memory._ledger, batch)
            await memory.commit(writes)
            lazy.commit(writes)
            stepped.commit(writes)
            stepped.do(step)
            expected = await memory.read(queries())
            for store in (lazy, stepped):
                assert await OneByOne(store.reads).read(queries()) == expected
        first, *rest = await answers_of(memory)
        for store in (lazy, stepped):
            found, *others = await answers_of(store.reads)
            assert (replace(found, boot=1), others) == (first, rest)
    finally:
        lazy.close()
        stepped.close()


steps = st.lists(st.tuples(st.lists(changes, max_size=4), st.sampled_from(STEPS)), max_size=6)


@pytest.mark.thorough
@settings(max_examples=10)
@given(steps)
def test_answers_do_not_depend_on_how_far_the_tables_have_followed(
    script: Steps,
) -> None:
    asyncio.run(play_behind(script))


@pytest.mark.slow
@settings(max_examples=50)
@given(steps)
def test_answers_are_the_same_after_many_more_steps(script: Steps) -> None:
    asyncio.run(play_behind(script))


@given(st.lists(changes, max_size=8), st.lists(changes, max_size=8))
def test_a_copied_ledger_of_documents_changes_independently(
    first: list[tuple[str, int, object]], second: list[tuple[str, int, object]]
) -> None:
    def apply(ledger: Ledger, changes: list[tuple[str, int, object]]) -> None:
        for change in changes:
            ledger.apply(writes_of(ledger, change))

    def answers(ledger: Ledger) -> list[object]:
        asked = [ledger.answer(query) for query in queries()]
        return [ledger.recovered("", 1), ledger.digests(SLOTS), *asked]

    ledger, alone = Ledger(), Ledger()
    apply(ledger, first)
    apply(alone, first)
    copy = ledger.copy()
    apply(ledger, second)
    assert answers(copy) == answers(alone)
    apply(copy, second)
    assert answers(copy) == answers(ledger)
