"""RecordBatches of clients are validated, and all readers agree on the accepted ones."""

import resource
import struct
import time

import cramjam
import pytest
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from docstore.kafka.record_batches import RECORDS_MAX, BatchRefused, checked, for_clients
from docstore.model.streams_batch import KAFKA, ZSTD, BatchHeader, header_of, place_of, seal
from docstore.streams import codecs
from docstore.streams.forms import records_of, seal_compressed, seal_sparse
from docstore.streams.records import HEADERS_MAX, NAME_BYTES_MAX, Record, pack

PLACE = place_of("flights/0@018f")
BASE = 40
HEAD = struct.Struct(">qiibIhiqqqhii")
FIELDS = (
    "base", "size", "leader_epoch", "magic", "crc", "attributes", "last", "first_ms", "last_ms",
    "producer", "producer_epoch", "sequence", "records",
)  # fmt: skip
SECOND_US = 1_000_000
contents = st.none() | st.binary(max_size=30)
RECORDS = st.builds(
    Record,
    key=contents,
    value=contents,
    headers=st.lists(st.tuples(st.text(max_size=9), contents), max_size=3),
    client_us=st.none() | st.integers(0, 1 << 42).map(lambda ms: ms * 1000),
)
COMPRESS = {
    codecs.GZIP: cramjam.gzip.compress,
    codecs.SNAPPY: cramjam.snappy.compress_raw,
    codecs.LZ4: cramjam.lz4.compress,
    codecs.ZSTD: cramjam.zstd.compress,
}


def built(
    records: list[Record], codec: int = 0, producer: tuple[int, int, int] = (-1, -1, -1)
) -> bytes:
    """Return a batch as a client builds it."""
    builder = DefaultRecordBatchBuilder(2, codec, 0, *producer, 1 << 30)
    for offset, (key, value, headers, client_us) in enumerate(records):
        ms = -1 if client_us is None else client_us // 1000
        builder.append(offset, ms, key, value, list(headers))
    return bytes(builder.build())


def changed(raw: bytes, **fields: int) -> bytes:
    """Return a batch with other fields, and with the right size and checksum unless given."""
    head = dict(zip(FIELDS, HEAD.unpack_from(raw), strict=True)) | {"size": len(raw) - 12} | fields
    raw = HEAD.pack(*head.values()) + raw[HEAD.size :]
    crc = fields.get("crc", crc32c(raw[21:]))
    return raw[:17] + crc.to_bytes(4, "big") + raw[21:]


def with_body(body: bytes, records: int = 1, **fields: int) -> bytes:
    return changed(
        HEAD.pack(0, 0, 0, 2, 0, 0, records - 1, 5, 5, -1, -1, -1, records) + body, **fields
    )


def varint(number: int) -> bytes:
    value, found = number << 1 ^ number >> 63, bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def a_record(inside: bytes, delta: int = 0) -> bytes:
    """Return a record with `inside` after its offset delta."""
    inside = b"\0\0" + varint(delta) + inside
    return varint(len(inside)) + inside


def stored(raw: bytes, records: int) -> tuple[BatchHeader, bytes]:
    found = seal(PLACE, BatchHeader(BASE, records, 7, 10, 20_000, "", 0, 0, KAFKA, 0), raw)
    return header_of(found), found


def as_client_reads(raw: bytes) -> list[tuple[int, Record]]:
    assert DefaultRecordBatch(raw).validate_crc()
    return [
        (
            each.offset,
            Record(
                each.key, each.value, each.headers,
                None if each.timestamp == -1 else each.timestamp * 1000,
            ),
        )
        for each in DefaultRecordBatch(raw)
    ]  # fmt: skip


def refusal(raw: bytes) -> ErrorCode:
    with pytest.raises(BatchRefused) as caught:
        checked(raw)
    return caught.value.code


