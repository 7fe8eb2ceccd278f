"""Rows, records and the node's line as columns, each with a checksum over all of its fields.

The CRC-32 covers the keys too: a row in the place of another one is as wrong as one with a flipped
bit. It guards against bad disks, not against attackers.
"""

import struct
import zlib
from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar, cast

import msgpack

from docstore.model.document import Ballots, Row
from docstore.storage.store import SlotRecord, Status

T = TypeVar("T")

_HEAD = struct.Struct(">5qB6I")


def row_checksum(row: Row) -> int:
    """Return the CRC-32 over all fields of a row: numbers, lengths, then the rest in order."""
    (
        slot, n, epoch, owner_name, path, version, action_name, updated_us, deleted,
        signature, operation, digest, state,
    ) = row  # fmt: skip
    owner, link, action = owner_name.encode(), path.encode(), action_name.encode()
    head = _HEAD.pack(
        slot, n, epoch, version, updated_us, deleted,
        len(owner), len(link), len(action), len(signature), len(operation), len(digest),
    )  # fmt: skip
    body = b"".join((head, owner, link, action, signature, operation, digest))
    return zlib.crc32(state, zlib.crc32(body))


def row_of(columns: tuple[object, ...]) -> Row | None:
    """Return the row of these columns, None if it is damaged."""
    *fields, found = columns
    try:
        row = Row(*fields)  # type: ignore[arg-type]  # The checksum vouches for the types as well.
        if row_checksum(row) != found:
            return None
    except (AttributeError, TypeError, ValueError, struct.error):
        return None  # A damaged column can have another type, or be no text.
    return row._replace(deleted=bool(row.deleted))


def columns_of(record: SlotRecord) -> tuple[object, ...]:
    return sealed((
        record.slot, *record.promised, *record.adopted, ballots_packed(record.ballots),
        record.kept, record.floor, record.decided, record.status.value,
    ))  # fmt: skip


def record_of(columns: tuple[object, ...]) -> SlotRecord | None:
    """Return the record of these columns, None if it is damaged."""
    fields = opened(columns)
    if fields is None:
        return None
    # The checksum vouches for the types as well.
    slot, epoch, owner, adopted_epoch, adopted_owner, ballots, kept, floor, decided, status = cast(
        "tuple[int, int, str, int, str, bytes, int, int, int, str]", fields
    )
    return SlotRecord(
        slot=slot,
        promised=(epoch, owner),
        adopted=(adopted_epoch, adopted_owner),
        ballots=ballots_unpacked(ballots),
        kept=kept,
        floor=floor,
        decided=decided,
        status=Status(status),
    )


class NodeLine(NamedTuple):
    """The one line of `node`."""

    format: int
    store_id: str
    boot: int
    configuration: bytes | None
    schema: int
    """CRC-32 of the definitions of all tables, as the creation of the file left them."""


SCHEMA = "SELECT sql FROM sqlite_master ORDER BY name"
"""Query for the definitions of a file's tables."""


def schema_checksum(definitions: list[tuple[str]]) -> int:
    """Return the checksum of the table definitions, as SCHEMA selects them."""
    return checksum(tuple(definitions))


def ballots_packed(ballots: Ballots) -> bytes:
    packed: bytes = msgpack.packb([(*ballot, first) for ballot, first in ballots])
    return packed


def ballots_unpacked(packed: bytes) -> Ballots:
    return tuple(((epoch, owner), first) for epoch, owner, first in msgpack.unpackb(packed))


def sealed(fields: Iterable[object]) -> tuple[object, ...]:
    """Return the columns of fields: these, and their checksum."""
    fields = tuple(fields)
    return (*fields, checksum(fields))


def opened(columns: tuple[object, ...]) -> tuple[object, ...] | None:
    """Return the fields of `sealed` columns, None if one is damaged."""
    fields = columns[:-1]
    return fields if checksum(fields) == columns[-1] else None


def line_of(kind: Callable[..., T], columns: tuple[object, ...]) -> T | None:
    """Return a line of some kind from its `sealed` columns, None if one is damaged."""
    fields = opened(columns)
    return None if fields is None else kind(*fields)


def checksum(fields: tuple[object, ...]) -> int:
    """Return the CRC-32 over fields of any types that msgpack supports."""
    packed: bytes = msgpack.packb(fields)
    return zlib.crc32(packed)
