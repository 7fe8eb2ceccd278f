"""The texts of statements are those that SQLAlchemy compiles from their descriptions."""

import sqlite3
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest

from docstore.storage import tables
from docstore.storage.described.texts import FILES, written


@pytest.mark.parametrize("module", FILES)
def test_texts_match_their_descriptions(module: ModuleType) -> None:
    made: dict[str, Any] = {}
    exec(written(module), made)
    kept = vars(import_module(f"docstore.storage.{FILES[module].stem}"))
    again = "run `python -m docstore.storage.described`, then `ruff format docstore/storage`"
    assert {name: made[name] for name in made if name.isupper()} == {
        name: kept[name] for name in kept if name.isupper()
    }, again


def test_an_update_leaves_the_index_of_live_documents_alone() -> None:
    """Spare that index, which with a million documents costs a random page for each row."""
    connection = sqlite3.connect(":memory:")
    for statement in tables.CREATE:
        connection.execute(statement)
    [(root,)] = connection.execute(
        "SELECT rootpage FROM sqlite_schema WHERE name = 'current_live'"
    ).fetchall()

    def removals(statement: str) -> int:
        lines = connection.execute(f"EXPLAIN {statement}", [0] * statement.count("?")).fetchall()
        cursors = {line[2] for line in lines if line[1] == "OpenWrite" and line[3] == root}
        assert cursors
        return sum(line[1] in {"IdxDelete", "Delete"} and line[2] in cursors for line in lines)

    assert removals(tables.POINT[1]), "this one may change whether a document is live"
    assert not removals(tables.ADVANCE[1])
