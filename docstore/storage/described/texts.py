"""The texts of statements, as Python."""

from pathlib import Path
from textwrap import TextWrapper
from types import ModuleType

from docstore.storage.described import branches, documents, streams

_STORAGE = Path(__file__).parent.parent
FILES = {
    documents: _STORAGE / "tables.py",
    streams: _STORAGE / "partition_tables.py",
    branches: _STORAGE / "branch_tables.py",
}
"""Module that describes statements -> the file of their texts."""

_LINES = {
    "INSERT_ROW": "MANY_ROWS",
    "POINT": "MANY_ROWS",
    "ADVANCE": "MANY_ROWS",
    "INSERT_BATCH": "MANY",
    "SAVE_PARTITION": "MANY",
    "SAVE_TAIL": "MANY",
}
"""INSERT of one line -> the most lines that a statement inserts."""
_WIDTH = 88


def written(module: ModuleType) -> str:
    """Return the Python of a file: a constant for each statement of a module."""
    texts = {
        name: text
        for name, text in vars(module).items()
        if name.isupper() and not name.startswith("_") and isinstance(text, str | list)
    }
    used = sorted({_LINES[name] for name in texts if name in _LINES})
    inserts = f"from docstore.storage.inserts import {', '.join([*used, 'inserts'])}\n\n"
    told = f"Texts of the statements that `{module.__name__.removeprefix('docstore.')}` describes."
    head = f'"""{told} Do not edit."""\n\n{inserts if used else ""}'
    return head + "".join(f"{name} = {_value(name, text)}\n" for name, text in texts.items())


def _value(name: str, text: str | list[str]) -> str:
    if isinstance(text, list):
        return f"[{', '.join(map(_literal, text))}]"
    literal = _literal(text)
    return f"inserts({literal}, {_LINES[name]})" if name in _LINES else literal


def _literal(text: str) -> str:
    """Return a text as literals, one or more for each of its lines."""
    parts = [part for line in text.splitlines(keepends=True) for part in _wrapped(line)]
    assert "".join(parts) == text
    literals = "\n".join(map(repr, parts))
    return f"({literals})"


_wrapped = TextWrapper(
    _WIDTH, drop_whitespace=False, replace_whitespace=False, expand_tabs=False
).wrap
