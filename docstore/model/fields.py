"""Strict parser of a JSON object: members have types and bounds, and unknown ones are errors."""

from collections.abc import Sequence
from typing import Any

from docstore.model.service import Malformed, Refusal, State
from docstore.model.settings import quoted


class Fields:
    """The members of an object that are not taken yet.

    Methods raise Refusal (400). path: path of the object in error messages; "" for the document
    itself.
    """

    def __init__(self, state: State, path: str = "") -> None:
        self._left = dict(state)
        self._path = path

    def has(self, name: str) -> bool:
        return name in self._left

    def value(self, name: str, *, default: Any = None) -> Any:
        return self._left.pop(name, default)

    def whole(self, name: str, least: int, most: int, *, default: int | None = None) -> int:
        """Take a whole number within bounds; it is required without a default."""
        value = self._left.pop(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise self._wrong(name, value, f"a whole number from {least} to {most}")
        return value

    def flag(self, name: str, *, default: bool) -> bool:
        value = self._left.pop(name, default)
        if not isinstance(value, bool):
            raise self._wrong(name, value, "true or false")
        return value

    def text(self, name: str, *, default: str | None = None) -> str:
        """Take a text; it is required without a default."""
        value = self._left.pop(name, default)
        if not isinstance(value, str):
            raise self._wrong(name, value, "a string")
        return value

    def choice(self, name: str, choices: Sequence[str], *, default: str) -> str:
        """Take one of some texts."""
        value = self._left.pop(name, default)
        if value not in choices:
            raise self._wrong(name, value, f"one of {', '.join(choices)}")
        return str(value)

    def texts(self, name: str) -> tuple[str, ...]:
        value = self._left.pop(name, None)
        is_array = isinstance(value, list) and all(each and isinstance(each, str) for each in value)
        if not is_array or len(set(value)) < len(value):
            raise self._wrong(name, value, "an array of different strings, none empty")
        return tuple(value)

    def pairs(self, name: str) -> tuple[tuple[str, str], ...]:
        value = self._left.pop(name, None)
        if not isinstance(value, list) or not all(_is_pair(each) for each in value):
            raise self._wrong(name, value, "an array of pairs of strings")
        return tuple((first, second) for first, second in value)

    def array(self, name: str) -> list[Any]:
        value = self._left.pop(name, None)
        if not isinstance(value, list):
            raise self._wrong(name, value, "an array")
        return value

    def rest(self) -> State:
        """Take all remaining members, whose names the client chooses."""
        rest, self._left = self._left, {}
        return rest

    def inner(self, name: str) -> "Fields":
        value = self._left.pop(name, {})
        if not isinstance(value, dict):
            raise self._wrong(name, value, "an object")
        return Fields(value, f"{self._path}{name}.")

    def end(self) -> None:
        for name in sorted(self._left):
            raise Malformed(f"there must be no member {quoted(self._path + name)}: leave it out")

    def _wrong(self, name: str, value: object, wanted: str) -> Refusal:
        got = "" if value is None else f"; got {quoted(value)}"
        return Malformed(f"{self._path}{name} must be {wanted}{got}")


def _is_pair(value: object) -> bool:
    if not isinstance(value, list) or len(value) != 2:
        return False
    return all(each and isinstance(each, str) for each in value)