@given(st.lists(RECORDS, min_size=1, max_size=6), st.sampled_from(range(5)))
def test_a_batch_goes_through_unchanged_and_all_readers_see_its_records(
    records: list[Record], codec: int
) -> None:
    if records[0].client_us is None:  # The builder of aiokafka takes only this, or none.
        records = [each._replace(client_us=None) for each in records]
    raw = built(records, codec, (9, 2, 70))
    found = checked(raw)
    times = [-1 if each.client_us is None else each.client_us // 1000 for each in records]
    assert found[1:] == (len(records), (9, 2, 70), max(times))
    header, batch = stored(found.raw, len(records))
    assert list(records_of(header, batch)) == list(enumerate(records, BASE))
    served = b"".join(for_clients(header, batch))
    assert served[16:] == found.raw[16:]
    assert as_client_reads(served) == list(enumerate(records, BASE))
    assert HEAD.unpack_from(served)[2] == -1


@given(st.lists(RECORDS, min_size=1, max_size=6), st.booleans(), st.data())
def test_a_batch_of_docstore_is_read_by_clients(
    records: list[Record], is_compressed: bool, data: st.DataObject
) -> None:
    header = BatchHeader(BASE, len(records), 7, 10, 20_000, "", 0, 0, 0, 0)
    body = b"".join(map(pack, records))
    raw = (seal_compressed if is_compressed else seal)(PLACE, header, body)
    timed = [
        each._replace(client_us=20_000) if each.client_us is None else each for each in records
    ]
    expected = list(enumerate(timed, BASE))
    assert as_client_reads(b"".join(for_clients(header_of(raw), raw))) == expected
    kept = data.draw(st.lists(st.sampled_from(expected), unique_by=lambda pair: pair[0]))
    kept.sort(key=lambda pair: pair[0])
    raw = seal_sparse(PLACE, header, kept)
    served = b"".join(for_clients(header_of(raw), raw))
    assert as_client_reads(served) == kept
    assert DefaultRecordBatch(served).next_offset == header.end


def test_a_batch_without_a_producer_id_has_no_producer() -> None:
    assert checked(built([Record(None, b"1")])).producer is None


def test_each_record_for_a_compacted_topic_has_a_key() -> None:
    assert checked(built([Record(b"", b"1"), Record(b"k", None)]), needs_keys=True).records == 2
    with pytest.raises(BatchRefused, match="must have a key") as caught:
        checked(built([Record(b"k", b"1"), Record(None, b"2")]), needs_keys=True)
    assert caught.value.code == ErrorCode.invalid_record


def test_the_greatest_time_is_that_of_the_records() -> None:
    raw = built([Record(None, b"1", (), ms * 1000) for ms in (3, 9, 7)])
    for wrong in (7, 1 << 50, -1):
        assert checked(changed(raw, last_ms=wrong)) == checked(raw)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"magic": 0}, ErrorCode.unsupported_for_message_format),
        ({"magic": 1}, ErrorCode.unsupported_for_message_format),
        ({"magic": 3}, ErrorCode.unsupported_for_message_format),
        ({"crc": 5}, ErrorCode.corrupt_message),
        ({"size": 1 << 30}, ErrorCode.corrupt_message),
        ({"size": -1}, ErrorCode.corrupt_message),
        ({"attributes": 16}, ErrorCode.invalid_txn_state),
        ({"attributes": 32}, ErrorCode.invalid_record),
        ({"attributes": 8}, ErrorCode.invalid_timestamp),
        ({"attributes": 64}, ErrorCode.invalid_record),
        ({"attributes": -(1 << 15)}, ErrorCode.invalid_record),
        ({"attributes": 5}, ErrorCode.unsupported_compression_type),
        ({"attributes": codecs.ZSTD}, ErrorCode.invalid_record),
        ({"records": 0, "last": -1}, ErrorCode.invalid_record),
        ({"records": -1, "last": -2}, ErrorCode.invalid_record),
        ({"records": 3}, ErrorCode.invalid_record),
        ({"records": 3, "last": 2}, ErrorCode.invalid_record),
        ({"records": 1, "last": 0}, ErrorCode.invalid_record),
        ({"records": 1 << 30, "last": (1 << 30) - 1}, ErrorCode.message_too_large),
        ({"producer": 5}, ErrorCode.invalid_record),
        ({"producer": 5, "producer_epoch": 0}, ErrorCode.invalid_record),
        ({"first_ms": -2}, ErrorCode.invalid_timestamp),
        ({"first_ms": 1 << 61}, ErrorCode.invalid_timestamp),
        ({"first_ms": (1 << 63) - 1}, ErrorCode.invalid_timestamp),
    ],
)
def test_an_invalid_batch_head_is_refused(fields: dict[str, int], code: ErrorCode) -> None:
    raw = built([Record(None, b"1", (), SECOND_US), Record(None, b"2", (), 2 * SECOND_US)])
    assert checked(raw).records == 2
    assert refusal(changed(raw, **fields)) == code


NOTHING = varint(-1)
EMPTY = NOTHING + NOTHING + varint(0)


