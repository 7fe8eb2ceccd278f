"""A group with a million documents, made in half a minute: rows are put where a node keeps them.

Reading and writing are measured, not the load; so the documents do not come over HTTP.
"""

import json
import sqlite3
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from docstore.client.local import LocalCluster
from docstore.model.document import Row, chain_digest
from docstore.model.slots import slot_of
from docstore.pipeline.group_client import GroupClient
from docstore.storage.database_threads import PRAGMAS
from docstore.storage.store import Append, SaveSlot, SlotRecord
from docstore.storage.writing import Writer

FACTORY = "/orders"
SLOTS = 1024
BATCH = 5000
CITIES, STATES = ("Berlin", "Paris", "Rome"), ("open", "paid", "sent")
NOTE = "some text that fills the document to about two hundred bytes, as they are"


def body(number: int, version: int = 0) -> bytes:
    """Return a document of about 200 bytes."""
    value = {
        "id": number, "status": STATES[(number + version) % 3], "total": number % 1000 + 0.5,
        "customer": f"customer-{number % 9973:05d}", "city": CITIES[number % 3], "note": NOTE,
    }  # fmt: skip
    return json.dumps(value, separators=(",", ":")).encode()


def rows(documents: int, versions: int, ends: dict[int, int]) -> Iterator[Row]:
    """Yield the rows of all versions, in the order of writing."""
    began_us = time.time_ns() // 1000 - documents * versions - 60_000_000
    digests: dict[str, bytes] = {}
    for version in range(versions):
        for number in range(documents):
            link = f"{FACTORY}/{number:07d}"
            slot = slot_of(link, SLOTS)
            n = ends[slot] = ends.get(slot, 0) + 1
            state = body(number, version)
            digest = chain_digest(digests.get(link, b""), link, version, False, state)
            if versions > 1:
                digests[link] = digest
            began_us += 1
            marks = (False, b"", b"", digest, state)
            yield Row(slot, n, 1, "n1", link, version, "PUT", began_us, *marks)


def fill(file: Path, documents: int, versions: int) -> None:
    """Put documents into the file of a node that is stopped."""
    connection = sqlite3.connect(file, isolation_level=None)
    for pragma in (*PRAGMAS, "synchronous = OFF", "cache_size = -200000"):
        connection.execute(f"PRAGMA {pragma}")
    [(done,)] = connection.execute("SELECT coalesce(max(n), 0) FROM history").fetchall()
    assert done <= 1, "the file is not new"
    writer = Writer(connection, Path(f"{file}-wal"))
    ends: dict[int, int] = dict(connection.execute("SELECT slot, n FROM history").fetchall())
    batch: list[Row] = []
    for row in rows(documents, versions, ends):
        batch.append(row)
        if len(batch) == BATCH:
            writer.commit([Append(batch)])
            batch = []
    ballot = (1, "n1")
    records = [
        SaveSlot(SlotRecord(slot, ballot, ballot, ((ballot, 1),), 0, -1, n))
        for slot, n in ends.items()
    ]
    writer.commit([Append(batch), *records] if batch else records)
    writer.copy_back("TRUNCATE")
    connection.close()


@contextmanager
def group(
    nodes: int, documents: int, *, versions: int = 1, settings: Sequence[str] = ()
) -> Iterator[LocalCluster]:
    """Run a group whose nodes all hold the documents."""
    with tempfile.TemporaryDirectory(prefix="docstore-bench-") as directory:
        flags = ["--slots", str(SLOTS), *settings]
        cluster = LocalCluster(nodes, Path(directory), flags)
        with cluster:
            GroupClient(cluster.urls).json("POST", "/core/factories", {"path": FACTORY})
        for node in cluster.nodes:
            fill(node.data / "docstore.db", documents, versions)
        with cluster:
            yield cluster
