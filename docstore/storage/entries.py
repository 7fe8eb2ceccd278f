"""The body of a journal entry: the writes of one commit, packed.

One list for each write: the number of its kind, then its fields in order. Rows are packed as
tuples, records of slots as the columns of their table. Only a start reads entries, after it has
verified their checksums and stamps.
"""

from collections.abc import Callable, Sequence
from typing import Any, assert_never

import msgpack

from docstore.errors import StoreDamaged
from docstore.model.document import Row
from docstore.storage import packing, store
from docstore.storage.replication_log import Arrive, BranchStatus, Prune, SaveCursor, SetStatus

EMPTY: bytes = msgpack.packb([])
"""Body of an entry without writes, which marks the entry before it as complete."""


def packed(writes: Sequence[store.Write]) -> bytes:
    body: bytes = msgpack.packb([_fields(write) for write in writes])
    return body


def _fields(write: store.Write) -> tuple[Any, ...]:
    match write:
        case store.Append(rows):
            return (0, rows)
        case store.SaveSlot(record):
            return (1, packing.columns_of(record))
        case store.Truncate(slot, end):
            return (2, slot, end)
        case store.Erase(slot):
            return (3, slot)
        case store.Base(rows):
            return (4, rows)
        case store.Trim(slot, after, kept, versions):
            return (5, slot, after, kept, versions) if versions else (5, slot, after, kept)
        case store.Purge(slot, tombstones):
            return (6, slot, tombstones)
        case store.SaveConfiguration(configuration):
            return (7, configuration)
        case Arrive(row, standing):
            return (8, row, int(standing))
        case SetStatus(n, standing):
            return (9, n, int(standing))
        case Prune(numbers):
            return (10, numbers)
        case SaveCursor(disk, configuration, n):
            return (11, disk, configuration, n)
        case _:
            assert_never(write)


def unpacked(body: bytes) -> list[store.Write]:
    """Return the writes of an entry. Raises StoreDamaged when it cannot be decoded."""
    try:
        entries = msgpack.unpackb(body, use_list=False)
        return [_WRITES[kind](*fields) for kind, *fields in entries]
    except (IndexError, TypeError, ValueError) as error:
        raise StoreDamaged(f"an entry of the journal cannot be decoded: {error}") from error


def _rows(rows: Sequence[tuple[Any, ...]]) -> list[Row]:
    return [Row(*row) for row in rows]


def _record(columns: tuple[object, ...]) -> store.SlotRecord:
    record = packing.record_of(columns)
    if record is None:
        raise ValueError("the record of a slot is damaged")
    return record


_WRITES: list[Callable[..., store.Write]] = [
    lambda rows: store.Append(_rows(rows)),
    lambda columns: store.SaveSlot(_record(columns)),
    store.Truncate,
    store.Erase,
    lambda rows: store.Base(_rows(rows)),
    store.Trim,
    store.Purge,
    store.SaveConfiguration,
    lambda row, standing: Arrive(Row(*row), BranchStatus(standing)),
    lambda n, standing: SetStatus(n, BranchStatus(standing)),
    Prune,
    SaveCursor,
]
"""Constructors of the writes, by the number of their kind."""
