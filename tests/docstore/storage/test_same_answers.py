"""After the same random writes, two stores give the same answers to everything."""

import asyncio
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from docstore.storage.ledger import Ledger
from docstore.storage.memory import MemoryStore
from docstore.storage.store import Write
from tests.docstore.storage.scripts import SLOTS, changes, queries, scripts, told, writes_of
from tests.docstore.storage.small import small


async def play(script: list[list[tuple[str, int, object]]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        memory, sqlite = MemoryStore(), small(Path(folder) / "db")
        await memory.open()
        await sqlite.open()
        try:
            for batch in script:
                # What a ledger of its own holds tells how each write of the batch goes on.
                ledger = memory._ledger.copy()
                writes: list[Write] = []
                for change in batch:
                    more = writes_of(ledger, change)
                    writes += more
                    ledger.apply(more)
                await memory.commit(writes)
                await sqlite.commit(writes)
                assert await told(sqlite) == await told(memory)
            await sqlite.close()
            await memory.open()
            sqlite = small(Path(folder) / "db")
            await sqlite.open()
            assert await told(sqlite) == await told(memory)
        finally:
            await sqlite.close()


@settings(max_examples=60)
@given(scripts)
def test_stores_agree_after_the_same_writes(script: list[list[tuple[str, int, object]]]) -> None:
    asyncio.run(play(script))


@given(st.lists(changes, max_size=8), st.lists(changes, max_size=8))
def test_a_copy_of_a_ledger_goes_its_own_way(
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
