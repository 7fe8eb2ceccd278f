"""A sealed batch: records of one partition as bytes, the same on every replica and on the wire.

The leader seals it once; followers, disks and readers take it as it is. The header says where it
belongs: a batch in another partition's place, or at another offset, fails its check.
"""

import hashlib
import struct
import zlib
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

MAGIC = 0x444F4353  # "DOCS"
VERSION = 1
JSON = 1
"""Flag: the value of every record is a JSON text."""

_FIXED = struct.Struct(">IBQIQqq16sBIqBI")
_CRC = struct.Struct(">I")
_FRAME = struct.Struct(">I")
_PLACE_AT = struct.calcsize(">IBQIQqq")
_PRODUCER_AT = _PLACE_AT + 16
"""Where the length of the producer's id stands, one byte."""


class BatchHeader(NamedTuple):
    """Header of a batch.

    base, records: offset of its first record, and how many there are. epoch: under which it was
    appended. first_us, last_us: when, by the leader's clock, microseconds since 1970.
    producer: id of an idempotent one, "" for none; with its epoch and the batch's sequence.
    size: bytes of the whole batch.
    """

    base: int
    records: int
    epoch: int
    first_us: int
    last_us: int
    producer: str
    producer_epoch: int
    sequence: int
    flags: int
    size: int

    @property
    def end(self) -> int:
        """Return the offset after its last record."""
        return self.base + self.records


@lru_cache(maxsize=4096)
def place_of(name: str) -> bytes:
    """Return the 16 bytes by which a batch knows its partition."""
    return hashlib.blake2b(name.encode(), digest_size=16).digest()


def seal(place: bytes, header: BatchHeader, body: bytes) -> bytes:
    """Return the batch of these records; the header's size is not looked at."""
    producer = header.producer.encode()
    fixed = _FIXED.pack(
        MAGIC, VERSION, header.base, header.records, header.epoch, header.first_us, header.last_us,
        place, len(producer), header.producer_epoch, header.sequence, header.flags, len(body),
    )  # fmt: skip
    head = fixed + producer
    return b"".join((head, body, _CRC.pack(zlib.crc32(body, zlib.crc32(head)))))


def head_of(raw: bytes) -> bytes:
    """Return the beginning of a batch, which is all of it but the records and the checksum."""
    return raw[: _FIXED.size + raw[_PRODUCER_AT]]


def header_from(head: bytes) -> BatchHeader:
    """Return what the head of a batch says. Raises ValueError when it is none."""
    try:
        fields = _FIXED.unpack_from(head)
        producer = head[_FIXED.size :].decode()
    except (struct.error, UnicodeDecodeError) as error:
        raise ValueError(f"not a batch: {error}") from None
    if fields[:2] != (MAGIC, VERSION) or len(head) != _FIXED.size + fields[8]:
        raise ValueError("not a batch")
    size = len(head) + fields[12] + _CRC.size
    return BatchHeader._make((*fields[2:7], producer, *fields[9:12], size))


def header_of(raw: bytes) -> BatchHeader:
    """Return the header of a batch. Raises ValueError when it is none."""
    if len(raw) < _FIXED.size:
        raise ValueError("not a batch: too short")
    header = header_from(head_of(raw))
    if header.size != len(raw):
        raise ValueError("not a batch: another length")
    return header


def is_of(head: bytes, place: bytes) -> bool:
    """Say whether a batch, or its head, names this partition."""
    return head[_PLACE_AT:_PRODUCER_AT] == place


def body_of(raw: bytes) -> bytes:
    """Return the packed records of a batch."""
    return raw[_FIXED.size + raw[_PRODUCER_AT] : -_CRC.size]


def verified(raw: bytes, place: bytes) -> BatchHeader:
    """Return the header of a batch of this partition. Raises ValueError when it is damaged."""
    header = header_of(raw)
    if zlib.crc32(memoryview(raw)[: -_CRC.size]) != _CRC.unpack_from(raw, len(raw) - _CRC.size)[0]:
        raise ValueError("a batch fails its checksum")
    if not is_of(raw, place):
        raise ValueError("a batch of another partition")
    return header


def framed(batches: Iterable[bytes]) -> bytes:
    """Return batches one after the other, each behind its length: as readers get them."""
    return b"".join([piece for raw in batches for piece in (_FRAME.pack(len(raw)), raw)])


def unframed(content: bytes) -> Iterator[bytes]:
    """Yield the batches of what `framed` returned. Raises ValueError when it is cut off."""
    at = 0
    while at < len(content):
        begin = at + _FRAME.size
        if begin > len(content):
            raise ValueError("batches are cut off")
        at = begin + _FRAME.unpack_from(content, at)[0]
        if at > len(content):
            raise ValueError("batches are cut off")
        yield content[begin:at]
