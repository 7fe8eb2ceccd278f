"""Columns that the store sets, as operands. They reject comparisons with other kinds of values."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from docstore.model import document_members
from docstore.model.document import EXPIRY
from docstore.model.document_members import Type
from docstore.query.condition import Literal, Sql, Unfit
from docstore.query.moments import EPOCH, Moment

TEXT, NUMBER, FLAG = "a text", "a number", "true or false"
TIME = "a time with its zone, such as 2026-11-20T19:00:00Z"
_OF_KIND = {TEXT: str, FLAG: bool, NUMBER: int | float}
WHOLE = frozenset({"body", "before"})
"""Columns of a scan that contain whole documents."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column that the store sets. source: the column of a scan with its value, "" for `name`."""

    name: str
    sql: str
    kind: str = NUMBER
    nullable: bool = False
    source: str = ""

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
        elif not isinstance(literal, _OF_KIND[self.kind]) or (
            isinstance(literal, bool) != (self.kind == FLAG)
        ):
            found = None
        if found is None:
            said = "a time" if isinstance(literal, Moment) else repr(str(literal)[:40])
            raise Unfit(f"{self.name} must be compared with {self.kind}; got {said}")
        return found

    def typed(self, literal: Literal) -> Sql:
        return Sql(self.sql)

    def value_for(self, scope: Any, literal: Literal) -> Any:
        return self.found(scope)

    def found(self, scope: Any) -> Any:
        """Return the value in a row; the body contains the time of expiry."""
        if self.nullable:
            return (scope["body"] or {}).get(self.source)
        return scope[self.source or self.name]


def _of_store() -> Iterator[Column]:
    for each in document_members.COLUMNS:
        yield Column(each.name, f"h.{each.column}", TEXT if each.type is Type.TEXT else NUMBER)
        if each.type is Type.TIME:
            yield Column(each.time_name, f"h.{each.column}", TIME, source=each.name)


_EXPIRES = f"json_extract(CAST(h.state AS TEXT), '$.{EXPIRY}')"

COLUMNS = {
    column.name: column
    for column in (
        *_of_store(),
        Column(EXPIRY.removesuffix("Micros"), _EXPIRES, TIME, nullable=True, source=EXPIRY),
        # Adding 0 makes SQLite ignore this column's indexes and use the scan's.
        Column("slot", "(h.slot + 0)"),
        Column("seq", "(h.n + 0)"),
        Column("deleted", "h.deleted", FLAG),
        Column("digest", "hex(h.digest)", TEXT),
    )
}
"""Columns by name, in terms of the statement that contains the condition."""


def _micros(literal: Literal) -> int | None:
    if isinstance(literal, Moment):
        return literal.micros
    if not isinstance(literal, str):
        return None
    try:
        instant = datetime.fromisoformat(literal)
    except ValueError:
        return None
    return (instant - EPOCH) // timedelta(microseconds=1) if instant.tzinfo else None
