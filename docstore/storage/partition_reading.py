"""The reader of streams, on one SQLite connection, in the thread of the caller.

It returns no unverified batch and misses none: a batch has a checksum and follows the one before it
without a hole, and the partition's tail names the first and the last offset.
"""

import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import assert_never

from docstore.errors import StoreBroken
from docstore.model.streams_batch import BatchHeader, header_from, is_of, place_of, verified
from docstore.storage import partition_tables as tables
from docstore.storage.packing import line_of
from docstore.storage.partition_packing import FileLine, Tail, record_of
from docstore.storage.partitions import (
    At,
    Batches,
    CorruptPartition,
    Oldest,
    PartitionQuery,
    PartitionRecord,
    PartitionRecovered,
    PartitionResult,
    Size,
    StreamsRecovered,
)
from docstore.storage.store import Status
from docstore.storage.transactions import FILE_ERRORS, is_unreadable, snapshot

_ALL = (1 << 63) - 1
"""A limit above any number of batches."""


class Damaged(Exception):
    """A batch or line differs from what was written, or is in another place."""


def answer(
    connection: sqlite3.Connection, queries: Sequence[PartitionQuery]
) -> list[PartitionResult]:
    """Return the results of `queries`, all from one snapshot."""
    results: list[PartitionResult] = []
    with snapshot(connection):
        for query in queries:
            try:
                results.append(_answer(connection, query))
            except Damaged:
                results.append(CorruptPartition(query.name))
            except FILE_ERRORS as error:
                if not is_unreadable(error):
                    raise
                results.append(CorruptPartition(query.name))
    return results


def _answer(connection: sqlite3.Connection, query: PartitionQuery) -> PartitionResult:
    tail = _tail(connection, query.name)
    if tail is None or not tail.size:
        return []
    match query:
        case Batches():
            return _batches(connection, query, tail)
        case At(_, us):
            return _at(connection, us, tail)
        case Oldest(_, limit):
            return list(_heads(connection, tail, tail.first, limit))
        case Size():
            return [tail.size]
        case _:
            assert_never(query)


def _tail(connection: sqlite3.Connection, name: str) -> Tail | None:
    """Return the tail of a partition, None when there is no such partition."""
    columns = connection.execute(tables.TAIL_OF, (name,)).fetchone()
    if columns is None:
        _insist(connection.execute(tables.NUMBER_BY_TAIL, (name,)).fetchone() is None)
        return None
    tail = line_of(Tail, columns)
    if tail is None or tail.name != name:
        raise Damaged
    return tail


def _batches(connection: sqlite3.Connection, query: Batches, tail: Tail) -> list[bytes]:
    offset, until = max(query.offset, tail.first), min(query.until, tail.end)
    found: list[bytes] = []
    if offset >= until:
        return found
    place = place_of(tail.name)
    weight, end = 0, -1
    keys = (tail.id_of(offset), tail.id_of(until))
    for key, head, rest in connection.execute(tables.BATCHES, keys):
        raw = head + rest
        weight += len(raw)
        if found and weight > query.bytes_max:
            return found
        try:
            header = verified(raw, place)
        except ValueError:
            raise Damaged from None
        _insist(tail.id_of(header.base) == key)
        _insist(header.base == end if found else header.base <= offset < header.end)
        end = header.end
        found.append(raw)
    _insist(end >= until)
    return found


