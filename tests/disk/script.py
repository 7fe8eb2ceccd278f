"""Scripts of writes to a disk: batches of every kind, and the content after each."""

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any, cast

from docstore.storage import reading, tables
from docstore.storage.described.schema import metadata
from docstore.storage.inserts import MANY
from docstore.storage.replication_log import Arrive, BranchStatus, SaveCursor, SetStatus
from docstore.storage.store import (
    Append,
    Corrupt,
    Newest,
    Purge,
    Query,
    Rows,
    SaveConfiguration,
    SaveSlot,
    SlotRecord,
    Trim,
    Truncate,
    Write,
)
from docstore.storage.writing import Writer
from tests.disk.connection import Connection
from tests.docstore.storage.logs import Author

NO_FILE = Path("/nonexistent/docstore.db-wal")
"""The log has no file here: it is copied back by the number of changes."""
SLOTS = (1, 2, 700)


def batches(rng: Random, number: int) -> list[list[Write]]:
    """Return batches as a node writes them: rows and promises, cuts, trims, versions, cursors.

    One of twenty is large: enough rows and links for statements of many lines.
    """
    author = Author()
    arrived = 0
    script: list[list[Write]] = []
    for turn in range(number):
        batch: list[Write] = []
        slot = rng.choice(SLOTS)
        is_load = rng.random() < 0.05
        count, links = (2 * MANY, 200) if is_load else (rng.randrange(1, 6), 5)
        rows = [
            author.row(slot, f"/notes/{slot}-{rng.randrange(links)}", state=_state(rng),
                       deleted=rng.random() < 0.2)
            for _ in range(count)
        ]  # fmt: skip
        batch.append(Append(rows))
        if rng.random() < 0.3:
            batch.append(SaveSlot(SlotRecord(slot, (turn, "n1"), (turn, "n1"), decided=turn)))
        if rng.random() < 0.2:
            for _ in range(rng.randrange(1, 4)):
                arrived += 1
                row = author.row(9, f"/carts/{rng.randrange(3)}", state=_state(rng))
                batch.append(Arrive(row._replace(n=arrived), BranchStatus.WINNER))
            batch += [SetStatus(arrived, BranchStatus.LOSER), SaveCursor("disk", 1, arrived)]
        if rng.random() < 0.1:
            batch.append(SaveConfiguration(b"%d" % turn * 20))
        script.append(batch)
        if rng.random() < 0.15 and author.ends.get(slot, 0) > 4:
            script.append(_removal(rng, author, slot))
    return script


def _removal(rng: Random, author: Author, slot: int) -> list[Write]:
    """Trim, purge, or cut off the last row and write another in its place."""
    end = author.ends[slot]
    if rng.random() < 0.5:
        kept = end - 2
        dead = [
            (row.link, row.version)
            for row in author.newest.values()
            if row.slot == slot and row.deleted and row.n <= kept
        ]
        record = SaveSlot(SlotRecord(slot, kept=kept, floor=50))
        versions = {"/notes": 2} if slot % 2 else {}
        return [Trim(slot, 0, kept, versions), Purge(slot, dead), record]
    author.ends[slot] = end - 1
    # Under a link of its own, so that no version has to be undone.
    return [Truncate(slot, end - 1), Append([author.row(slot, f"/notes/{slot}-cut{end}")])]


def _state(rng: Random) -> bytes:
    return b'{"text":"%b"}' % (b"x" * rng.choice((5, 80, 700, 5000)))


def prepared(connection: Connection) -> Writer:
    """Return the writer of a file, which it creates or takes over."""
    raw = cast("sqlite3.Connection", connection)
    writer = Writer(raw, NO_FILE)
    writer.prepare("store")
    return writer


def content(connection: Any) -> int:
    """Return a digest of the content of all tables."""
    parts: list[Any] = []
    for table in metadata.sorted_tables:
        if table.name == "journal":
            continue  # The tables' place in it is no content, and its key is random.
        # The number of starts changes with each.
        columns = [each.name for each in table.columns
                   if table.name != "node" or each.name not in ("boot", "checksum")]  # fmt: skip
        named = ", ".join(f'"{name}"' for name in columns)
        lines = connection.execute(f"SELECT {named} FROM {table.name} ORDER BY 1, 2, 3").fetchall()
        parts.append((table.name, tuple(tuple(line) for line in lines)))
    return hash(tuple(parts))


def expected(script: Sequence[Sequence[Write]]) -> list[int]:
    """Return the content after each number of batches, from 0 on, on a disk that never fails."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    try:
        writer = Writer(connection, NO_FILE)
        writer.prepare("store")
        found = [content(connection)]
        for batch in script:
            writer.commit(batch)
            found.append(content(connection))
        return found
    finally:
        connection.close()


def answers(connection: Any) -> Iterator[tuple[Query, object]]:
    """Yield the queries of a node, with their answers; None for an answer that reports damage."""
    asked: list[Query] = []
    for slot in SLOTS:
        asked.append(Rows(slot, 1, 1 << 40))
        asked += [Newest(slot, f"/notes/{slot}-{number}", 1 << 40) for number in range(5)]
    for query in asked:
        [result] = reading.answer(connection, [query])
        yield query, None if isinstance(result, Corrupt) else result


assert tables.CREATE, "the tables are the product's"
