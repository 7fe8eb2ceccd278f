"""The forms of a batch show the same records; bytes of any other kind are refused in time."""

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from docstore.model.streams_batch import (
    CODEC,
    COUNTED,
    JSON,
    KAFKA,
    SPARSE,
    ZSTD,
    BatchHeader,
    header_of,
    place_of,
    seal,
    verified,
)
from docstore.streams import codecs
from docstore.streams.forms import plain_body, records_of, seal_compressed, seal_sparse
from docstore.streams.kafka_records import kafka_records
from docstore.streams.records import Record, pack
from tests.docstore.streams.test_records import RECORDS

PLACE = place_of("flights/0@018f")
COMPRESS = {
    codecs.GZIP: cramjam.gzip.compress,
    codecs.SNAPPY: cramjam.snappy.compress_raw,
    codecs.LZ4: cramjam.lz4.compress,
    codecs.ZSTD: cramjam.zstd.compress,
}


def header(records: int, flags: int = 0) -> BatchHeader:
    return BatchHeader(40, records, 3, 10, 20, "p", 1, 5, flags, 0)


def read(raw: bytes) -> list[tuple[int, Record]]:
    return list(records_of(header_of(raw), raw))


@given(st.lists(RECORDS, min_size=1, max_size=5), st.integers(0, 3))
def test_a_compressed_batch_has_the_same_records(records: list[Record], repeated: int) -> None:
    records = records * (1 + repeated)
    body = b"".join(map(pack, records))
    head = header(len(records), JSON)
    plain, packed = seal(PLACE, head, body), seal_compressed(PLACE, head, body)
    assert len(packed) <= len(plain)
    assert read(packed) == read(plain) == list(enumerate(records, 40))
    assert verified(packed, PLACE)._replace(flags=JSON, size=0) == head
    assert plain_body(header_of(packed), packed) == body


def test_a_batch_that_compression_makes_larger_stays_plain() -> None:
    assert not header_of(seal_compressed(PLACE, header(1), pack(Record(None, b"1")))).flags & CODEC
    text = pack(Record(None, b"again and " * 40))
    raw = seal_compressed(PLACE, header(1), text)
    assert header_of(raw).flags & CODEC == ZSTD
    assert len(raw) < 0.5 * len(text)


@given(st.lists(RECORDS, min_size=1, max_size=6), st.data())
def test_a_batch_with_holes_keeps_its_offsets_and_its_producer(
    records: list[Record], data: st.DataObject
) -> None:
    numbered = list(enumerate(records, 40))
    kept = data.draw(st.lists(st.sampled_from(numbered), unique_by=lambda pair: pair[0]))
    flags = data.draw(st.sampled_from([0, JSON, ZSTD, KAFKA, COUNTED | JSON]))
    raw = seal_sparse(PLACE, header(len(records), flags), sorted(kept, key=lambda pair: pair[0]))
    found = verified(raw, PLACE)
    assert read(raw) == sorted(kept, key=lambda pair: pair[0])
    assert (found.base, found.end, found.producer) == (40, 40 + len(records), "p")
    assert found.flags & (SPARSE | KAFKA) == SPARSE
    assert bool(found.flags & COUNTED) == bool(flags & (KAFKA | COUNTED))


def test_a_codec_of_a_later_version_is_named() -> None:
    raw = seal(PLACE, header(1, 2 << 2), b"later")
    with pytest.raises(ValueError, match="a codec that this version does not know"):
        read(raw)


@pytest.mark.parametrize("codec", COMPRESS)
@given(body=st.binary(max_size=300))
def test_a_body_is_read_back_from_each_codec(codec: int, body: bytes) -> None:
    assert codecs.decompressed(codec, bytes(COMPRESS[codec](body))) == body


@pytest.mark.parametrize("codec", COMPRESS)
def test_a_body_of_the_greatest_size_is_read_back_and_a_larger_one_refused(codec: int) -> None:
    largest = bytes(codecs.PLAIN_BYTES_MAX)
    assert codecs.decompressed(codec, bytes(COMPRESS[codec](largest))) == largest
    bomb = bytes(COMPRESS[codec](largest + b"1"))
    assert len(bomb) < len(largest) / 20
    with pytest.raises(codecs.TooLarge, match="at most 16777216 bytes"):
        codecs.decompressed(codec, bomb)


@pytest.mark.parametrize("codec", COMPRESS)
def test_every_cut_of_a_compressed_body_is_refused(codec: int) -> None:
    raw = bytes(COMPRESS[codec](b"".join(b"record %d " % n for n in range(40))))
    for size in range(len(raw)):
        with pytest.raises(ValueError, match="cannot be decompressed"):
            codecs.decompressed(codec, raw[:size])


@pytest.mark.parametrize("codec", range(-1, 9))
@given(body=st.binary(max_size=60))
def test_other_bytes_raise_only_value_errors(codec: int, body: bytes) -> None:
    try:
        codecs.decompressed(codec, body)
    except ValueError:
        return


def xerial(*blocks: bytes) -> bytes:
    """Return snappy blocks as Java frames them."""
    framed = [len(block).to_bytes(4, "big") + block for block in blocks]
    return b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01" + b"".join(framed)


def test_the_blocks_of_java_are_joined_and_their_sizes_checked() -> None:
    one, two = (bytes(cramjam.snappy.compress_raw(text)) for text in (b"one", b"two"))
    whole = xerial(one, two)
    assert codecs.decompressed(codecs.SNAPPY, whole) == b"onetwo"
    assert codecs.decompressed(codecs.SNAPPY, xerial()) == b""
    ends = {16, 16 + 4 + len(one), len(whole)}
    for size in set(range(16, len(whole))) - ends:
        with pytest.raises(ValueError, match="cannot be decompressed"):
            codecs.decompressed(codecs.SNAPPY, whole[:size])
    block = bytes(cramjam.snappy.compress_raw(bytes(1 << 20)))
    with pytest.raises(codecs.TooLarge):
        codecs.decompressed(codecs.SNAPPY, xerial(*[block] * 17))


@given(st.binary(max_size=150))
def test_other_bytes_are_no_batch_of_kafka(content: bytes) -> None:
    for body in (content, bytes(57) + b"\0\0\0\x05" + content):
        try:
            list(kafka_records(body))
        except ValueError:
            continue
