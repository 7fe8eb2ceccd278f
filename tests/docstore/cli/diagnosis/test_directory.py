"""Findings in a stopped node's directory, which the examination does not change."""

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from docstore.cli.diagnosis.directory import Found, examine
from docstore.cli.diagnosis.finding import RISK, WRONG, Grade
from docstore.cli.directory import look
from docstore.client import LocalCluster
from docstore.storage.migrations import DOCUMENTS, STREAMS
from tests.docstore.cli.diagnosis.places import is_a_place


@pytest.mark.parametrize(
    ("members", "grade", "words"),
    [
        ({"is_node": False}, WRONG, "no data directory"),
        ({"unrestored": "a restore has not come to its end"}, WRONG, "not come to its end"),
        ({"runs": True, "damage": "x"}, WRONG, "a running node uses this"),
        ({"damage": "row 7"}, WRONG, "its disk is damaged: row 7"),
        ({"unreadable": {"streams.db": "not a database"}}, WRONG, "streams.db: not a database"),
        ({"formats": {"documents": (4, 3)}}, WRONG, "format 4; this version reads up to 3"),
        ({"was_killed": True}, RISK, "the node was killed"),
        ({"was_killed": True, "has_journal": False}, WRONG, "its journal is gone"),
        ({"faulty_slots": 2}, WRONG, "2 slots failed a checksum"),
        ({"no_room_in": "/tmp"}, RISK, "does not fit in /tmp"),
        ({"lacks_life": True}, RISK, "streams.db.life is gone"),
        ({"free_bytes": 100 << 20}, RISK, "100 MiB left"),
        ({"free_bytes": 1 << 20, "start_bytes": 160 << 20, "has_ballast": False}, WRONG,
         "1 MiB left, and a start needs 160"),
        ({"open_files": ("docstore.db",)}, RISK, "may read docstore.db"),
    ],
)  # fmt: skip
def test_each_fault_of_a_directory_is_found(
    members: dict[str, Any], grade: Grade, words: str
) -> None:
    [found] = examine(replace(Found(), **members))
    assert found.grade is grade
    assert words in found.what
    assert is_a_place(found.see)


def test_a_healthy_directory_has_no_findings() -> None:
    assert examine(Found(formats={"documents": (3, 3)}, start_bytes=160 << 20)) == []


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Yield a node that has run; the test examines its directory in several states."""
    with LocalCluster(1, tmp_path_factory.mktemp("node")) as found:
        yield found


def findings(data: Path) -> list[str]:
    """Examine a directory; check that nothing in it has changed."""
    before = {each: each.stat().st_mtime_ns for each in sorted(data.rglob("*"))}
    found = [each.what for each in examine(look(data)) if "MiB left" not in each.what]
    assert {each: each.stat().st_mtime_ns for each in sorted(data.rglob("*"))} == before
    return found


def test_real_directories_have_their_findings(group: LocalCluster, tmp_path: Path) -> None:
    [node] = group.nodes
    assert examine(look(tmp_path))[0].what.startswith("this is no data directory")
    assert findings(node.data) == ["a running node uses this directory, so it cannot be examined"]
    group.kill(node)
    [killed] = findings(node.data)
    assert "the node was killed" in killed
    group.start(node)
    group.wait_ready()
    group.stop()
    assert findings(node.data) == []
    found = look(node.data)
    assert found.formats == {
        "documents": (DOCUMENTS.format, DOCUMENTS.format),
        "streams": (STREAMS.format, STREAMS.format),
    }
    (node.data / "streams.db.life").unlink()
    (node.data / "damaged").write_text("row 7 of slot 3\n")
    with closing(sqlite3.connect(node.data / "docstore.db")) as tables:
        tables.execute("UPDATE slots SET status = 'faulty' WHERE slot < 2")
        tables.execute("UPDATE journal SET alone = 0")
        tables.commit()
        killed_then = shutil.copytree(node.data, tmp_path / "killed")
        tables.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with (killed_then / "docstore.db").open("r+b") as file:
        file.seek(8192)  # After the first two pages, in content that no log has.
        file.write(b"damaged " * 4096)
    assert any(each.startswith("docstore.db: ") for each in findings(killed_then))
    for file in (node.data / "docstore.db.journal").glob("*"):
        file.unlink()
    damaged = findings(node.data)
    assert "the node stopped because its disk is damaged: row 7 of slot 3" in damaged
    assert any("its journal is gone" in each for each in damaged)
    assert any("streams.db.life is gone" in each for each in damaged)
    assert any("2 slots failed a checksum" in each for each in damaged)
    (node.data / "docstore.db").write_bytes(b"no database at all, and long enough for a page")
    assert any("docstore.db: file is not a database" in each for each in findings(node.data))
