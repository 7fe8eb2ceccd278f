"""Readers of files: a JSON object a line, one JSON array, or a CSV; rows with their lines.

A row keeps its original bytes. Values that the store would refuse are found here with their line,
before a row is sent. No value is converted: large numbers, null and texts of digits stay exact.
"""

import csv
import json as standard
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from docstore.errors import BadRequest
from docstore.model import json
from docstore.model.paths import id_of

BOM = b"\xef\xbb\xbf"
_BETWEEN = re.compile(r"[ \t\r\n]*")


@dataclass(frozen=True, slots=True)
class SourceRow:
    """A row of a file, or the error in its place."""

    line: int
    """Line where it begins, from 1 on."""
    raw: bytes
    value: dict[str, Any] = field(default_factory=dict)
    wrong: str = ""
    is_end: bool = False
    """Whether the file cannot be parsed from here on, so that this error must not be skipped."""


def record_of(line: int, raw: bytes) -> SourceRow:
    try:
        return SourceRow(line, raw, json.parse_object(raw))
    except BadRequest as error:
        return SourceRow(line, raw, wrong=str(error))


def of_lines(lines: Iterable[bytes]) -> Iterator[SourceRow]:
    for number, raw in enumerate(lines, 1):
        text = (raw.removeprefix(BOM) if number == 1 else raw).strip()
        if text:
            yield record_of(number, text)


def is_array(raw: bytes) -> bool:
    """Say whether a file with this beginning is a JSON array, and not one row per line."""
    return raw.removeprefix(BOM).lstrip()[:1] == b"["


def of_array(raw: bytes) -> Iterator[SourceRow]:
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        yield SourceRow(line, raw[error.start :][:80], wrong="not UTF-8", is_end=True)
        return
    place = _Place(text)
    try:
        place.expect("[", "an array begins with [")
        is_over = place.takes("]")
        while not is_over:
            yield place.member()
            is_over = place.takes("]")
            if not is_over:
                place.expect(",", "a comma or ] is missing behind a member")
        if place.at < len(text):
            raise ValueError("the file must end after the array; it goes on after the ]")
    except (RecursionError, ValueError) as error:
        rest = text[place.at :][:80].encode("utf-8", "surrogatepass")
        wrong = error.msg if isinstance(error, standard.JSONDecodeError) else str(error)
        yield SourceRow(place.line, rest, wrong=f"not JSON: {wrong}", is_end=True)


class _Place:
    """A position in an array, with its line."""

    # Numbers stay texts here; `record_of` checks them.
    _decoder = standard.JSONDecoder(parse_int=str, parse_float=str)

    def __init__(self, text: str) -> None:
        self._text = text
        self.line, self.at = 1, 0
        self._pass(0)

    def takes(self, sign: str) -> bool:
        """Skip a character if it is next; return whether it was."""
        is_there = self._text.startswith(sign, self.at)
        if is_there:
            self._pass(self.at + 1)
        return is_there

    def expect(self, sign: str, otherwise: str) -> None:
        if not self.takes(sign):
            raise ValueError(otherwise)

    def member(self) -> SourceRow:
        """Parse and return the next member. Raises ValueError, RecursionError."""
        line, start = self.line, self.at
        try:
            _, end = self._decoder.raw_decode(self._text, start)
        except standard.JSONDecodeError as error:
            self._pass(error.pos)
            raise
        self._pass(end)
        return record_of(line, self._text[start:end].encode("utf-8", "surrogatepass"))

    def _pass(self, to: int) -> None:
        found = _BETWEEN.match(self._text, to)
        end = to if found is None else found.end()
        self.line += self._text.count("\n", self.at, end)
        self.at = end


def of_table(lines: Iterable[bytes]) -> Iterator[SourceRow]:
    """Yield the rows of a CSV with a header; all values are texts."""
    reader = csv.reader(_texts(lines), strict=True)
    line, names = 1, None
    try:
        for values in reader:
            if names is None and values:
                names = values
                twice = next((name for name in names if names.count(name) > 1), None)
                if twice is not None:
                    raise csv.Error(
                        f"two columns of the header have the name {twice!r}: rename one"
                    )
            elif names is not None and values:
                yield _row(line, names, values)
            line = reader.line_num + 1
    except csv.Error as error:
        yield SourceRow(line, b"", wrong=f"not CSV: {error}", is_end=True)
    except UnicodeDecodeError:
        yield SourceRow(reader.line_num + 1, b"", wrong="not UTF-8", is_end=True)


def _row(line: int, names: Sequence[str], values: Sequence[str]) -> SourceRow:
    if len(values) == len(names):
        value: dict[str, Any] = dict(zip(names, values, strict=True))
        return SourceRow(line, json.dump(value), value)
    raw = json.dump(list(values))
    return SourceRow(line, raw, wrong=f"{len(values)} fields, and the header has {len(names)}")


def _texts(lines: Iterable[bytes]) -> Iterator[str]:
    for number, line in enumerate(lines, 1):
        yield line.decode("utf-8-sig" if number == 1 else "utf-8")


def id_of_fields(row: dict[str, Any], fields: Iterable[str]) -> str:
    """Return the id made of some members of a row. Raises ValueError if one is missing."""
    return id_of([_text(row, name) for name in fields])


def _text(row: dict[str, Any], name: str) -> str:
    value = row.get(name)
    if value is None or value == "":
        raise ValueError(f"has no {name}")
    if isinstance(value, str):
        return value
    if isinstance(value, (dict, list)):
        raise ValueError(f"{name} must be a string, a number, true or false, to be part of the id")  # noqa: TRY004 - of a file
    return json.canonical(value).decode()
