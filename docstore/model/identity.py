"""Identity of the operation that made a row, with all that the answer to a retry needs.

It is stored in the row, as a retry may reach another owner, or come after a restart of all nodes.
"""

import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgpack

from docstore.model.batch import updates_of
from docstore.model.document import Row
from docstore.model.operation import Operation

_pack = msgpack.Packer().pack
"""Shared packer: creating one takes longer than packing an identity."""


class OperationIdentity(NamedTuple):
    """Identity of an operation.

    fingerprint: of the request body, to tell a retry from another use of the same key.
    writer: (job, batch, sequence) of a bulk job's write (see `documents/jobs.py`), () for others.
    created: it created its document; set only for versions other than 0.
    fences: all that its document remembers from this row on, see `model/fences.py`.
    part: (index, count) of a row in an atomic batch, whose rows are adjacent; () for others.
    principal: the user that sent it, "" where nodes authenticate no users.
    agenda: timers and effects of its document from this row on, see `model/agenda.py`.
    """

    entry: str
    boot: int
    seq: int
    oldest: int
    key: str = ""
    fingerprint: int = 0
    writer: Sequence[Any] = ()
    created: bool = False
    fences: Sequence[Any] = ()
    part: Sequence[int] = ()
    principal: str = ""
    agenda: Sequence[Any] = ()

    def pack(self) -> bytes:
        """Return the bytes for a row, without trailing fields that are empty."""
        length = 9 if self.fences else 8 if self.created else 7 if self.writer else 6
        length = 11 if self.principal else 10 if self.part else length
        length = 12 if self.agenda else length
        packed: bytes = _pack(self[:length])
        return packed


def unpack_identity(packed: bytes) -> OperationIdentity:
    return OperationIdentity(*msgpack.unpackb(packed))


def required_fields(packed: bytes) -> tuple[str, int, int, int, str, int]:
    """Return the fields of an identity up to its fingerprint, faster than all of them."""
    entry, boot, seq, oldest, key, mark = msgpack.unpackb(packed)[:6]
    return entry, boot, seq, oldest, key, mark


def fingerprint(operation: Operation) -> int:
    """Return a checksum that distinguishes two requests under the same key.

    For a batch it covers the updates, not their packing, which may differ by version.
    """
    mark = zlib.crc32(operation.verb.encode())
    if operation.verb != "BATCH":
        return zlib.crc32(operation.body, mark)
    for update in updates_of(operation):
        for said in (update.verb.encode(), update.link.encode(), update.body):
            mark = zlib.crc32(said, zlib.crc32(b"%d" % len(said), mark))
    return mark


def has_created(row: Row) -> bool:
    """Say whether a row created its document, the first time or after a deletion."""
    return row.version == 0 or unpack_identity(row.operation).created
