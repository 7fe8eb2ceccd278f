"""What the store says of each version of a document, beside its own members: one table.

From it come a document's JSON, what is ignored when a client sends it back, and the columns of
scans, conditions, feeds, segments, exports and Spark's tables. One more is one more line here, and
a word in `docs/http.md`; what it says must be in the row, or be known of its factory. The columns
of a feed on Spark are a list of their own: a query goes on from its checkpoint with those it had.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from docstore.model.document import Row


class Type(Enum):
    """What a member's values are."""

    TEXT = auto()
    NUMBER = auto()
    TIME = auto()
    """In microseconds since 1970; its name ends in `Micros`."""


@dataclass(frozen=True, slots=True)
class StoreMember:
    """A member of every document, which nobody but the store sets.

    value: of a row, and the kind of documents that its factory has; None: the name is reserved.
    column: of the table `history`, for scans and conditions; "": they do not know it.
    """

    name: str
    type: Type
    value: Callable[[Row, str], Any] | None = None
    column: str = ""

    @property
    def time_name(self) -> str:
        """Return the name under which a time is given as such, not in microseconds."""
        assert self.type is Type.TIME
        return self.name.removesuffix("Micros")


MEMBERS = (
    StoreMember("documentSelfLink", Type.TEXT, lambda row, kind: row.link, "link"),
    StoreMember("documentKind", Type.TEXT, lambda row, kind: kind),
    StoreMember("documentVersion", Type.NUMBER, lambda row, kind: row.version, "version"),
    StoreMember("documentEpoch", Type.NUMBER, lambda row, kind: row.epoch, "epoch"),
    StoreMember("documentOwner", Type.TEXT, lambda row, kind: row.owner, "owner"),
    StoreMember(
        "documentUpdateTimeMicros", Type.TIME, lambda row, kind: row.updated_us, "updated_us"
    ),
    StoreMember("documentUpdateAction", Type.TEXT, lambda row, kind: row.action, "action"),
    StoreMember("documentSignature", Type.TEXT, lambda row, kind: row.signature.hex()),
    StoreMember("documentAuthPrincipalLink", Type.TEXT),
)
"""In the order in which a document has them."""

STORE_SET = frozenset(member.name for member in MEMBERS)
"""Ignored when a client sends them back."""

COLUMNS = tuple(member for member in MEMBERS if member.column)
COLUMN_NAMES = tuple(member.name for member in COLUMNS)

_SHOWN = tuple((member.name, member.value) for member in MEMBERS if member.value is not None)


def said_of(row: Row, kind: str) -> dict[str, Any]:
    """Return what the store says of a version. kind: of the documents of its factory."""
    return {name: value(row, kind) for name, value in _SHOWN}
