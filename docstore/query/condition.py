"""Conditions on documents: what they mean, in Python and in SQL, and the links that they allow."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple

from docstore.query.moments import Moment

Literal = str | int | float | bool | Moment
Truth = bool | None
"""None: unknown, as in SQL."""


class Unfit(Exception):
    """A comparison that can never be true, because the types differ; the message says why."""


class Sql(NamedTuple):
    """SQL with question marks, and its parameters."""

    text: str
    parameters: tuple[Any, ...] = ()


class Predicate(ABC):
    """A part of a condition.

    Each construct defines both its SQL and its result in Python, which must be equal.
    """

    __slots__ = ()

    @abstractmethod
    def sql(self) -> Sql:
        """Return the SQL: true, false, or NULL for unknown."""

    @abstractmethod
    def holds(self, scope: Any) -> Truth:
        """Evaluate the predicate.

        scope: the members of a scan's row by name, with the parsed `body`; inside `any` and `all`
        an element of the array.
        """

    @property
    def links(self) -> frozenset[str] | None:
        """The only links that can fulfil it; None for any."""
        return None

    @property
    def prefix(self) -> str:
        """The prefix of all links that can fulfil it; "" for any."""
        return ""


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition in SQL with question marks.

    predicate: its structure. links, prefix: see Predicate.
    """

    sql: str
    parameters: tuple[Any, ...]
    predicate: Predicate
    links: frozenset[str] | None = None
    prefix: str = ""

    @staticmethod
    def of(predicate: Predicate) -> "Condition":
        sql, parameters = predicate.sql()
        return Condition(sql, parameters, predicate, predicate.links, predicate.prefix)
