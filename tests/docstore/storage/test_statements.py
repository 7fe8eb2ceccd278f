"""The texts of statements are those that SQLAlchemy makes of their descriptions."""

from importlib import import_module
from types import ModuleType
from typing import Any

import pytest

from docstore.storage.described.texts import FILES, written


@pytest.mark.parametrize("module", FILES)
def test_texts_are_what_is_described(module: ModuleType) -> None:
    made: dict[str, Any] = {}
    exec(written(module), made)
    kept = vars(import_module(f"docstore.storage.{FILES[module].stem}"))
    again = "run `python -m docstore.storage.described`, then `ruff format docstore/storage`"
    assert {name: made[name] for name in made if name.isupper()} == {
        name: kept[name] for name in kept if name.isupper()
    }, again
