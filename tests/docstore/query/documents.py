"""Documents of every shape, what conditions mean for them in plain Python, and a table of them."""

import json
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

CHARACTERS = st.characters(exclude_categories=("Cs",), exclude_characters="\0")
"""Of the texts of documents."""
Path = Sequence[str | int]
Document = Mapping[str, Any]

TEXTS = [
    "", "x", "xy", "yx", "x*", "*", "**", "x*y", "X", "O'Neil", "''", "'", "%", "_", "a%b", "[a]",
    "a?b", "\\", "a\\*b", "é", "e\u0301", "😀", "\ufeff", "null", "1", "true", "' OR 1=1 --",
    "'; DROP TABLE history; --", '"', "`", "a\tb", "a\nb", "$.n", "?", "?1", ":n", "@n", "--", "/*",
]  # fmt: skip
"""What a text may be, most of it with a meaning to something that it passes through."""
NUMBERS = [0, 1, -1, 2, 10, 2**53 + 1, 2**63 - 1, -(2**63), 0.5, -0.5, 1.0, 1e300]
VALUES: list[Any] = [None, True, False, *NUMBERS, *TEXTS, [], {}, ["x", 1], {"b": "x"}]


def documents() -> list[dict[str, Any]]:
    """Return some documents; among them each value as each member."""
    made: list[dict[str, Any]] = [{}]
    for number, value in enumerate(VALUES):
        other = VALUES[(number * 7 + 3) % len(VALUES)]
        made.append({"s": value, "n": number % 5, "a": {"b": other}, "é": value})
        made.append({"n": value, "tags": [value, other, number % 3], "a": value})
    return made


def member(document: Document, path: Path) -> Any:
    """Return a member, None if it is not there."""
    value: Any = document
    for step in path:
        if isinstance(step, int):
            value = value[step] if isinstance(value, list) and step < len(value) else None
        else:
            value = value.get(step) if isinstance(value, Mapping) else None
    return value


def is_alike(value: Any, literal: Any) -> bool:
    """Say whether a value has the type of a literal."""
    if isinstance(literal, bool) or isinstance(value, bool):
        return isinstance(literal, bool) and isinstance(value, bool)
    if isinstance(literal, str):
        return isinstance(value, str)
    return isinstance(value, int | float)


def compares(value: Any, operator: str, literal: Any) -> bool:
    """Say whether a comparison is true, as OData has it."""
    if operator == "ne":
        return not compares(value, "eq", literal)
    if not is_alike(value, literal):
        return False
    return bool(
        {
            "eq": lambda: value == literal, "gt": lambda: value > literal,
            "ge": lambda: value >= literal, "lt": lambda: value < literal,
            "le": lambda: value <= literal,
        }[operator]()
    )  # fmt: skip


def quoted(text: str) -> str:
    """Return a text as a literal."""
    return "'" + text.replace("'", "''") + "'"


class Table:
    """Documents in SQLite, as conditions and orders name them."""

    def __init__(self, made: Sequence[Document]) -> None:
        self.documents = list(made)
        self._connection = sqlite3.connect(":memory:")
        self._connection.execute("CREATE TABLE h (link TEXT, version INT, slot INT, state BLOB)")
        self._rows = 0
        for each in made:
            self.put(json.dumps(each).encode())

    def put(self, state: bytes) -> None:
        """Add a document as it is stored."""
        row = (f"/a/{self._rows:04}", 0, 0, state)
        self._connection.execute("INSERT INTO h VALUES (?, ?, ?, ?)", row)
        self._rows += 1

    def rows(self, sql: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Return the rows of a statement."""
        return self._connection.execute(sql, tuple(parameters)).fetchall()

    def found(self, sql: str, parameters: Sequence[Any]) -> set[int]:
        """Return the numbers of the documents that fulfil a condition."""
        rows = self.rows(f"SELECT h.link FROM h WHERE {sql}", parameters)
        return {int(link.removeprefix("/a/")) for (link,) in rows}

    def close(self) -> None:
        """Let go of it."""
        self._connection.close()
