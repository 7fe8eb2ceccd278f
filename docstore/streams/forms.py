"""The forms of a sealed batch: plain, compressed, with gaps, or a RecordBatch of Kafka.

All readers of records use `records_of`, so each sees the same records whatever the form.
"""

from collections.abc import Iterable, Iterator

from docstore.model.streams_batch import (
    CODEC,
    COUNTED,
    JSON,
    KAFKA,
    PURGED,
    SPARSE,
    ZSTD,
    BatchHeader,
    body_of,
    seal,
)
from docstore.streams import codecs
from docstore.streams.kafka_records import kafka_records
from docstore.streams.records import Record, sparse, unpacked, unpacked_sparse

COMPRESSED_BYTES_MIN = 256
"""Size from which compression makes the records of a body smaller, and not only slower."""


def records_of(header: BatchHeader, raw: bytes) -> Iterator[tuple[int, Record]]:
    """Yield (offset, record) for each record of a batch."""
    if header.flags & KAFKA:
        pairs = kafka_records(body_of(raw))
    elif header.flags & SPARSE:
        pairs = unpacked_sparse(plain_body(header, raw))
    else:
        return enumerate(unpacked(plain_body(header, raw)), header.base)
    return ((header.base + delta, record) for delta, record in pairs)


def plain_body(header: BatchHeader, raw: bytes) -> bytes:
    """Return the packed records of a batch that is not a RecordBatch of Kafka, decompressed."""
    codec = header.flags & CODEC
    if codec not in (0, ZSTD):
        raise ValueError("a batch is compressed by a codec that this version does not know")
    return codecs.decompressed(codecs.ZSTD if codec else codecs.NONE, body_of(raw))


def seal_compressed(place: bytes, header: BatchHeader, body: bytes) -> bytes:
    """Return the batch of these packed records, compressed if that makes it smaller."""
    small = codecs.compressed(body) if len(body) >= COMPRESSED_BYTES_MIN else body
    if len(small) >= len(body):
        return seal(place, header, body)
    return seal(place, header._replace(flags=header.flags | ZSTD), small)


def seal_sparse(place: bytes, header: BatchHeader, kept: Iterable[tuple[int, Record]]) -> bytes:
    """Return a batch of the same offsets and producer, but only with these (offset, record).

    A RecordBatch of Kafka becomes a batch of this store. It is compressed if the original may be.
    """
    flags = header.flags & (JSON | PURGED) | SPARSE
    if header.flags & (KAFKA | COUNTED):
        flags |= COUNTED
    body = sparse((offset - header.base, record) for offset, record in kept)
    packs = seal_compressed if header.flags & (KAFKA | CODEC) else seal
    return packs(place, header._replace(flags=flags), body)
