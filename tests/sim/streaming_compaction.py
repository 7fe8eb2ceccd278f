"""Records that compaction may remove, and those that readers must still see (RI23)."""

import zlib
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence

from docstore.model.streams_batch import SPARSE, BatchHeader
from docstore.streams.forms import records_of
from docstore.streams.records import Record
from tests.sim.invariants import Violation
from tests.sim.streaming_books import Book

UID = "uid"
"""Header with the name of a record that has no value."""


def uid_of(record: Record) -> str:
    """Return the identity of a record: its value, or a header of a tombstone."""
    content = record.value if record.value is not None else dict(record.headers)[UID]
    assert content is not None
    return content.decode()


def may_lack(book: Book, offset: int, high: int, old_before: float) -> bool:
    """Say whether a log with this high watermark may lack a committed record.

    old_before: tombstones made before this time may be removed.
    """
    if offset >= len(book.committed):
        return False
    each = book.committed[offset]
    if each.key is None:
        return False
    if book.is_lost(each.uid):
        return True
    places = book.by_key[each.key]
    later = bisect_right(places, offset)
    if later < len(places) and places[later] < high:
        return True
    base, _ = book.contents[each.epoch, offset]
    return each.is_tombstone and book.made_at[each.epoch, base] < old_before


def check_replaced(
    name: str, book: Book, header: BatchHeader, raw: bytes, *, start: int, limit: int, old: float
) -> None:
    """RI23: a rewritten batch lacks only what it may, and its records keep their offsets."""
    if header.end > limit:
        raise Violation(f"RI23: {name} is compacted up to {header.end}, above {limit}")
    kept = dict(records_of(header, raw))
    for offset, record in kept.items():
        if book.uids.get((header.epoch, offset)) != uid_of(record):
            raise Violation(f"RI23: {name} has {uid_of(record)} at {offset} once it is compacted")
    if book.unclean:
        return  # The newer record of a key may be lost.
    for offset in range(max(start, header.base), header.end):
        # A replica that is being filled may lack records with newer ones that it has not got yet.
        if offset not in kept and not may_lack(book, offset, len(book.committed), old):
            raise Violation(f"RI23: compaction of {name} removes {offset}, which is the newest")


def held_by(book: Book, batches: Sequence[tuple[BatchHeader, bytes]], old: float) -> dict[int, int]:
    """Return offset -> CRC of the batch as it was appended, of what a log holds or may lack.

    A log may lack a record whose newer one it holds, above its own high watermark as well: another
    replica has compacted the batch, and a restart makes the high watermark older.
    """
    held: dict[int, int] = {}
    for header, raw in reversed(batches):
        if not header.flags & SPARSE:
            held.update(dict.fromkeys(range(header.base, header.end), zlib.crc32(raw)))
            continue
        kept = {offset for offset, _ in records_of(header, raw)}
        for offset in reversed(range(header.base, header.end)):
            known = book.contents.get((header.epoch, offset))
            if known is not None and (offset in kept or _lacks_rightly(book, offset, held, old)):
                held[offset] = known[1]
    return held


def _lacks_rightly(book: Book, offset: int, held: Mapping[int, int], old: float) -> bool:
    if may_lack(book, offset, 0, old):
        return True  # An old tombstone, or lost.
    if offset >= len(book.committed) or book.committed[offset].key is None:
        return False
    places = book.by_key[book.committed[offset].key]
    newer = places[bisect_right(places, offset) :]
    return any(held.get(place) == book.committed[place].crc for place in newer)


def view_of(pairs: Iterator[tuple[int, Record]]) -> dict[bytes | None, str]:
    """Return key -> the newest record of each key, without the deleted ones."""
    view: dict[bytes | None, str] = {}
    for _, record in pairs:
        if record.value is None:
            view.pop(record.key, None)
        else:
            view[record.key] = uid_of(record)
    return view
