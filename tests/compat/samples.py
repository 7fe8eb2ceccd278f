"""One message of each kind, made of the types of its members: the same in every run."""

import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, Union, get_args, get_origin, get_type_hints

from docstore.model.operation import Media, Operation, Select, Verb
from docstore.model.service import Level
from docstore.wire.frames import KINDS
from docstore.wire.link_messages import Hello, Message
from docstore.wire.requests import Request

PACKED_AS: dict[Any, Any] = {Verb: str, Media: str, Level: int, Select: Sequence[Any]}
"""A type of few values -> its packed type: a sample need not be a message that nodes send."""


class _Maker:
    """Makes values; no two numbers of one message are the same, so that none is mistaken."""

    def __init__(self) -> None:
        self._next = 0

    def value(self, hint: Any) -> Any:
        """Return something of a type."""
        self._next += 1
        hint = PACKED_AS.get(hint, hint)
        if hint is Any:
            return self._next
        if hint is int:
            return self._next
        if hint is str:
            return f"s{self._next}"
        if hint is bytes:
            return bytes([self._next % 256, 0, 255])
        if hint is float:
            return self._next + 0.5
        if hint is bool:
            return bool(self._next % 2)
        return self._compound(hint)

    def _compound(self, hint: Any) -> Any:
        origin, arguments = get_origin(hint), get_args(hint)
        if is_dataclass(hint):
            hints = get_type_hints(hint)
            return hint(**{each.name: self.value(hints[each.name]) for each in fields(hint)})
        if isinstance(hint, type) and issubclass(hint, tuple):
            hints = get_type_hints(hint)
            return hint(*(self.value(hints[name]) for name in hint._fields))  # type: ignore[attr-defined]
        if origin in (Union, types.UnionType):
            return self.value(arguments[0])
        if origin is tuple and arguments[-1] is not ...:
            return tuple(self.value(each) for each in arguments)
        if origin in (Sequence, tuple, list):
            return [self.value(arguments[0]), self.value(arguments[0])]
        if origin in (Mapping, dict):
            return {self.value(arguments[0]): self.value(arguments[1])}
        raise TypeError(f"nothing is known of {hint}")


def sample(kind: type[Any]) -> Any:
    """Return a message of a kind."""
    return _Maker().value(kind)


def samples() -> Iterator[tuple[str, Message]]:
    """Yield (tag, message) of every kind: its tag never changes, its name here may."""
    for tag, kind in enumerate(KINDS):
        yield str(tag), sample(kind)


def filled(kind: type[Request[Any]]) -> Request[Any]:
    """Return a request between services of a kind."""
    maker, hints = _Maker(), get_type_hints(kind)
    return kind(**{each.name: maker.value(hints[each.name]) for each in fields(kind)})


def an_operation() -> Operation:
    """Return an operation that may go on from no tombstone."""
    made: Operation = sample(Operation)
    return replace(made, recreate_below=None)


def hello() -> Hello:
    """Return an opening frame."""
    made: Hello = sample(Hello)
    return made
