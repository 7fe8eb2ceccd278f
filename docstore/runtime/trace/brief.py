"""Briefs: the few values that a trace shows of an event, effect or message, never a body.

A brief is taken when a trace is read, or at once of a step that is kept for long. Its kind names
its values; `lines.py` makes text of it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, NamedTuple

OCCASION, ROUTINE, REPEATED, TURN = range(4)
"""Ranks of a step. OCCASION: the end of a turn, kept only for its effects. ROUTINE: part of serving
a request. REPEATED: heartbeats, kept when they differ from the last one. TURN: a change of roles,
kept longer than any number of requests."""


@dataclass(frozen=True, slots=True)
class BriefKind:
    """Names for the values of a brief.

    facts: names of the single values. items: names of the values of each item. Filters know "slot",
    "slots" (a bitmap), "link", "partition" and "trace" by these names.
    """

    name: str
    facts: tuple[str, ...] = ()
    items: tuple[str, ...] = ()


Brief = tuple[BriefKind, Any, Sequence[Any]]
"""(kind, facts, items). facts: a tuple, or the value itself in a kind with one fact."""

Take = Callable[[Any], Brief]
"""Returns the brief of an object of one type."""


class Shape(NamedTuple):
    """The rank of objects of one type, and how to take their briefs."""

    rank: int
    take: Take


Table = Mapping[type, Shape | None]
"""Type of an event, effect or message -> shape; None for the shape of its `message`."""


def facts(name: str, rank: int, paths: str = "", *, names: str = "") -> Shape:
    """Return the shape of an object with single values.

    paths: attributes to read. names: their names in the brief, if those differ.
    """
    kind = BriefKind(name, tuple((names or paths).split()))
    if not paths:
        brief: Brief = (kind, (), ())
        return Shape(rank, lambda thing: brief)
    get: Callable[[Any], Any] = attrgetter(*paths.split())
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
    """Return the shape of an object with a sequence in the attribute `many`.

    names: names of the values of each item. of: takes these values from an element; None: an
    element is an item itself. beside: attributes of the object to show as single values.
    """
    kind = BriefKind(name, tuple(beside.split()), tuple(names.split()))
    get_many = attrgetter(many)
    get: Callable[[Any], Any] = attrgetter(*beside.split()) if beside else _nothing

    def take(thing: Any) -> Brief:
        found = get_many(thing)
        return kind, get(thing), found if of is None else list(map(of, found))

    return Shape(rank, take)


def _nothing(thing: object) -> tuple[()]:
    return ()
