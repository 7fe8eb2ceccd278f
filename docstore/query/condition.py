"""What conditions are made of: values that are written out, and SQL with question marks."""

from dataclasses import dataclass
from typing import Any

Literal = str | int | float | bool


class Unfit(Exception):
    """A value is compared with what it can never be: the message says why."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition in SQL with question marks, and what it says of links alone.

    links: the only links that can fulfil it; None if it leaves them open.
    prefix: how every link that can fulfil it begins; "" if it leaves that open.
    """

    sql: str
    parameters: tuple[Any, ...]
    links: frozenset[str] | None = None
    prefix: str = ""
