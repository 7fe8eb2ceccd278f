"""Documents of every shape, conditions on them in plain Python, and a table of them."""

import json
import sqlite3
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import strategies as st

CHARACTERS = st.characters(exclude_categories=("Cs",), exclude_characters="\0")
"""The characters in texts of documents."""
Path = Sequence[str | int]
Document = Mapping[str, Any]

TEXTS = [
    "", "x", "xy", "yx", "x*", "*", "**", "x*y", "X", "O'Neil", "''", "'", "%", "_", "a%b", "[a]",
    "a?b", "\\", "a\\*b", "é", "e\u0301", "😀", "\ufeff", "null", "1", "true", "' OR 1=1 --",
    "'; DROP TABLE history; --", '"', "`", "a\tb", "a\nb", "$.n", "?", "?1", ":n", "@n", "--", "/*",
]  # fmt: skip
"""Texts, most of them with a meaning to SQL, JSON paths or the grammar."""
NUMBERS = [0, 1, -1, 2, 10, 2**53 + 1, 2**63 - 1, -(2**63), 0.5, -0.5, 1.0, 1e300]
TIMES = [
    "2026-11-20", "2026-11-20T19:00:00Z", "2026-11-20T20:00:00+01:00",
    "2026-11-20T19:00:00.000001Z", "0001-01-01", "1969-12-31T23:59:59.999999Z",
    "9999-12-31T23:59:59.5-23:59", "2024-02-29",
]  # fmt: skip
NO_TIMES = [
    "2026-02-30", "2026-11-20T19:00:00", "2026-11-20 19:00:00Z", "2026-11-20T24:00:00Z", "now",
    "2026-11-20T19:00Z", "2026-11-20T19:00:00.Z", "0000-01-01", "2026-11-20T19:00:00+24:00",
    "12:00",
]  # fmt: skip
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
VALUES: list[Any] = [
    None, True, False, *NUMBERS, *TEXTS, *TIMES, *NO_TIMES, [], {}, ["x", 1], {"b": "x"},
    [["x"], [], 1],
]  # fmt: skip


def documents() -> list[dict[str, Any]]:
    """Return some documents; among them each value as each member."""
    made: list[dict[str, Any]] = [{}]
    for number, value in enumerate(VALUES):
        other = VALUES[(number * 7 + 3) % len(VALUES)]
        made.append({"s": value, "n": number % 5, "a": {"b": other}, "é": value})
        made.append({"n": value, "tags": [value, other, number % 3], "a": value})
        made.append({"t": value, "cast": cast(value, other), "a": {"cast": cast(other, value)[1:]}})
    return made


def cast(one: Any, other: Any) -> list[Any]:
    """Return elements, most of them with members."""
    return [{"name": one, "n": other, "roles": [one, {"name": other}]}, {"a": {"b": one}},
            {"name": other, "é": one, "roles": [[one], [other]]}, other]  # fmt: skip


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


def micros(text: str) -> int | None:
    """Return the instant of one of TIMES, None for any other text."""
    if text not in TIMES:
        return None
    at = datetime.fromisoformat(text)
    return ((at if at.tzinfo else at.replace(tzinfo=UTC)) - EPOCH) // timedelta(microseconds=1)


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
        self.steps_left = 1 << 60
        """Steps of SQLite's machine after which statements fail."""
        self._connection.set_progress_handler(self._step, 1_000)
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

    def _step(self) -> bool:
        self.steps_left -= 1_000
        return self.steps_left < 0

    def close(self) -> None:
        self._connection.close()
