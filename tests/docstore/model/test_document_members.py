"""The store's own members: one more in their one file is one more member everywhere."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from docstore.http.representation import document_json
from docstore.model.document import Row
from docstore.model.document_members import MEMBERS, STORE_SET
from tests.source import ROOT

LAST = '    StoreMember("documentAuthPrincipalLink", Type.TEXT),\n'
ONE_MORE = '    StoreMember("documentCreatedTimeMicros", Type.TIME, "updated_us"),\n'
LAST_SAID = '        "documentSignature": row.signature.hex(),\n'
ONE_MORE_SAID = '        "documentCreatedTimeMicros": row.updated_us,\n'
RESERVED = "documentAuthPrincipalLink"
SEEN = """
import json
from docstore.http.representation import document_json
from docstore.model.document import Row
from docstore.model.document_members import STORE_SET
from docstore.pipeline import bulk_lines, columns as on_spark
from docstore.pipeline.jobs import exporting
from docstore.query import columns as of_conditions, scans_columns as of_scans
from docstore.reads.scans import cold_slots, feed

row = Row(0, 1, 1, "n1", "/notes/a", 1, "PUT", 7, False, b"", b"", b"", b"{}")
print(json.dumps({
    "a document": list(json.loads(document_json(row, "notes"))),
    "ignored from clients": list(STORE_SET),
    "scans": list(of_scans.COLUMNS), "segments": cold_slots.COLUMNS, "feeds": feed.COLUMNS,
    "conditions": list(of_conditions.COLUMNS),
    "Spark": list(on_spark.ENVELOPE), "a table": on_spark.TABLE, "exports": exporting.COLUMNS,
    "not written back": list(bulk_lines.SET_BY_STORE),
}))
"""


def seen_by(tree: Path) -> dict[str, list[str]]:
    """Return the store's members as each part of the product lists them."""
    ended = subprocess.run(
        [sys.executable, "-c", SEEN], cwd=tree, capture_output=True, text=True, check=True,
    )  # fmt: skip
    found: dict[str, list[str]] = json.loads(ended.stdout)
    return found


@pytest.mark.thorough
def test_a_member_is_added_in_one_file(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    tree = Path(shutil.copytree(ROOT / "docstore", tmp_path / "docstore")).parent
    table = tree / "docstore/model/document_members.py"
    said = table.read_text("utf-8")
    assert said.count(LAST) == said.count(LAST_SAID) == 1
    more = said.replace(LAST, LAST + ONE_MORE).replace(LAST_SAID, LAST_SAID + ONE_MORE_SAID)
    table.write_text(more, "utf-8")
    before, after = seen_by(ROOT), seen_by(tree)
    in_micros, as_time = {"documentCreatedTimeMicros"}, {"documentCreatedTime"}
    assert {where: set(after[where]) - set(before[where]) for where in after} == {
        "a document": in_micros, "ignored from clients": in_micros, "scans": in_micros,
        "segments": in_micros, "feeds": in_micros, "exports": in_micros, "a table": as_time,
        "conditions": in_micros | as_time, "Spark": in_micros | as_time,
        "not written back": in_micros | as_time,
    }  # fmt: skip


@pytest.mark.parametrize("state", [b"{}", b'{"text":"\xc3\xa9"}'])
def test_a_document_has_them_behind_its_own(state: bytes) -> None:
    row = Row(
        5, 41, 3, "n1", '/notes/\u00e9"', 7, "PUT", 1_790_000_000_000_000, False, bytes(16), b"",
        b"", state,
    )  # fmt: skip
    document: dict[str, Any] = json.loads(document_json(row, "example:Note"))
    own = json.loads(state)
    assert list(document) == [*own, *(each.name for each in MEMBERS if each.name != RESERVED)]
    assert document == own | {
        "documentSelfLink": '/notes/\u00e9"', "documentKind": "example:Note",
        "documentVersion": 7, "documentEpoch": 3, "documentOwner": "n1",
        "documentUpdateTimeMicros": 1_790_000_000_000_000, "documentUpdateAction": "PUT",
        "documentSignature": "00" * 16,
    }  # fmt: skip
    assert set(document) - set(own) == STORE_SET - {"documentAuthPrincipalLink"}
