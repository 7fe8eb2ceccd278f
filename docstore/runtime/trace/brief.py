"""What is shown of an event, an effect or a message: a few numbers and names, and never a body.

A brief is taken when somebody asks, or of what is kept for long. What its numbers mean stands once,
in its kind; it becomes text in `lines.py`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, NamedTuple

OCCASION, ROUTINE, REPEATED, TURN = range(4)
"""What a step is worth. Occasions (the end of a turn) say nothing by themselves and are kept for
what they led to. Routine is the road of requests. What is repeated (heartbeats) is kept when it is
not what was said the last time. Turns change who does what, and are kept longer than any number of
requests."""


@dataclass(frozen=True, slots=True)
class BriefKind:
    """What the numbers of a brief mean.

    facts: names of what is said once. items: names of what is said of each of many. Filters know
    "slot", "slots" (a bitmap), "link", "partition" and "trace" by these names.
    """

    name: str
    facts: tuple[str, ...] = ()
    items: tuple[str, ...] = ()


Brief = tuple[BriefKind, Any, Sequence[Any]]
"""(kind, facts, items). facts: a tuple; of a kind with one fact, that one alone."""

Take = Callable[[Any], Brief]
"""Returns the brief of a thing of one type."""


class Shape(NamedTuple):
    """What things of one type are worth, and how they are shown."""

    rank: int
    take: Take


Table = Mapping[type, Shape | None]
"""Of events, effects and messages. None: it has a `message`, whose shape is meant."""


def facts(name: str, rank: int, paths: str = "", *, names: str = "") -> Shape:
    """Return the shape of a thing with single values. paths: of attributes; names: if others."""
    kind = BriefKind(name, tuple((names or paths).split()))
    if not paths:
        brief: Brief = (kind, (), ())
        return Shape(rank, lambda thing: brief)
    get = attrgetter(*paths.split())
    return Shape(rank, lambda thing: (kind, get(thing), ()))


def items(
    name: str,
    rank: int,
    many: str,
    names: str,
    *,
    of: Callable[[Any], Any] | None = None,
    beside: str = "",
) -> Shape:
    """Return the shape of a thing with a sequence in the attribute `many`.

    names: of the values in each. of: takes them from an element; None: elements are as they are
    shown. beside: attributes of the whole.
    """
    kind = BriefKind(name, tuple(beside.split()), tuple(names.split()))
    get_many = attrgetter(many)
    get = attrgetter(*beside.split()) if beside else _nothing

    def take(thing: Any) -> Brief:
        found = get_many(thing)
        return kind, get(thing), found if of is None else list(map(of, found))

    return Shape(rank, take)


def _nothing(thing: object) -> tuple[()]:
    return ()
