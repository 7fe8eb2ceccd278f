"""Conditions: literals, and SQL with question marks."""

from dataclasses import dataclass
from typing import Any

Literal = str | int | float | bool


class Unfit(Exception):
    """A comparison that can never be true, because the types differ; the message says why."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition in SQL with question marks, and the links that it allows.

    links: the only links that can fulfil it; None for any.
    prefix: prefix of all links that can fulfil it; "" for any.
    """

    sql: str
    parameters: tuple[Any, ...]
    links: frozenset[str] | None = None
    prefix: str = ""
