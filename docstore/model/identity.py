"""Identity of the operation that made a row: everything that a retry's answer needs.

A retry may meet another owner than the one that made the row, after a restart of every node; so
whatever its answer needs is in the row itself.
"""

import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgpack

from docstore.model.batch import updates_of
from docstore.model.document import Row
from docstore.model.operation import Operation

_pack = msgpack.Packer().pack
"""One for all: to make a packer costs more than to pack an identity."""


class OperationIdentity(NamedTuple):
    """An operation, as its row carries it.

    fingerprint: of the request body, to tell a retry from another use of the same key.
    writer: the job, batch and sequence of a bulk job's write (see `documents/jobs.py`), () for
    others. created: it brought its document into being; said only where the version, not being 0,
    does not. fences: all that its document remembers from this row on, see `model/fences.py`.
    part: of a batch: which of its rows this is, and how many they are, next to each other in the
    log; () for others.
    principal: the user that wanted it, "" where the group asks for no user.
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

    def pack(self) -> bytes:
        """Return the bytes that a row carries."""
        length = 9 if self.fences else 8 if self.created else 7 if self.writer else 6
        length = 11 if self.principal else 10 if self.part else length
        packed: bytes = _pack(self[:length])  # Those fields that have something to say.
        return packed


def unpack_identity(packed: bytes) -> OperationIdentity:
    """Return the identity from a row's bytes."""
    return OperationIdentity(*msgpack.unpackb(packed))


def fingerprint(operation: Operation) -> int:
    """Return a number that tells two requests under the same key apart.

    For a batch it covers the content of the lines, not their packing, which may differ by version.
    """
    mark = zlib.crc32(operation.verb.encode())
    if operation.verb != "BATCH":
        return zlib.crc32(operation.body, mark)
    for update in updates_of(operation):
        for said in (update.verb.encode(), update.link.encode(), update.body):
            mark = zlib.crc32(said, zlib.crc32(b"%d" % len(said), mark))
    return mark


def has_created(row: Row) -> bool:
    """Say whether a row brought its document into being, for the first time or again."""
    return row.version == 0 or unpack_identity(row.operation).created