def _at(connection: sqlite3.Connection, us: int, tail: Tail) -> list[BatchHeader]:
    """Find the batch of `At` by bisection over offsets, since times never decrease."""
    first, end = tail.first, tail.end
    found: list[BatchHeader] = []
    while first < end:
        header = head_at(connection, tail, (first + end) // 2)
        if header.last_us >= us:
            found, end = [header], header.base
        else:
            first = header.end
    return found


def head_at(connection: sqlite3.Connection, tail: Tail, offset: int) -> BatchHeader:
    """Return the header of the batch that holds `offset`. Raises Damaged."""
    columns = connection.execute(tables.HEAD_AT, (tail.id_of(offset),)).fetchone()
    _insist(columns is not None)
    header = _header(tail, place_of(tail.name), columns)
    _insist(header.base <= offset < header.end)
    return header


def _heads(
    connection: sqlite3.Connection, tail: Tail, base: int, limit: int
) -> Iterator[BatchHeader]:
    """Yield up to `limit` headers from the batch at `base` on, none missing."""
    place, end, number = place_of(tail.name), base, 0
    keys = (tail.id_of(base), tail.beyond, limit)
    for number, columns in enumerate(connection.execute(tables.HEADS, keys), 1):  # noqa: B007
        header = _header(tail, place, columns)
        _insist(header.base == end)
        end = header.end
        yield header
    _insist(number == limit or end == tail.end)


def _header(tail: Tail, place: bytes, columns: tuple[int, bytes, int]) -> BatchHeader:
    """Return the header of these columns, once it is verified."""
    key, head, checksum = columns
    _insist(type(head) is bytes and zlib.crc32(head) == checksum and is_of(head, place))
    try:
        header = header_from(head)
    except ValueError:
        raise Damaged from None
    _insist(tail.id_of(header.base) == key)
    return header


def recovered(connection: sqlite3.Connection, line: FileLine, *, is_old: bool) -> StreamsRecovered:
    """Return the content that a starting node needs.

    A partition with a damaged or missing batch, among those read here, is returned as faulty. A
    damaged record raises StoreBroken, as for documents.
    """
    with snapshot(connection):
        tails = tails_of(connection)
        partitions = {
            record.name: _recovered(connection, record, tails.get(number))
            for number, record in records_of(connection).items()
        }
    return StreamsRecovered(line.boot, is_old, partitions)


def _recovered(
    connection: sqlite3.Connection, record: PartitionRecord, tail: Tail | None
) -> PartitionRecovered:
    if tail is None or tail.name != record.name:
        return PartitionRecovered(replace(record, status=Status.FAULTY), record.start, 0, 0)
    if not tail.size:
        return PartitionRecovered(record, record.start, 0, 0)
    headers: tuple[BatchHeader, ...] = ()
    try:
        head_at(connection, tail, tail.end - 1)
        if record.copy and record.producers_at < tail.end:
            first = head_at(connection, tail, max(record.producers_at, tail.first))
            headers = tuple(_heads(connection, tail, first.base, _ALL))
    except Damaged:
        record = replace(record, status=Status.FAULTY)
    except FILE_ERRORS as error:
        if not is_unreadable(error):
            raise
        record = replace(record, status=Status.FAULTY)
    return PartitionRecovered(record, tail.end, tail.last_us, tail.size, headers)


def records_of(connection: sqlite3.Connection) -> dict[int, PartitionRecord]:
    """Return number -> record of all partitions. Raises StoreBroken when one is damaged."""
    found: dict[int, PartitionRecord] = {}
    for columns in connection.execute(tables.PARTITIONS):
        numbered = record_of(columns)
        if numbered is None:
            raise StoreBroken(f"the record of partition {columns[1]!r} is damaged")
        found[numbered[0]] = numbered[1]
    for (number,) in connection.execute(tables.TAIL_NUMBERS):
        if number not in found:
            raise StoreBroken(f"the record of partition number {number} is missing")
    return found


def tails_of(connection: sqlite3.Connection) -> dict[int, Tail]:
    """Return number -> tail of all partitions whose tail is not damaged."""
    found = (line_of(Tail, columns) for columns in connection.execute(tables.TAILS))
    return {tail.number: tail for tail in found if tail is not None}


def file_line(connection: sqlite3.Connection) -> FileLine:
    """Return the line of a file of this version. Raises StoreBroken if it is damaged."""
    line = line_of(FileLine, connection.execute(tables.FILE).fetchone())
    if line is None:
        raise StoreBroken("the header row of the file of streams is damaged: restore it")
    return line


def _insist(held: bool) -> None:
    if not held:
        raise Damaged
