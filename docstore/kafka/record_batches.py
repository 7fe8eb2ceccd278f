"""RecordBatches of Kafka, version 2: check those of clients, and make those that clients read."""

import struct
from collections.abc import Sequence
from typing import NamedTuple

from aiokafka.errors import CorruptRecordException
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from crc32c import crc32c
from kio.schema.errors import ErrorCode

from docstore.errors import Picklable
from docstore.model.streams_batch import KAFKA, SPARSE, BatchHeader, body_view
from docstore.streams.codecs import NONE, ZSTD, TooLarge
from docstore.streams.forms import records_of
from docstore.streams.kafka_records import (
    CODEC,
    HEAD_SIZE,
    MAGIC,
    NO_TIME,
    KafkaHead,
    kafka_head,
    kafka_plain,
    kafka_record,
    varint,
)
from docstore.streams.records import HEADERS_MAX, NAME_BYTES_MAX, TIME_MAX

RECORDS_MAX = 100_000
"""Greatest number of records in a client's batch."""
ALL_HEADERS_MAX = 2 * RECORDS_MAX
"""Greatest number of headers in a client's batch: 150 KB of zstd could have six millions."""
LARGE_BYTES = 1 << 16
"""Size from which a record is read carefully, as it could have a million headers."""

_PLACE = struct.Struct(">qii")
_CRC, _LAST, _TIME = struct.Struct(">I"), struct.Struct(">i"), struct.Struct(">q")
_SIZED_AT = struct.calcsize(">qi")
_MAGIC_AT = _PLACE.size
_ATTRIBUTES_AT = struct.calcsize(">qiibI")
_LAST_AT = struct.calcsize(">qiibIh")
_LAST_MS_AT = struct.calcsize(">qiibIhiq")
_APPEND_TIME, _TRANSACTIONAL, _CONTROL = 8, 16, 32
_NO_ID = _NO_EPOCH = -1
_NO_BOUND = 1 << 62


class BatchRefused(Picklable, ValueError):
    """A client's batch that cannot be appended; code: Kafka's, for the client."""

    def __init__(self, code: ErrorCode, detail: str) -> None:
        super().__init__(detail)
        self.code = code


class NeedsKeys(BatchRefused):
    """A batch with a record without a key, for a topic that is compacted."""


class ClientBatch(NamedTuple):
    """Facts of a client's batch that its leader needs.

    producer: (id, epoch, sequence of the first record), None for none. last_ms: greatest time of a
    record.
    """

    raw: bytes
    records: int
    producer: tuple[int, int, int] | None
    last_ms: int


def checked(raw: bytes, *, needs_keys: bool = False) -> ClientBatch:
    """Check a client's batch, so that every reader can read it. Raises BatchRefused.

    needs_keys: whether the topic is compacted, which keeps a record for each key.
    """
    head = _checked_head(raw)
    try:
        plain = kafka_plain(head, raw)
        _check_lengths(head, plain)
        last_ms = _checked_times(head, raw, plain, needs_keys=needs_keys)
    except TooLarge as error:
        raise BatchRefused(ErrorCode.message_too_large, str(error)) from None
    except (CorruptRecordException, IndexError, MemoryError, OverflowError, ValueError) as error:
        if isinstance(error, BatchRefused):
            raise
        raise BatchRefused(ErrorCode.invalid_record, f"the records are invalid: {error}") from None
    if last_ms != head.last_ms:
        raw = _with_last_ms(raw, last_ms)
    producer = (head.producer, head.producer_epoch, head.sequence)
    return ClientBatch(raw, head.records, producer if head.producer >= 0 else None, last_ms)


def is_compressed(raw: bytes) -> bool:
    """Say whether the check of a batch decompresses it, which may take many milliseconds."""
    return len(raw) > _LAST_AT and bool(raw[_LAST_AT - 1] & CODEC)


def _checked_head(raw: bytes) -> KafkaHead:
    if len(raw) > _MAGIC_AT and raw[_MAGIC_AT] != MAGIC:
        raise BatchRefused(
            ErrorCode.unsupported_for_message_format,
            f"the message format must be {MAGIC}, as clients since Kafka 0.11 send it; got"
            f" {raw[_MAGIC_AT]}",
        )
    try:
        head = kafka_head(raw)
    except ValueError as error:
        raise BatchRefused(ErrorCode.corrupt_message, str(error)) from None
    if head.size != len(raw) - _SIZED_AT:
        detail = f"one RecordBatch of {len(raw)} bytes must be sent; its head says {head.size}"
        raise BatchRefused(ErrorCode.corrupt_message, detail)
    if head.crc != crc32c(memoryview(raw)[_ATTRIBUTES_AT:]):
        raise BatchRefused(ErrorCode.corrupt_message, "the batch does not match its CRC-32C")
    _check_fields(head)
    return head


