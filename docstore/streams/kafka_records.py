"""Records in a RecordBatch of Kafka, version 2: the body of a batch that a Kafka client has sent.

A RecordBatch is a head of 61 bytes, and records whose numbers are zigzag varints, compressed as the
head says. A leader stores it as it came. `docstore/kafka/` checks it before; this reader raises a
ValueError for any other bytes.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from docstore.streams.codecs import decompressed
from docstore.streams.records import HEADERS_MAX, NAME_BYTES_MAX, Record

MAGIC = 2
CODEC = 0b111
NO_TIME = -1

_HEAD = struct.Struct(">qiibIhiqqqhii")
HEAD_SIZE = _HEAD.size


class KafkaHead(NamedTuple):
    """Head of a RecordBatch.

    size: bytes after this field. last: offset of the last record, from `base`. first_ms, last_ms:
    times by the client's clock, of the first record and the greatest one. sequence: of the first
    record; it counts records.
    """

    base: int
    size: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last: int
    first_ms: int
    last_ms: int
    producer: int
    producer_epoch: int
    sequence: int
    records: int

    @property
    def codec(self) -> int:
        """Return the number of the codec of its records."""
        return self.attributes & CODEC


def kafka_head(batch: bytes | memoryview) -> KafkaHead:
    """Return the head of a RecordBatch. Raises ValueError."""
    if len(batch) < HEAD_SIZE:
        raise ValueError(f"a RecordBatch must have at least {HEAD_SIZE} bytes; got {len(batch)}")
    return KafkaHead._make(_HEAD.unpack_from(batch))


def kafka_plain(head: KafkaHead, batch: bytes) -> bytes:
    """Return the records of a RecordBatch, decompressed. Raises ValueError."""
    return decompressed(head.codec, batch[HEAD_SIZE:])


def kafka_records(batch: bytes) -> Iterator[tuple[int, Record]]:
    """Yield (offset from the beginning of the batch, record). Raises ValueError."""
    head = kafka_head(batch)
    plain = kafka_plain(head, batch)
    at = 0
    for _ in range(head.records):
        delta, record, at = kafka_record(plain, at, head.first_ms)
        yield delta, record
    if at != len(plain):
        raise ValueError(f"a RecordBatch has {len(plain) - at} bytes after its last record")


def kafka_record(plain: bytes, at: int, first_ms: int) -> tuple[int, Record, int]:
    """Return the offset of a record from the batch's beginning, the record, and where it ends."""
    try:
        length, at = varint(plain, at)
        end = at + length
        time, at = varint(plain, at + 1)  # The attributes, one byte, are not used.
        delta, at = varint(plain, at)
        key, at = _content(plain, at)
        value, at = _content(plain, at)
        headers, at = _headers(plain, at)
    except IndexError:
        raise ValueError("a RecordBatch ends inside a record") from None
    if at != end or at > len(plain):
        raise ValueError(f"a record must end where its length says, at {end}; it ends at {at}")
    ms = first_ms + time
    return delta, Record(key, value, headers, None if ms == NO_TIME else ms * 1000), at


def _headers(plain: bytes, at: int) -> tuple[list[tuple[str, bytes | None]], int]:
    number, at = varint(plain, at)
    if not 0 <= number <= HEADERS_MAX:
        raise ValueError(f"headers must be at most {HEADERS_MAX}; got {number}")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(number):
        name, at = _content(plain, at)
        content, at = _content(plain, at)
        if name is None or len(name) > NAME_BYTES_MAX:
            raise ValueError(f"the name of a header must have at most {NAME_BYTES_MAX} bytes")
        headers.append((name.decode(), content))
    return headers, at


def _content(plain: bytes, at: int) -> tuple[bytes | None, int]:
    size, at = varint(plain, at)
    return (None, at) if size < 0 else (plain[at : at + size], at + size)


def varint(plain: bytes, at: int) -> tuple[int, int]:
    """Return a number, and where it ends. Raises IndexError, ValueError."""
    byte = plain[at]
    value, shift = byte & 0x7F, 7
    while byte >= 0x80:
        if shift > 63:
            raise ValueError("a number in a record must have at most 64 bits")
        at += 1
        byte = plain[at]
        value |= (byte & 0x7F) << shift
        shift += 7
    value &= (1 << 64) - 1
    return (value >> 1) ^ -(value & 1), at + 1
