"""Takes the members out of a JSON object, each with its kind and its bounds, and leaves none."""

from typing import Any

from docstore.model.service import Refusal, State


class Fields:
    """The members of one object that have not been taken. All methods raise Refusal (400).

    path: of the object, as it is named to people; "" for the document itself.
    """

    def __init__(self, state: State, path: str = "") -> None:
        self._left = dict(state)
        self._path = path

    def has(self, name: str) -> bool:
        """Say whether a member is there, and has not been taken."""
        return name in self._left

    def value(self, name: str, *, default: Any = None) -> Any:
        """Return a member, whatever it is: its taker looks at it."""
        return self._left.pop(name, default)

    def whole(self, name: str, least: int, most: int, *, default: int | None = None) -> int:
        """Return a whole number within bounds; without a default it must be there."""
        value = self._left.pop(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise self._wrong(name, f"a whole number from {least} to {most}")
        return value

    def flag(self, name: str, *, default: bool) -> bool:
        """Return true or false."""
        value = self._left.pop(name, default)
        if not isinstance(value, bool):
            raise self._wrong(name, "true or false")
        return value

    def text(self, name: str, *, default: str | None = None) -> str:
        """Return a text; without a default it must be there."""
        value = self._left.pop(name, default)
        if not isinstance(value, str):
            raise self._wrong(name, "a text")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """Return an array of texts, none of them empty or there twice."""
        value = self._left.pop(name, None)
        is_array = isinstance(value, list) and all(each and isinstance(each, str) for each in value)
        if not is_array or len(set(value)) < len(value):
            raise self._wrong(name, "an array of different texts")
        return tuple(value)

    def pairs(self, name: str) -> tuple[tuple[str, str], ...]:
        """Return an array of arrays of two texts."""
        value = self._left.pop(name, None)
        if not isinstance(value, list) or not all(_is_pair(each) for each in value):
            raise self._wrong(name, "an array of pairs of texts")
        return tuple((first, second) for first, second in value)

    def array(self, name: str) -> list[Any]:
        """Return an array of whatever."""
        value = self._left.pop(name, None)
        if not isinstance(value, list):
            raise self._wrong(name, "an array")
        return value

    def rest(self) -> State:
        """Return all members that are left: their names are the client's."""
        rest, self._left = self._left, {}
        return rest

    def inner(self, name: str) -> "Fields":
        """Return the members of an object inside; one that is not there is empty."""
        value = self._left.pop(name, {})
        if not isinstance(value, dict):
            raise self._wrong(name, "an object")
        return Fields(value, f"{self._path}{name}.")

    def end(self) -> None:
        """Refuse what has not been taken."""
        for name in sorted(self._left):
            raise Refusal(f"there is no member {self._path}{name}", status=400)

    def _wrong(self, name: str, wanted: str) -> Refusal:
        return Refusal(f"{self._path}{name} is {wanted}", status=400)


def _is_pair(value: object) -> bool:
    if not isinstance(value, list) or len(value) != 2:
        return False
    return all(each and isinstance(each, str) for each in value)
