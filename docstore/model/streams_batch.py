"""Sealed batches: records of one partition as bytes, the same on every replica and on the wire.

The leader seals a batch once; followers, disks and readers copy it. The header names its partition
and offset, so that a batch in a wrong place fails its check.
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
"""Flag of a batch whose records' values are all JSON."""
KAFKA = 2
"""Flag of a body that is one RecordBatch of Kafka, version 2, as its client sent it."""
CODEC = 0b11100
"""Flags that name the codec of a compressed body; a RecordBatch names its own."""
ZSTD = 1 << 2
SPARSE = 1 << 5
"""Flag of a batch that lacks the records of some of its offsets."""
COUNTED = 1 << 6
"""Flag of a batch whose producer numbers records, not batches. Compaction keeps it, not KAFKA."""

PURGED = 1 << 7
"""Flag of a batch from which compaction has removed tombstones."""

_FIXED = struct.Struct(">IBQIQqq16sBIqBI")
_RANGE = struct.Struct(">QI")
_RANGE_AT = struct.calcsize(">IB")
_CRC = struct.Struct(">I")
_FRAME = struct.Struct(">I")
_PLACE_AT = struct.calcsize(">IBQIQqq")
_PRODUCER_AT = _PLACE_AT + 16
_FLAGS_AT = _FIXED.size - struct.calcsize(">BI")
"""Offset of the length of the producer's id, one byte."""


class BatchHeader(NamedTuple):
    """Header of a batch.

    base, records: offset of its first record, and number of records. epoch: of the leader.
    first_us, last_us: times of appending, by the leader's clock, in microseconds since 1970.
    producer: id of an idempotent producer, "" for none; producer_epoch and sequence are its own.
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
        return self.base + self.records


@lru_cache(maxsize=4096)
def place_of(name: str) -> bytes:
    """Return the 16 bytes that name a partition in its batches."""
    return hashlib.blake2b(name.encode(), digest_size=16).digest()


def seal(place: bytes, header: BatchHeader, body: bytes) -> bytes:
    """Return the batch of these packed records; the header's size is ignored."""
    producer = header.producer.encode()
    fixed = _FIXED.pack(
        MAGIC, VERSION, header.base, header.records, header.epoch, header.first_us, header.last_us,
        place, len(producer), header.producer_epoch, header.sequence, header.flags, len(body),
    )  # fmt: skip
    head = fixed + producer
    return b"".join((head, body, _CRC.pack(zlib.crc32(body, zlib.crc32(head)))))


def head_of(raw: bytes) -> bytes:
    """Return the head of a batch: all but the records and the checksum."""
    return raw[: _FIXED.size + raw[_PRODUCER_AT]]


def header_from(head: bytes) -> BatchHeader:
    try:
        fields = _FIXED.unpack_from(head)
        producer = head[_FIXED.size :].decode()
    except (struct.error, UnicodeDecodeError) as error:
        raise ValueError(f"the head of a batch cannot be decoded: {error}") from None
    if fields[:2] != (MAGIC, VERSION) or len(head) != _FIXED.size + fields[8]:
        raise ValueError("the head of a batch has another magic number, version or length")
    size = len(head) + fields[12] + _CRC.size
    return BatchHeader._make((*fields[2:7], producer, *fields[9:12], size))


def header_of(raw: bytes) -> BatchHeader:
    if len(raw) < _FIXED.size:
        raise ValueError(f"a batch must have at least {_FIXED.size} bytes; got {len(raw)}")
    header = header_from(head_of(raw))
    if header.size != len(raw):
        raise ValueError(f"a batch has {len(raw)} bytes, and its head says {header.size}")
    return header


def range_of(raw: bytes) -> tuple[int, int]:
    """Return the first offset of a batch that was verified before, and the offset after it."""
    base, records = _RANGE.unpack_from(raw, _RANGE_AT)
    return base, base + records


def flags_of(raw: bytes) -> int:  # Tests replace this.
    """Return the flags of a batch that was verified before."""
    return raw[_FLAGS_AT]


def is_of(head: bytes, place: bytes) -> bool:
    return head[_PLACE_AT:_PRODUCER_AT] == place


def body_of(raw: bytes) -> bytes:
    return raw[_FIXED.size + raw[_PRODUCER_AT] : -_CRC.size]


def body_view(raw: bytes) -> memoryview:
    """Return the body of a batch without a copy."""
    return memoryview(raw)[_FIXED.size + raw[_PRODUCER_AT] : -_CRC.size]


def verified(raw: bytes, place: bytes) -> BatchHeader:
    """Verify a batch of this partition; return its header. Raises ValueError."""
    header = header_of(raw)
    if zlib.crc32(memoryview(raw)[: -_CRC.size]) != _CRC.unpack_from(raw, len(raw) - _CRC.size)[0]:
        raise ValueError("a batch does not match its checksum: it is damaged")
    if not is_of(raw, place):
        raise ValueError("a batch belongs to another partition than the one that is read")
    return header


def framed(batches: Iterable[bytes]) -> bytes:
    """Concatenate batches for readers, each after its length."""
    return b"".join([piece for raw in batches for piece in (_FRAME.pack(len(raw)), raw)])


def unframed(content: bytes) -> Iterator[bytes]:
    """Reverse `framed`. Raises ValueError for truncated content."""
    at, number = 0, 0
    while at < len(content):
        number, begin = number + 1, at + _FRAME.size
        if begin > len(content):
            raise ValueError(f"the body ends inside the length of batch {number}")
        at = begin + _FRAME.unpack_from(content, at)[0]
        if at > len(content):
            raise ValueError(f"the body ends inside batch {number}, which has {at - begin} bytes")
        yield content[begin:at]
