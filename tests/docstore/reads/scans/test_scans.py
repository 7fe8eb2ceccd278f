"""Scans of a real node: the segments that it keeps of slots at rest, and for how long."""

import json
import sqlite3
import urllib.request
from pathlib import Path

import pytest

from docstore.client import LocalCluster
from docstore.client.local import LocalNode
from docstore.model.document import Row, chain_digest
from docstore.model.slots import slot_of
from docstore.reads.scans.pool import has_arrow
from docstore.storage.database_threads import PRAGMAS
from docstore.storage.store import Append, SaveSlot, SlotRecord
from docstore.storage.writing import Writer
from tests.docstore.watching import metrics, page_of, until

SLOTS = 4
ARROW = "application/vnd.apache.arrow.stream"

pytestmark = pytest.mark.skipif(not has_arrow(), reason="segments need pyarrow")


def fill(file: Path, count: int) -> None:
    """Put documents into the file of a node that is stopped, as if they had come long ago."""
    connection = sqlite3.connect(file, isolation_level=None)
    for pragma in PRAGMAS:
        connection.execute(f"PRAGMA {pragma}")
    ends = dict(connection.execute("SELECT slot, max(n) FROM history GROUP BY slot").fetchall())
    rows = []
    for number in range(count):
        link, state = f"/notes/{number}", b'{"text":"precious"}'
        slot = slot_of(link, SLOTS)
        n = ends[slot] = ends.get(slot, 0) + 1
        digest = chain_digest(b"", link, 0, False, state)
        rows.append(Row(slot, n, 1, "n1", link, 0, "PUT", n, False, b"", b"", digest, state))
    ballot = (1, "n1")
    records = [
        SaveSlot(SlotRecord(slot, ballot, ballot, ((ballot, 1),), 0, -1, n))
        for slot, n in ends.items()
    ]
    Writer(connection, Path(f"{file}-wal")).commit([Append(rows), *records])
    connection.close()


def scanned(node: LocalNode, cut: list[tuple[int, int]]) -> list[tuple[str, str]]:
    """Return (link, text) of the documents of a cut."""
    import pyarrow as pa

    asked = {"prefix": "/notes/", "cut": cut, "columns": ["documentSelfLink", "body"]}
    headers = {"Content-Type": "application/json", "Accept": ARROW}
    request = urllib.request.Request(
        f"{node.url}/core/spark/scan", json.dumps(asked).encode(), headers
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        with pa.ipc.open_stream(answer) as reader:
            rows = reader.read_all().to_pylist()
        assert json.loads(answer.read())["rows"] == len(rows)
    return sorted((row["documentSelfLink"], json.loads(row["body"])["text"]) for row in rows)


def test_segments_last_until_damage_is_found_or_the_node_starts_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCSTORE_REPAIR_INTERVAL_S", "1")
    cluster = LocalCluster(1, tmp_path, ["--slots", str(SLOTS)])
    [node] = cluster.nodes
    segments = node.data / "segments"

    def damages_seen() -> set[int]:
        heads = [file.read_bytes()[19:].partition(b"]")[0] for file in segments.iterdir()]
        return {json.loads(head + b"]")[0] for head in heads}

    with cluster:
        body = json.dumps({"path": "/notes"}).encode()
        kind = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{node.url}/core/factories", body, kind)
        urllib.request.urlopen(request, timeout=10).close()
    fill(node.data / "docstore.db", 40)
    wanted = [(f"/notes/{number}", "precious") for number in range(40)]
    with cluster:
        ends = page_of(f"{node.url}/core/spark/plan")["ends"]
        assert isinstance(ends, list)
        cut = list(enumerate(ends))
        assert scanned(node, cut) == sorted(wanted)
        assert len(list(segments.iterdir())) == SLOTS
    with cluster:
        assert not segments.exists()
        assert scanned(node, cut) == sorted(wanted)
        assert damages_seen() == {0}
        with sqlite3.connect(node.data / "docstore.db") as disk:
            disk.execute("UPDATE history SET state = 'precioux' WHERE link = '/notes/7'")
        disk.close()
        until(lambda: metrics(node).get("docstore_repair_corrupt_total", 0) > 0, 30.0)
        damaged = slot_of("/notes/7", SLOTS)
        for file in segments.glob(f"{damaged}-*"):
            file.unlink()
        found = scanned(node, [span for span in cut if span[0] != damaged])
        assert found == sorted(each for each in wanted if slot_of(each[0], SLOTS) != damaged)
        assert damages_seen() == {1}
