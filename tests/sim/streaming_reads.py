"""Checks that readers see the committed map, in order (RI9)."""

import zlib
from collections import Counter

from docstore.model.streams_batch import SPARSE, header_of
from docstore.streams.effects import HIGH_NOT_KNOWN, Records
from docstore.streams.forms import records_of
from tests.sim.invariants import Violation
from tests.sim.streaming_books import Book
from tests.sim.streaming_compaction import may_lack, uid_of


def read(
    name: str, book: Book, checked: Counter[str], records: Records, isolation: str, old: float
) -> list[str]:
    """RI9: a committed reader sees the committed map, in order. Returns the values.

    old: tombstones made before this time may be removed.
    """
    values: list[str] = []
    offset = records.offset
    for raw in records.batches:
        header, crc = header_of(raw), zlib.crc32(raw)
        if header.base > offset:
            raise Violation(f"RI9: a reader of {name} is not shown {offset}")
        if header.flags & SPARSE:
            values += _kept(name, book, records, raw, old)
            offset = header.end
            continue
        for place, record in records_of(header, raw):
            if place < offset or place >= records.until:
                continue
            checked["RI9" if isolation == "committed" else "RI9 uncommitted"] += 1
            if isolation == "committed":
                _check_shown(name, book, place, crc)
            elif book.contents.get((header.epoch, place)) != (header.base, crc):
                raise Violation(f"RI9: a reader of {name} is shown what is in no log")
            values.append(uid_of(record))
            offset = place + 1
    is_beyond = records.until > len(book.committed) and not book.lost
    if isolation == "committed" and is_beyond:
        raise Violation(f"RI9: {records.until} of {name} is not committed")
    return values


def _kept(name: str, book: Book, records: Records, raw: bytes, old: float) -> list[str]:
    """Return the records of a rewritten batch; all that it lacks have newer ones of their keys."""
    header = header_of(raw)
    kept = dict(records_of(header, raw))
    shown = range(max(records.offset, header.base), min(records.until, header.end))
    for offset in shown if not book.unclean else ():
        if offset not in kept and not may_lack(book, offset, len(book.committed), old):
            raise Violation(f"RI9: a reader of {name} is not shown {offset}, which is the newest")
    for offset in kept.keys() & set(shown):
        uid = uid_of(kept[offset])
        is_there = offset < len(book.committed) and book.committed[offset].uid == uid
        if not is_there and uid not in book.lost_values:
            raise Violation(f"RI9: a reader of {name} is shown {uid} at {offset}")
    return [uid_of(kept[offset]) for offset in shown if offset in kept]


def check_high(name: str, book: Book, checked: Counter[str], epoch: int, high: int) -> None:
    """RI7: over answers of leaders whose epochs do not fall, the high watermark never falls."""
    before, shown = book.shown
    if high == HIGH_NOT_KNOWN or epoch < before or book.unclean:
        return
    checked["RI7 shown"] += 1
    if high < shown:
        raise Violation(f"RI7: {name} shows {high} in epoch {epoch}, after {shown} in {before}")
    book.shown = (epoch, high)


def _check_shown(name: str, book: Book, offset: int, crc: int) -> None:
    """RI9: a record that is shown is committed, or lost by an unclean election."""
    is_there = offset < len(book.committed) and book.committed[offset].crc == crc
    if not is_there and (offset, crc) not in book.lost:
        raise Violation(f"RI9: a reader of {name} is shown {offset}, which is not committed")
