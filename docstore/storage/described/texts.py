"""The texts of statements, as Python."""

from pathlib import Path
from textwrap import TextWrapper
from types import ModuleType

from docstore.storage.described import branches, documents, schema, streams

_STORAGE = Path(__file__).parent.parent
FILES = {
    documents: _STORAGE / "tables.py",
    streams: _STORAGE / "partition_tables.py",
    branches: _STORAGE / "branch_tables.py",
}
"""Module that describes statements -> the file of their texts."""

_ROWS = {
    documents: ", ".join(map(str, schema.history.columns)),
    branches: ", ".join(map(str, branches.row_columns)),
}
"""Module -> the columns of its rows, which its file names once."""
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
        if name.isupper() and isinstance(text, str | list)
    }
    row = _ROWS.get(module)
    used = sorted({_LINES[name] for name in texts if name in _LINES})
    inserts = f"from docstore.storage.inserts import {', '.join([*used, 'inserts'])}\n\n"
    told = f"Texts of the statements that `{module.__name__.removeprefix('docstore.')}` describes."
    head = f'"""{told} Do not edit."""\n\n{inserts if used else ""}'
    head += f"_ROW = {_literal(row)}\n" if row else ""
    return head + "".join(f"{name} = {_value(name, text, row)}\n" for name, text in texts.items())


def _value(name: str, text: str | list[str], row: str | None) -> str:
    if isinstance(text, list):
        return f"[{', '.join(map(_literal, text))}]"
    literal = _literal(text.replace(row, "{_ROW}") if row else text)
    return f"inserts({literal}, {_LINES[name]})" if name in _LINES else literal


def _literal(text: str) -> str:
    parts = _wrapped(text)
    assert "".join(parts) == text
    literals = "\n".join("f" * ("{" in part) + repr(part) for part in parts)
    return f"({literals})"


_wrapped = TextWrapper(_WIDTH, drop_whitespace=False, break_long_words=False).wrap