def _check_fields(head: KafkaHead) -> None:
    error, attributes = ErrorCode, head.attributes
    for is_wrong, code, detail in (
        (attributes & _TRANSACTIONAL, error.invalid_txn_state, "there are no transactions"),
        (attributes & _CONTROL, error.invalid_record, "control records are a broker's"),
        (attributes & _APPEND_TIME, error.invalid_timestamp, "times must be CreateTime"),
        (attributes >> 6, error.invalid_record, "attributes from bit 6 on must be 0"),
        (head.codec > ZSTD, error.unsupported_compression_type, "the codec must be 0 to 4"),
        (
            not 0 < head.records == head.last + 1,
            error.invalid_record,
            "there must be a record for each offset",
        ),
        (
            head.records > RECORDS_MAX,
            error.message_too_large,
            f"there must be at most {RECORDS_MAX} records; got {head.records}",
        ),
        (
            head.producer >= 0 > min(head.producer_epoch, head.sequence),
            error.invalid_record,
            "a producer with an id must give its epoch and sequence",
        ),
    ):
        if is_wrong:
            raise BatchRefused(code, f"a RecordBatch is refused: {detail}")


def _check_lengths(head: KafkaHead, plain: bytes) -> None:
    """Walk from record to record. Raises IndexError, ValueError."""
    at = 0
    for _ in range(head.records):
        begin = at
        byte, following = plain[at], plain[at + 1]
        if byte & 1:
            raise ValueError("the length of a record is negative")
        if byte < 0x80:
            length, at = byte >> 1, at + 1
        elif following < 0x80:  # Most records have 64 to 8191 bytes.
            length, at = (byte & 0x7F | following << 7) >> 1, at + 2
        else:
            length, at = varint(plain, at)
        if plain[at]:
            raise ValueError("the attributes of a record must be 0")
        if length > LARGE_BYTES:
            kafka_record(plain, begin, head.first_ms)
        at += length
    if at != len(plain):
        raise ValueError(f"their lengths end at {at} of {len(plain)} bytes")


def _checked_times(head: KafkaHead, raw: bytes, plain: bytes, *, needs_keys: bool) -> int:
    """Check each record; return the greatest time.

    Reading 500 records takes 0.1 ms in Cython, and six times as long by `kafka_records`.
    """
    if head.codec != NONE:
        # The reader takes them uncompressed: its own decompression has no limit.
        raw = raw[:_ATTRIBUTES_AT] + bytes(2) + raw[_LAST_AT:HEAD_SIZE] + plain
    expected, headers, first_ms, last_ms = head.base, 0, TIME_MAX, NO_TIME
    for record in DefaultRecordBatch(raw):
        if record.offset != expected:
            raise ValueError("their offsets must be consecutive, from 0 on")
        expected += 1
        if needs_keys and record.key is None:
            detail = "the records are invalid: each must have a key, as the topic is compacted"
            raise NeedsKeys(ErrorCode.invalid_record, detail)
        if record.headers:
            headers += len(record.headers)
            if headers > ALL_HEADERS_MAX:
                raise TooLarge(f"a batch must have at most {ALL_HEADERS_MAX} headers")
            _check_headers(record.headers)
        ms = record.timestamp
        if ms > last_ms:  # `max` takes twice as long.
            last_ms = ms
        elif ms < first_ms:
            first_ms = ms
    if first_ms < NO_TIME or last_ms * 1000 > TIME_MAX:
        raise BatchRefused(ErrorCode.invalid_timestamp, "a time must be milliseconds since 1970")
    return last_ms


def _check_headers(headers: Sequence[tuple[str, bytes | None]]) -> None:
    if len(headers) > HEADERS_MAX:
        raise ValueError(f"headers must be at most {HEADERS_MAX}; got {len(headers)}")
    if max(len(name.encode()) for name, _ in headers) > NAME_BYTES_MAX:
        raise ValueError(f"the name of a header must have at most {NAME_BYTES_MAX} bytes")


def _with_last_ms(raw: bytes, last_ms: int) -> bytes:
    """Return a batch with its greatest time in its head, where some clients write another."""
    return _resummed(raw[:_LAST_MS_AT] + _TIME.pack(last_ms) + raw[_LAST_MS_AT + _TIME.size :])


def _resummed(raw: bytes) -> bytes:
    crc = _CRC.pack(crc32c(memoryview(raw)[_ATTRIBUTES_AT:]))
    return raw[: _ATTRIBUTES_AT - _CRC.size] + crc + raw[_ATTRIBUTES_AT:]


def for_clients(header: BatchHeader, raw: bytes) -> tuple[bytes, memoryview]:
    """Return a batch of any form as Kafka's clients read it, in two pieces."""
    body = body_view(raw) if header.flags & KAFKA else memoryview(_built(header, raw))
    # Kafka's checksum leaves out these three fields. Without an epoch, as in the metadata, clients
    # do not compare their position with the leader's log.
    place = _PLACE.pack(header.base, len(body) - _SIZED_AT, _NO_EPOCH)
    return place, body[_MAGIC_AT:]


def _built(header: BatchHeader, raw: bytes) -> bytes:
    builder = DefaultRecordBatchBuilder(MAGIC, NONE, 0, _NO_ID, _NO_ID, _NO_ID, _NO_BOUND)
    for offset, (key, value, headers, client_us) in records_of(header, raw):
        us = header.last_us if client_us is None else client_us
        builder.append(offset - header.base, us // 1000, key, value, list(headers))
    built = bytes(builder.build())
    if not header.flags & SPARSE:
        return built
    # The last offset of a batch stays although its record may be missing.
    last = _LAST.pack(header.records - 1)
    return _resummed(built[:_LAST_AT] + last + built[_LAST_AT + _LAST.size :])
