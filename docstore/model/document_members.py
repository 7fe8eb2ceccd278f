"""Metadata members of a document version, in one table.

The table defines the members in a document's JSON, those that are ignored when a client sends them
back, and the columns of scans, conditions, feeds, segments, exports and Spark's tables. A new
member needs a line here, one in `said_of`, and a word in `docs/http.md`; its value must be in the
row, or follow from the factory. Feeds on Spark have their own list of columns: a query must
continue from its checkpoint with the columns that it had.
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
    """Time in microseconds since 1970; its name ends in `Micros`."""


@dataclass(frozen=True, slots=True)
class StoreMember:
    """A member of every document that only the store sets.

    column: of the table `history`, for scans and conditions; "": not available to them.
    """

    name: str
    type: Type
    column: str = ""

    @property
    def time_name(self) -> str:
        """Return the name without `Micros`, for the value as a timestamp."""
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
"""Members in the order of a document's JSON.

The last member exists only where nodes authenticate users.
"""

STORE_SET = frozenset(member.name for member in MEMBERS)
"""Names that are ignored when a client sends them back."""

COLUMNS = tuple(member for member in MEMBERS if member.column)
COLUMN_NAMES = tuple(member.name for member in COLUMNS)


def said_of(row: Row, kind: str) -> dict[str, Any]:
    """Return the metadata of a version. kind: of the documents of its factory."""
    said = {  # Written out: a loop over the table takes 50 % longer, for each GET.
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
