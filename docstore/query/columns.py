"""Columns that the store sets, as operands. They reject comparisons with other kinds of values."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from docstore.model import document_members
from docstore.model.document import EXPIRY
from docstore.model.document_members import Type
from docstore.query.condition import Condition, Literal, Unfit

TEXT, NUMBER, FLAG = "a text", "a number", "true or false"
TIME = "a time with its zone, such as '2026-11-20T19:00:00Z'"
WHOLE = frozenset({"body", "before"})
"""Columns of a scan that contain whole documents."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Column:
    """A column that the store sets."""

    name: str
    sql: str
    kind: str = NUMBER
    nullable: bool = False

    @property
    def is_link(self) -> bool:
        return self.name == "documentSelfLink"

    @property
    def is_text(self) -> bool:
        return self.kind == TEXT

    def fitted(self, literal: Literal) -> Literal:
        """Return a literal as the column stores it. Raises Unfit."""
        found: Literal | None = literal
        if self.kind == TIME:
            found = _micros(literal)
        elif isinstance(literal, bool) != (self.kind == FLAG) or (
            isinstance(literal, str) != (self.kind == TEXT)
        ):
            found = None
        if found is None:
            raise Unfit(f"{self.name} must be compared with {self.kind}; got {str(literal)[:40]!r}")
        return found

    def typed(self, literal: Literal) -> tuple[str, tuple[Any, ...]]:
        return self.sql, ()

    def is_null(self, *, negated: bool) -> Condition:
        """Return the condition that the column is null (or is not, if negated)."""
        if self.nullable:
            return Condition(f"({self.sql} IS {'NOT ' if negated else ''}NULL)", ())
        return Condition(f"({int(negated)})", ())

    def contains(self, literal: Literal) -> Condition:
        """Raise Unfit: no column is an array."""
        raise Unfit(f"contains must name a member that is an array; got the column {self.name}")


def _of_store() -> Iterator[Column]:
    for each in document_members.COLUMNS:
        yield Column(each.name, f"h.{each.column}", TEXT if each.type is Type.TEXT else NUMBER)
        if each.type is Type.TIME:
            yield Column(each.time_name, f"h.{each.column}", TIME)


_EXPIRES = f"json_extract(CAST(h.state AS TEXT), '$.{EXPIRY}')"

COLUMNS = {
    column.name: column
    for column in (
        *_of_store(),
        Column(EXPIRY.removesuffix("Micros"), _EXPIRES, TIME, nullable=True),
        # Adding 0 makes SQLite ignore this column's indexes and use the scan's.
        Column("slot", "(h.slot + 0)"),
        Column("seq", "(h.n + 0)"),
        Column("deleted", "h.deleted", FLAG),
        Column("digest", "hex(h.digest)", TEXT),
    )
}
"""Columns by name, in terms of the statement that contains the condition."""


def _micros(literal: Literal) -> int | None:
    if not isinstance(literal, str):
        return None
    try:
        instant = datetime.fromisoformat(literal)
    except ValueError:
        return None
    return (instant - EPOCH) // timedelta(microseconds=1) if instant.tzinfo else None
