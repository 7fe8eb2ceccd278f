"""The columns of a scan: names, SQL, and types."""

from dataclasses import dataclass

from docstore.model import document_members
from docstore.model.document import EXPIRY
from docstore.model.document_members import Type

TEXT, NUMBER, FLAG = "text", "number", "flag"


@dataclass(frozen=True, slots=True)
class ScanColumn:
    """A column of a scan.

    sql: never NULL, since the driver takes a column's type from its first value.
    empty_is_null: "" or 0 in SQL stand for null.
    """

    sql: str
    type: str
    empty_is_null: bool = False


_BODY = "CASE h.deleted WHEN 0 THEN CAST(h.state AS TEXT) ELSE '' END"
_BEFORE = (
    "coalesce((SELECT CASE p.deleted WHEN 0 THEN CAST(p.state AS TEXT) END FROM history p"
    " WHERE p.slot = h.slot AND p.link = h.link AND p.version < h.version"
    " ORDER BY p.version DESC LIMIT 1), '')"
)

COLUMNS = {
    **{
        each.name: ScanColumn(f"h.{each.column}", TEXT if each.type is Type.TEXT else NUMBER)
        for each in document_members.COLUMNS
    },
    EXPIRY: ScanColumn(
        f"coalesce(json_extract(CAST(h.state AS TEXT), '$.{EXPIRY}'), 0)",
        NUMBER, empty_is_null=True,
    ),
    "slot": ScanColumn("h.slot", NUMBER),
    "seq": ScanColumn("h.n", NUMBER),
    "deleted": ScanColumn("h.deleted", FLAG),
    "digest": ScanColumn("hex(h.digest)", TEXT),
    "body": ScanColumn(_BODY, TEXT, empty_is_null=True),
    "before": ScanColumn(_BEFORE, TEXT, empty_is_null=True),
}  # fmt: skip
"""Columns by name. seq: the row's number in its slot's log. before: body of the version before."""
