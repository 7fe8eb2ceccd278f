"""The entries of a journal as bytes, and the order in which a start finds them.

An entry holds all writes of one commit. It begins and ends on a boundary of 4 KiB, so that writing
the next entry overwrites no sector of it. Its header:

    magic, number, boot, length and CRC-32 of the body, the stamp of the entry before; its own stamp

The stamp is a BLAKE2b over the header under a secret key in the tables. So a document that looks
like a header, or an entry of another store, never passes for an entry.

Entries are numbered without a hole for as long as the store lives, and the next one is written only
after the one before is durable. So a start can judge all entries that it finds, wherever they are.
An entry of an earlier lap of the files has a smaller number. The last entry may be torn; it was
then not acknowledged. An entry that is missing or broken although one with a greater number exists
was acknowledged, and is lost.
"""

import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from typing import NamedTuple

from docstore.errors import StoreDamaged

PAGE = 4096
"""Bytes between the boundaries on which entries begin. No disk has larger sectors."""
KEY_BYTES = 16

_MAGIC = b"DSJ1"
_HEAD = struct.Struct(">4sQQII8s")
_STAMP_BYTES = 8
HEADER_BYTES = _HEAD.size + _STAMP_BYTES


class Position(NamedTuple):
    """A position in the sequence of entries: number and stamp of the last one included."""

    number: int
    stamp: bytes


START = Position(0, bytes(_STAMP_BYTES))
"""The position before the first entry of a store."""


class Header(NamedTuple):
    """The header of an entry."""

    number: int
    boot: int
    """Boot number of the node when it wrote the entry."""
    length: int
    """Length of the body in bytes."""
    crc: int
    previous: bytes
    stamp: bytes

    @property
    def position(self) -> Position:
        """Return the position after this entry."""
        return Position(self.number, self.stamp)

    def is_whole(self, body: bytes) -> bool:  # Tests replace this.
        """Return whether `body` is the one written with this header."""
        return len(body) == self.length and zlib.crc32(body) == self.crc


def packed(key: bytes, boot: int, previous: Position, body: bytes) -> tuple[Header, list[bytes]]:
    """Return the entry after `previous`: its header, and its bytes in parts, padded."""
    number, crc = previous.number + 1, zlib.crc32(body)
    head = _HEAD.pack(_MAGIC, number, boot, len(body), crc, previous.stamp)
    header = Header(number, boot, len(body), crc, previous.stamp, _stamp(key, head))
    padding = bytes(room_for(len(body)) - HEADER_BYTES - len(body))
    return header, [head, header.stamp, body, padding]


def room_for(length: int) -> int:
    """Return the size in bytes of an entry with a body of `length`."""
    return -(-(HEADER_BYTES + length) // PAGE) * PAGE


def headers_in(key: bytes, content: bytes) -> Iterator[tuple[int, Header]]:
    """Yield the headers in content that begins on a boundary, each with its offset."""
    for offset in range(0, len(content) - HEADER_BYTES + 1, PAGE):
        if content.startswith(_MAGIC, offset):
            head = content[offset : offset + _HEAD.size]
            stamp = content[offset + _HEAD.size : offset + HEADER_BYTES]
            if stamp == _stamp(key, head):
                _, number, boot, length, crc, previous = _HEAD.unpack(head)
                yield offset, Header(number, boot, length, crc, previous, stamp)


def is_written(content: bytes) -> bool:
    """Return whether `content` seems to hold an entry of any store."""
    return any(content.startswith(_MAGIC, at) for at in range(0, len(content), PAGE))


def behind(
    position: Position,
    found: Sequence[Header],
    is_whole: Callable[[Header], bool],
    *,
    may_be_missing: bool,
) -> list[Header]:
    """Return the entries after `position`, the last one that the tables hold, in order.

    found: all headers in the journal, in any order. is_whole: reads and verifies the body of an
    entry. may_be_missing: whether the tables record that they hold all acknowledged entries, so
    that the journal may be missing. Raises StoreDamaged when an acknowledged entry is gone.
    """
    newest = max((header.number for header in found), default=0)
    if not may_be_missing and not any(_is_known(position, header) for header in found):
        which = "tables are older than the journal" if newest > position.number else (
            "journal is missing, damaged, of another store or older than the tables"
        )  # fmt: skip
        raise StoreDamaged(f"the {which}: its entry {position.number} is missing")
    entries: list[Header] = []
    end = position
    while True:
        following = [header for header in found if header.number == end.number + 1]
        whole = [header for header in following if is_whole(header)]
        fitting = [header for header in whole if _is_next(end, header)]
        if not fitting:
            break
        entries.append(fitting[0])
        end = fitting[0].position
    if whole:
        raise StoreDamaged(
            f"entry {end.number + 1} of the journal does not follow the tables' last"
        )
    _insist_on_a_tail(end, newest)
    return entries


def _is_known(position: Position, header: Header) -> bool:
    return _is_next(position, header) or header.position == position


def _is_next(position: Position, header: Header) -> bool:  # Tests replace this.
    return header.number == position.number + 1 and header.previous == position.stamp


def _insist_on_a_tail(end: Position, newest: int) -> None:  # Tests replace this.
    """Raise StoreDamaged if a later entry proves that the one after `end` was acknowledged."""
    if newest > end.number + 1:
        raise StoreDamaged(f"entry {end.number + 1} of the journal is missing, but {newest} exists")


def _stamp(key: bytes, head: bytes) -> bytes:  # Tests replace this.
    return blake2b(head, digest_size=_STAMP_BYTES, key=key).digest()
