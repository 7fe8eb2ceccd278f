"""Rows, records and the node's line as columns, each with a checksum over all of its fields.

The CRC-32 covers the keys too: a row in the place of another one is as wrong as one with a flipped
bit. It guards against bad disks, not against attackers.
"""

import struct
import zlib
from typing import NamedTuple, cast

import msgpack

from docstore.model.document import Row
from docstore.storage.store import SlotRecord, Status

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
    ballots = [(*ballot, first) for ballot, first in record.ballots]
    fields = (
        record.slot,
        *record.promised,
        *record.adopted,
        msgpack.packb(ballots),
        record.kept,
        record.floor,
        record.decided,
        record.status.value,
    )
    return (*fields, checksum(fields))


def record_of(columns: tuple[object, ...]) -> SlotRecord | None:
    """Return the record of these columns, None if it is damaged."""
    *fields, found = columns
    if checksum(tuple(fields)) != found:
        return None
    # The checksum vouches for the types as well.
    slot, epoch, owner, adopted_epoch, adopted_owner, ballots, kept, floor, decided, status = cast(
        "tuple[int, int, str, int, str, bytes, int, int, int, str]", fields
    )
    return SlotRecord(
        slot=slot,
        promised=(epoch, owner),
        adopted=(adopted_epoch, adopted_owner),
        ballots=tuple(((of, by), first) for of, by, first in msgpack.unpackb(ballots)),
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

    def columns(self) -> tuple[object, ...]:
        return (*self, checksum(tuple(self)))

    @classmethod
    def of(cls, columns: tuple[object, ...]) -> "NodeLine | None":
        """Return the line of these columns, None if it is damaged."""
        *fields, found = columns
        return cls(*fields) if checksum(tuple(fields)) == found else None  # type: ignore[arg-type]


def cursor_of(columns: tuple[object, ...]) -> tuple[str, tuple[int, int]] | None:
    """Return disk -> (configuration, n) of these columns, None if it is damaged."""
    disk, configuration, n, found = columns
    if checksum((disk, configuration, n)) != found:
        return None
    return cast("str", disk), (cast("int", configuration), cast("int", n))


def columns_of_cursor(disk: str, configuration: int, n: int) -> tuple[object, ...]:
    return (disk, configuration, n, checksum((disk, configuration, n)))


SCHEMA = "SELECT sql FROM sqlite_master ORDER BY name"
"""Query for the definitions of a file's tables."""


def schema_checksum(definitions: list[tuple[str]]) -> int:
    """Return the checksum of the table definitions, as SCHEMA selects them."""
    return checksum(tuple(definitions))


def checksum(fields: tuple[object, ...]) -> int:
    """Return the CRC-32 over fields of any types that msgpack supports."""
    packed: bytes = msgpack.packb(fields)
    return zlib.crc32(packed)
