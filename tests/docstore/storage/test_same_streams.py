"""After the same random writes, two stores of streams give the same answers to all queries."""

import asyncio
import tempfile
from dataclasses import replace
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from docstore.model.streams_batch import BatchHeader
from docstore.storage.partitions import (
    AppendBatches,
    At,
    Batches,
    CutPartition,
    DropPartition,
    ErasePartition,
    Oldest,
    PartitionQuery,
    PartitionRecord,
    PartitionWrite,
    ReplaceBatches,
    SavePartition,
    StreamStore,
    TrimPartition,
)
from docstore.storage.store import Status
from docstore.storage.streams_sqlite import SqliteStreamStore
from tests.docstore.storage.sealed import batch
from tests.memory.partition_ledger import PartitionLedger
from tests.memory.streams_memory import MemoryStreamStore

NAMES = ["a/0@1", "a/1@1", "é/0@2"]
ALL = 1 << 40

names = st.sampled_from(NAMES)
small = st.integers(0, 12)
sizes = st.lists(st.integers(1, 3), max_size=6)
changes = st.one_of(
    st.tuples(st.just("save"), names, small),
    st.tuples(st.just("append"), names, sizes),
    st.tuples(st.just("append"), names, sizes),
    st.tuples(st.just("replace"), names, small),
    st.tuples(st.just("cut"), names, small),
    st.tuples(st.just("trim"), names, small),
    st.tuples(st.just("erase"), names, small),
    st.tuples(st.just("drop"), names, small),
)
scripts = st.lists(st.lists(changes, max_size=5), max_size=6)
Change = tuple[str, str, object]
BEGIN: list[Change] = [
    change for name in NAMES for change in (("save", name, 0), ("append", name, [2, 1, 3, 1]))
]


def headers(ledger: PartitionLedger, name: str) -> list[BatchHeader]:
    found = ledger.answer(Oldest(name, 999))
    assert isinstance(found, list)
    return [each for each in found if isinstance(each, BatchHeader)]


def record(name: str, number: int) -> PartitionRecord:
    ballots = (((number, "n1"), 1),) * (number % 3)
    status = list(Status)[number % 2]
    fields = {"start": number, "high": number + 1, "producers": b"p" * number}
    found = PartitionRecord(name, f"copy{number}", (number, "n2"), (1, "é"), ballots, status=status)
    return replace(found, producers_at=2 * number, **fields)  # type: ignore[arg-type]


def appended(ledger: PartitionLedger, name: str, records: list[int]) -> AppendBatches:
    before = headers(ledger, name)
    end = before[-1].end if before else ledger.recovered(1).partitions[name].record.start
    time_us = before[-1].last_us if before else 5
    raws = []
    for number in records:
        time_us += 3 * number - 3
        raws.append((name, batch(name, end, number, last_us=time_us, size=9 * number)))
        end += number
    return AppendBatches(raws)


def replaced(name: str, found: list[BatchHeader], first: int, number: int) -> list[PartitionWrite]:
    """Return the replacement of some batches by a smaller one, if there are more after them."""
    gone = found[first : first + number]
    if first + number >= len(found):
        return []
    records = gone[-1].end - gone[0].base
    raw = batch(name, gone[0].base, records, last_us=gone[-1].last_us, size=4)
    return [ReplaceBatches(name, raw)]


def writes_of(ledger: PartitionLedger, change: Change) -> list[PartitionWrite]:
    name = change[1]
    found = ledger.recovered(1).partitions.get(name)
    match change:
        case ("drop", _, int(limit)):
            return [DropPartition(name, limit)]
        case ("save", _, int(number)) if found is None or found.record.copy:
            return [SavePartition(record(name, number))]
        case ("save" | "erase", _, int(number)) if found:
            return [ErasePartition(name), SavePartition(record(name, number))]
        case ("append", _, list(records)) if found and found.record.copy:
            return [appended(ledger, name, records)]
        case ("replace", _, int(number)) if found:
            return replaced(name, headers(ledger, name), number % 4, number % 3 + 1)
        case ("cut", _, int(number)) if found:
            edges = [header.base for header in headers(ledger, name)]
            return [CutPartition(name, [*edges, found.end, 999][-1 - number % (len(edges) + 2)])]
        case ("trim", _, int(number)) if found:
            return [TrimPartition(name, found.end - number // 2, 1 + number % 4)]
    return []


def queries() -> list[PartitionQuery]:
    asked: list[PartitionQuery] = []
    for name in (*NAMES, "none/0@1"):
        asked += [Batches(name, first, until) for first in (0, 3, 7) for until in (4, 8, ALL)]
        asked += [Batches(name, 0, ALL, 150), Batches(name, 5, ALL, 300), Batches(name, 2, ALL, 0)]
        asked += [At(name, us) for us in (0, 5, 6, 9, 12, 15, 21, ALL)]
        asked += [Oldest(name, limit) for limit in (0, 1, 3, 99)]
    return asked


async def play(script: list[list[Change]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "db"
        memory, sqlite = MemoryStreamStore(), SqliteStreamStore(path, synchronous="OFF")
        await memory.open()
        await sqlite.open()

        async def answers_of(store: StreamStore) -> object:
            return await store.read(queries())

        try:
            for changes in [BEGIN, *script]:
                # A copied ledger gives the state from which each write of the commit continues.
                ledger = memory.ledger.copy()
                writes: list[PartitionWrite] = []
                for change in changes:
                    more = writes_of(ledger, change)
                    writes += more
                    ledger.apply(more)
                await memory.commit(writes)
                await sqlite.commit(writes)
                assert await answers_of(sqlite) == await answers_of(memory)
            await sqlite.close()
            sqlite = SqliteStreamStore(path, synchronous="OFF")
            assert await sqlite.open() == await memory.open()
            assert await answers_of(sqlite) == await answers_of(memory)
        finally:
            await sqlite.close()


@settings(max_examples=60)
@given(scripts)
def test_stores_of_streams_agree_after_the_same_writes(script: list[list[Change]]) -> None:
    asyncio.run(play(script))


@given(st.lists(changes, max_size=8), st.lists(changes, max_size=8))
def test_a_copied_ledger_of_streams_changes_independently(
    first: list[Change], second: list[Change]
) -> None:
    def apply(ledger: PartitionLedger, changes: list[Change]) -> None:
        for change in changes:
            ledger.apply(writes_of(ledger, change))

    def answers(ledger: PartitionLedger) -> list[object]:
        return [ledger.recovered(1), *(ledger.answer(query) for query in queries())]

    ledger, alone = PartitionLedger(), PartitionLedger()
    apply(ledger, first)
    apply(alone, first)
    copy = ledger.copy()
    apply(ledger, second)
    assert answers(copy) == answers(alone)
    apply(copy, second)
    assert answers(copy) == answers(ledger)
