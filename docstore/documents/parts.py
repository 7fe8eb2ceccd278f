"""Rows that belong together: those of a batch lie next to each other, and are never parted.

A log is told from one node to another in pages. Each of them ends at the end of a batch, and what
comes in one message is stored with one commit: so every log ends between batches, at any moment and
after every power cut (rule A2). A row says itself which part of a batch it is.
"""

from collections.abc import Sequence

from docstore.model.document import Row
from docstore.model.identity import unpack_identity

_OF_A_BATCH = (b"\x9a", b"\x9b")
"""How the identity of an operation begins that may be a batch: an array of ten (msgpack), or of one
more if it says who wanted it."""


def part_of(row: Row) -> tuple[int, int]:
    """Return which row of its batch this is, from 0 on, and how many there are."""
    part: Sequence[int] = ()
    if row.operation[:1] in _OF_A_BATCH:
        part = unpack_identity(row.operation).part
    index, count = part or (0, 1)
    return index, count


def span_of(row: Row) -> tuple[int, int]:
    """Return the n of the first and of the last row of a row's batch."""
    index, count = part_of(row)
    first = row.n - index
    return first, first + count - 1


def ended(row: Row) -> int:
    """Return the n of the last row, up to this one, that no batch goes on behind."""
    first, last = span_of(row)
    return row.n if row.n == last else first - 1


def whole(rows: Sequence[Row]) -> Sequence[Row]:  # Seam.
    """Return the rows of a page, without those at its end whose batch goes on behind it.

    A page has room for a whole batch, so that something is left of one that begins between two.
    """
    index, count = part_of(rows[-1])
    return rows if index + 1 == count else rows[: -(index + 1)]
