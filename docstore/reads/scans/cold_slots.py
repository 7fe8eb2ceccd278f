"""Pages of snapshots taken from segments: a cold slot is read once, as a whole.

A slot is cold when its newest row is some seconds old. The first scan with bodies reads the whole
slot and caches it as a segment; later pages are taken from the segment, with any columns. A slot
with recent writes is read page by page from the file, because its segment would soon be out of
date.
"""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import takewhile
from typing import NamedTuple, Protocol

import pyarrow as pa

from docstore.model import document_members
from docstore.query.request import EVERYTHING, Scan
from docstore.query.statements import Cursor
from docstore.reads.scans.segments import SegmentKey, Segments

COLUMNS = (*document_members.COLUMN_NAMES, "slot", "seq", "body")
"""Columns of a segment: the default ones of a table."""
BEHIND = "\U0010ffff"
"""Greater than any link."""

Span = tuple[int, int]
"""(slot, until)."""


class Slots(Protocol):
    """Reads whole slots from the file."""

    def is_at_rest(self, scan: Scan, slot: int) -> bool:
        """Say whether the newest row of a slot that a scan sees is older than `REST_US`."""

    def whole(self, scan: Scan, run: Sequence[Span], rows: int) -> dict[int, pa.RecordBatch]:
        """Return slot -> all its rows of a scan, with COLUMNS; {} if far more than `rows`.

        run: consecutive slots of the scan.
        """


def behind_slot(slot: int) -> Cursor:
    return Cursor(slot, BEHIND)


class Cutting(NamedTuple):
    """Page in pieces. rows: of all pieces. following: cursor of the next page, None for none."""

    rows: int
    following: Cursor | None
    pieces: Sequence[pa.RecordBatch]


class ColdSlots:
    """Serves pages of a file's cold slots from segments."""

    def __init__(self, segments: Segments, slots: Slots) -> None:
        self._segments = segments
        self._slots = slots

    def page(self, scan: Scan, after: Cursor, rows: int, columns: Sequence[str]) -> Cutting | None:
        """Return the next rows, up to a slot that is not cold; None if the first slot is not."""
        pieces: list[pa.RecordBatch] = []
        read: dict[int, pa.RecordBatch] = {}
        found, following = 0, after
        left = _left(scan, after)
        for place, span in enumerate(left):
            slot = span[0]
            documents = read.get(slot)
            if documents is None:
                documents = self._kept(scan, span)
            if documents is None:
                read = self._read(scan, left[place:], rows - found, rows)
                documents = read.get(slot)
            if documents is None:
                return Cutting(found, following, pieces) if found else None
            if slot == after.slot:
                documents = _behind(documents, after.link)
            piece = documents.slice(0, rows - found)
            pieces.append(piece.select(columns))
            found += piece.num_rows
            if found == rows:
                return Cutting(found, Cursor(slot, piece.column(0)[-1].as_py()), pieces)
            following = behind_slot(slot)
        return Cutting(found, None, pieces)

    def last_written(self, scan: Scan, after: Cursor) -> int:
        """Return the last slot to read from the file before the next cold one."""
        first, *others = _left(scan, after)
        written = takewhile(lambda span: not self._has(scan, span), others)
        return [first, *written][-1][0]

    def _has(self, scan: Scan, span: Span) -> bool:
        return self._kept(scan, span) is not None or self._may_read(scan, span[0])

    def _kept(self, scan: Scan, span: Span) -> pa.RecordBatch | None:
        slot, until = span
        return self._segments.get(SegmentKey(slot, scan.prefix, until))

    def _may_read(self, scan: Scan, slot: int) -> bool:
        return "body" in scan.columns and self._slots.is_at_rest(scan, slot)

    def _read(
        self, scan: Scan, left: Sequence[Span], room: int, rows: int
    ) -> dict[int, pa.RecordBatch]:
        """Read the next slots and cache them: at least one slot, and up to `room` rows."""
        run: list[Span] = []
        for slot, until in left:
            room -= until
            is_wanted = not run or (room >= 0 and self._kept(scan, (slot, until)) is None)
            if not is_wanted or not self._may_read(scan, slot):
                break
            run.append((slot, until))
        read = self._slots.whole(scan, run, rows) if run else {}
        for slot, until in run[: len(read)]:
            self._segments.put(SegmentKey(slot, scan.prefix, until), read[slot])
        return read


def is_of_segments(scan: Scan) -> bool:
    """Say whether segments can answer a scan: newest versions, without a condition."""
    is_plain = scan.latest and not scan.is_log and not scan.deleted and not scan.direct
    return is_plain and scan.where is EVERYTHING and set(scan.columns) <= set(COLUMNS)


def _left(scan: Scan, after: Cursor) -> list[Span]:
    begun = after.slot + (after.link == BEHIND)
    return [(slot, until) for slot, _, until in scan.spans if slot >= begun]


def _behind(documents: pa.RecordBatch, link: str) -> pa.RecordBatch:
    links = documents.column(0)
    at = bisect_right(range(len(links)), link, key=lambda place: links[place].as_py())
    return documents.slice(at)
