"""Rows of atomic batches: they lie next to each other in a log and are never separated.

A log travels between nodes in pages. Every page ends at the end of a batch, and one commit stores
the rows of one message. So every log ends between batches, at any moment and after every power cut
(rule A2). A row's identity has its position in its batch.
"""

from collections.abc import Sequence

from docstore.model.document import Row
from docstore.model.identity import unpack_identity

_OF_A_BATCH = (b"\x9a", b"\x9b", b"\x9c")
"""First byte of an identity that may be of a batch: a msgpack array of ten fields, of eleven with a
principal, or of twelve with an agenda."""


def part_of(row: Row) -> tuple[int, int]:
    """Return the index of a row in its batch, from 0, and the number of rows."""
    part: Sequence[int] = ()
    if row.operation[:1] in _OF_A_BATCH:
        part = unpack_identity(row.operation).part
    index, count = part or (0, 1)
    return index, count


def span_of(row: Row) -> tuple[int, int]:
    index, count = part_of(row)
    first = row.n - index
    return first, first + count - 1


def ended(row: Row) -> int:
    """Return the n of the last row, up to this one, that ends a batch."""
    first, last = span_of(row)
    return row.n if row.n == last else first - 1


def whole(rows: Sequence[Row]) -> Sequence[Row]:  # Tests replace this.
    """Return the rows of a page without an incomplete batch at its end.

    A page has room for a whole batch, so a batch that begins a page is complete.
    """
    index, count = part_of(rows[-1])
    return rows if index + 1 == count else rows[: -(index + 1)]
