"""Metadata members of a document version, in one table.

From it come a document's JSON, what is ignored when a client sends it back, and the columns of
scans, conditions, feeds, segments, exports and Spark's tables. One more is a line in the table and
one in `said_of`, and a word in `docs/http.md`; what it says must be in the row, or be known of its
factory. The columns of a feed on Spark are a list of their own: a query goes on from its checkpoint
with those it had.
"""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from docstore.model.document import Row
from docstore.model.principals import is_named, principal_link


class Type(Enum):
    """Type of a member's values."""

    TEXT = auto()
    NUMBER = auto()
    TIME = auto()
    """In microseconds since 1970; its name ends in `Micros`."""


@dataclass(frozen=True, slots=True)
class StoreMember:
    """A member of every document that only the store sets.

    column: of the table `history`, for scans and conditions; "": they do not know it.
    """

    name: str
    type: Type
    column: str = ""

    @property
    def time_name(self) -> str:
        """Return the name under which a time is given as such, not in microseconds."""
        assert self.type is Type.TIME
        return self.name.removesuffix("Micros")


MEMBERS = (
    StoreMember("documentSelfLink", Type.TEXT, "link"),
    StoreMember("documentKind", Type.TEXT),
    StoreMember("documentVersion", Type.NUMBER, "version"),
    StoreMember("documentEpoch", Type.NUMBER, "epoch"),
    StoreMember("documentOwner", Type.TEXT, "owner"),
    StoreMember("documentUpdateTimeMicros", Type.TIME, "updated_us"),
    StoreMember("documentUpdateAction", Type.TEXT, "action"),
    StoreMember("documentSignature", Type.TEXT),
    StoreMember("documentAuthPrincipalLink", Type.TEXT),
)
"""Members in the order of a document's JSON. The last exists only where nodes authenticate
users."""

STORE_SET = frozenset(member.name for member in MEMBERS)
"""Ignored when a client sends them back."""

COLUMNS = tuple(member for member in MEMBERS if member.column)
COLUMN_NAMES = tuple(member.name for member in COLUMNS)


def said_of(row: Row, kind: str) -> dict[str, Any]:
    """Return what the store says of a version. kind: of the documents of its factory."""
    said = {  # For every GET: values out of the table would cost half as much again.
        "documentSelfLink": row.link,
        "documentKind": kind,
        "documentVersion": row.version,
        "documentEpoch": row.epoch,
        "documentOwner": row.owner,
        "documentUpdateTimeMicros": row.updated_us,
        "documentUpdateAction": row.action,
        "documentSignature": row.signature.hex(),
    }
    if is_named(row):
        said["documentAuthPrincipalLink"] = principal_link(row)
    return said