@pytest.mark.parametrize(
    "body",
    [
        a_record(EMPTY, delta=1),
        a_record(EMPTY) + b"\0",
        varint(-1) + a_record(EMPTY),
        b"\x0e\x01" + a_record(EMPTY)[2:],  # Attributes.
        b"\x0e\x80" + a_record(EMPTY)[2:],
        varint(1 << 31) + a_record(EMPTY)[1:],
        a_record(varint(1 << 40) + NOTHING + varint(0)),
        a_record(varint((1 << 63) - 1) + NOTHING + varint(0)),
        a_record(varint((1 << 63) - 40) + NOTHING + varint(0)),
        a_record(NOTHING + varint(1 << 31) + varint(0)),
        a_record(NOTHING + NOTHING + varint(1 << 31)),
        a_record(NOTHING + NOTHING + varint(-1)),
        a_record(NOTHING + NOTHING + varint(1) + NOTHING + NOTHING),  # The name is null.
        a_record(NOTHING + NOTHING + varint(1) + varint(1) + b"\xff" + NOTHING),
        a_record(NOTHING + NOTHING + varint(1) + varint(1 << 31) + b"a" + NOTHING),
        a_record(NOTHING + NOTHING + varint(1) + varint(256) + b"a" * 256 + NOTHING),
        a_record(NOTHING + NOTHING + varint(65) + (varint(0) + NOTHING) * 65),
        a_record(b"\xff" * 20 + b"\x01"),
        b"\xff" * 9,
        b"",
    ],
)  # fmt: skip
def test_an_invalid_record_of_a_batch_is_refused(body: bytes) -> None:
    assert checked(with_body(a_record(EMPTY))).records == 1
    for raw in (body, bytes(cramjam.zstd.compress(body))):
        attributes = 0 if raw is body else codecs.ZSTD
        assert refusal(with_body(raw, attributes=attributes)) == ErrorCode.invalid_record


def test_the_limit_of_headers_is_that_of_http() -> None:
    headers = [("n" * NAME_BYTES_MAX, b"1")] * HEADERS_MAX
    assert checked(built([Record(None, None, headers)])).records == 1


@pytest.mark.parametrize("codec", range(5))
def test_each_truncated_batch_is_refused(codec: int) -> None:
    raw = built([Record(b"k", b"value %d" % n, [("h", b"x")]) for n in range(4)], codec)
    for size in range(len(raw)):
        refusal(raw[:size])
    for size in range(HEAD.size, len(raw)):
        refusal(changed(raw[:size]))


@settings(max_examples=300)
@given(st.lists(RECORDS, min_size=1, max_size=3), st.data())
def test_an_accepted_batch_is_the_same_for_all_readers(
    records: list[Record], data: st.DataObject
) -> None:
    """The damage has a valid checksum."""
    raw = bytearray(built(records))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(HEAD.size - 36, len(raw) - 1))
        raw[at] = data.draw(st.integers(0, 255))
    try:
        found = checked(changed(bytes(raw)))
    except BatchRefused:
        return
    header, batch = stored(found.raw, found.records)
    shown = list(records_of(header, batch))
    assert shown == as_client_reads(b"".join(for_clients(header, batch)))
    assert [offset for offset, _ in shown] == list(range(BASE, header.end))


@given(st.binary(max_size=200))
def test_other_bytes_are_refused(content: bytes) -> None:
    refusal(content)
    refusal(with_body(content) if len(content) < 7 else content)


@pytest.mark.parametrize("codec", COMPRESS)
def test_a_bomb_is_refused_and_memory_does_not_grow(codec: int) -> None:
    bomb = bytes(COMPRESS[codec](bytes(48 << 20)))
    if codec == codecs.ZSTD:
        bomb *= 50
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert refusal(with_body(bomb, attributes=codec)) == ErrorCode.message_too_large
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert after - before < 20 << 10


def test_a_record_with_a_million_headers_is_refused_early() -> None:
    number = 1_000_000
    record = a_record(NOTHING + NOTHING + varint(number) + (varint(0) + NOTHING) * number)
    begin = time.process_time()
    raw = with_body(bytes(cramjam.zstd.compress(record)), attributes=codecs.ZSTD)
    assert refusal(raw) == ErrorCode.invalid_record
    assert time.process_time() - begin < 1.0


def test_a_batch_of_small_records_with_many_headers_is_refused_early() -> None:
    number = RECORDS_MAX // 2
    record = NOTHING + NOTHING + varint(HEADERS_MAX) + (varint(0) + NOTHING) * HEADERS_MAX
    plain = b"".join(a_record(record, offset) for offset in range(number))
    raw = with_body(bytes(cramjam.zstd.compress(plain)), number, attributes=codecs.ZSTD)
    assert len(raw) < 1 << 17
    begin = time.process_time()
    assert refusal(raw) == ErrorCode.message_too_large
    assert time.process_time() - begin < 1.0


def test_the_flags_of_a_stored_batch_give_its_form() -> None:
    header, raw = stored(built([Record(b"k", None)]), 1)
    with pytest.raises(ValueError, match="decompressed"):
        list(records_of(header._replace(flags=ZSTD), raw))
