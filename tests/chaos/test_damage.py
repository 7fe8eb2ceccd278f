"""Torture damages files as it says."""

import shutil
from pathlib import Path
from random import Random

import pytest

from docstore.errors import StoreDamaged
from docstore.storage import journalling
from tests.chaos import damage
from tests.docstore.storage.logs import Author
from tests.docstore.storage.small import small


async def _killed(directory: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a copy of a node's files from a moment at which the tables lacked all that counts."""
    path = directory / "node" / damage.TABLES
    path.parent.mkdir()
    monkeypatch.setattr(journalling, "FOLLOW_S", 3600)
    store, author = small(path), Author()
    await store.open()
    for _ in range(5):
        await author.append(store, 1, "/notes/a")
    left = shutil.copytree(path.parent, directory / "killed")
    await store.close()
    return Path(left)


async def test_a_bit_of_the_journal_that_counts_ends_a_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = await _killed(tmp_path, monkeypatch)
    before = {path: path.read_bytes() for path in (left / damage.JOURNAL).iterdir()}
    damage.flip_in_journal(left, Random(3))
    assert sum(path.read_bytes() != content for path, content in before.items()) == 1
    with pytest.raises(StoreDamaged, match="is missing, but"):
        await small(left / damage.TABLES).open()


async def test_halves_of_a_copy_are_put_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = await _killed(tmp_path, monkeypatch)
    node = tmp_path / "node"
    damage.put_back_part(left, node, damage.TABLES)
    store = small(node / damage.TABLES)
    assert (await store.open()).slots[1].end == 5
    await store.close()
    damage.put_back_part(left, node, damage.JOURNAL)
    store = small(node / damage.TABLES)
    assert (await store.open()).slots[1].end == 5, "tables that were closed need no journal"
    await store.close()
