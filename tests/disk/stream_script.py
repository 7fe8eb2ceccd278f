"""Scripts of writes to a disk of streams: commits of every kind, and the content after each.

The same functions as in `script.py`, so that the same cuts and failures are played on both.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any, cast

from docstore.model.streams_batch import BatchHeader
from docstore.storage import partition_reading
from docstore.storage.described.streams import metadata
from docstore.storage.inserts import MANY
from docstore.storage.partition_writing import PartitionWriter
from docstore.storage.partitions import (
    AppendBatches,
    At,
    Batches,
    CorruptPartition,
    CutPartition,
    DropPartition,
    ErasePartition,
    Oldest,
    PartitionQuery,
    PartitionRecord,
    PartitionWrite,
    ReplaceBatches,
    SavePartition,
    TrimPartition,
)
from tests.docstore.storage.sealed import batch
from tests.memory.partition_ledger import PartitionLedger

NO_FILE = Path("/nonexistent/streams.db-wal")
NAMES = ("flights/0@1", "flights/1@1", "notes/0@2")


def batches(rng: Random, number: int) -> list[list[PartitionWrite]]:
    """Return commits as a node makes them: batches, promises, cuts, trims, drops."""
    ledger = PartitionLedger()
    script: list[list[PartitionWrite]] = []

    def add(*writes: PartitionWrite) -> None:
        ledger.apply(writes)
        script.append(list(writes))

    add(*(SavePartition(PartitionRecord(name, "copy0")) for name in NAMES))
    for turn in range(1, number):
        name = rng.choice(NAMES)
        record = PartitionRecord(name, f"copy{turn}", (turn, "n1"), producers=bytes(turn))
        kept = [header.base for header in _headers(ledger, name)]
        chance = rng.random()
        if name not in ledger.recovered(1).partitions:
            add(SavePartition(record))
        elif not ledger.recovered(1).partitions[name].record.copy:
            add(DropPartition(name, 3))
        elif chance < 0.1 and len(kept) > 3:
            edge = kept[rng.randrange(1, len(kept))]
            again = batch(name, edge, 2, last_us=1 << 50, size=rng.choice((5, 5000)))
            add(CutPartition(name, edge), AppendBatches([(name, again)]))
        elif chance < 0.15 and len(kept) > 2:
            first = rng.randrange(len(kept) - 1)
            last = rng.randrange(first + 1, len(kept))
            records = kept[last] - kept[first]
            again = batch(name, kept[first], records, last_us=1 << 50, size=rng.choice((5, 5000)))
            add(ReplaceBatches(name, again))
        elif chance < 0.2 and kept:
            add(TrimPartition(name, rng.choice(kept), 3))
        elif chance < 0.25:
            add(ErasePartition(name), SavePartition(record), _appended(rng, ledger, (name,), True))
        elif chance < 0.3 and kept:
            add(DropPartition(name, 3))
        else:
            living = [each for each in NAMES if _is_living(ledger, each)]
            some = rng.sample(living, rng.randrange(1, len(living) + 1))
            saved = [SavePartition(record)] if chance > 0.8 else []
            add(_appended(rng, ledger, some, False), *saved)
    return script


def _is_living(ledger: PartitionLedger, name: str) -> bool:
    found = ledger.recovered(1).partitions.get(name)
    return found is not None and bool(found.record.copy)


def _headers(ledger: PartitionLedger, name: str) -> list[BatchHeader]:
    found = ledger.answer(Oldest(name, 1 << 40))
    assert isinstance(found, list)
    return [each for each in found if isinstance(each, BatchHeader)]


def _appended(
    rng: Random, ledger: PartitionLedger, names: Sequence[str], is_anew: bool
) -> AppendBatches:
    """Return an append; one of twenty has enough batches for statements of many lines."""
    raws: list[tuple[str, bytes]] = []
    for name in names:
        end = 0 if is_anew else ledger.recovered(1).partitions[name].end
        for _ in range(2 * MANY if rng.random() < 0.05 else rng.randrange(1, 4)):
            records = rng.randrange(1, 4)
            size = rng.choice((5, 80, 700, 5000)) if len(raws) < MANY else 5
            raws.append((name, batch(name, end, records, last_us=1 << 50, size=size)))
            end += records
    return AppendBatches(raws)


def prepared(connection: Any) -> PartitionWriter:
    """Return the writer of a file, which it creates or takes over."""
    writer = PartitionWriter(cast("sqlite3.Connection", connection), NO_FILE)
    writer.prepare(1)
    return writer


def content(connection: Any) -> int:
    """Return a digest of the content of all tables."""
    parts: list[Any] = []
    for table in metadata.sorted_tables:
        # The number of starts changes with each.
        columns = [each.name for each in table.columns
                   if table.name != "file" or each.name in ("format", "schema")]  # fmt: skip
        named = ", ".join(f'"{name}"' for name in columns)
        lines = connection.execute(f"SELECT {named} FROM {table.name} ORDER BY 1").fetchall()
        parts.append((table.name, tuple(tuple(line) for line in lines)))
    return hash(tuple(parts))


def expected(script: Sequence[Sequence[PartitionWrite]]) -> list[int]:
    """Return the content after each number of commits, from 0 on, on a disk that never fails."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    try:
        writer = prepared(connection)
        found = [content(connection)]
        for writes in script:
            writer.commit(writes)
            found.append(content(connection))
        return found
    finally:
        connection.close()


def answers(connection: Any) -> Iterator[tuple[PartitionQuery, object]]:
    """Yield the queries of a node, with their answers; None for an answer that reports damage."""
    for name in NAMES:
        for query in (Batches(name, 0, 1 << 40, 1 << 30), At(name, 1 << 49), Oldest(name, 99)):
            [result] = partition_reading.answer(connection, [query])
            yield query, None if isinstance(result, CorruptPartition) else result
