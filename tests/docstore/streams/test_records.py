"""Records inside a batch: packed and back, checked at the door, and as JSON shows them."""

from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from docstore.model import json
from docstore.streams.records import (
    HEADERS_MAX,
    KEY_BYTES_MAX,
    NAME_BYTES_MAX,
    Record,
    checked,
    from_json,
    from_lines,
    pack,
    shown,
    unpacked,
)

names = st.text(min_size=1, max_size=20)
RECORDS = st.builds(
    Record,
    key=st.none() | st.binary(max_size=20),
    value=st.none() | st.binary(max_size=50),
    headers=st.dictionaries(names, st.binary(max_size=9), max_size=3).map(
        lambda headers: tuple(headers.items())
    ),
    client_us=st.none() | st.integers(0, (1 << 63) - 1),
)
GOOD = pack(Record(b"k", b"1"))


@given(st.lists(RECORDS, max_size=5))
def test_packed_records_are_read_back(records: list[Record]) -> None:
    body = b"".join(map(pack, records))
    assert checked(body) == len(records)
    assert list(unpacked(body)) == records


@given(st.lists(RECORDS, min_size=1, max_size=3), st.data())
def test_a_body_that_is_cut_anywhere_is_refused_or_whole(
    records: list[Record], data: st.DataObject
) -> None:
    packed = [pack(record) for record in records]
    body = b"".join(packed)
    size = data.draw(st.integers(0, len(body)))
    edges = [len(b"".join(packed[:number])) for number in range(len(packed) + 1)]
    if size in edges:
        assert checked(body[:size]) == edges.index(size)
    else:
        whole = sum(edge <= size for edge in edges) - 1
        with pytest.raises(ValueError, match=rf"record {whole}: the body ends inside"):
            checked(body[:size])


@given(st.binary(max_size=60))
def test_checked_records_can_be_unpacked(body: bytes) -> None:
    try:
        number = checked(body)
    except ValueError:
        return
    assert len(list(unpacked(body))) == number


def test_a_record_that_is_not_msgpack_is_refused() -> None:
    with pytest.raises(ValueError, match=r"record 1: it is not msgpack\Z"):
        checked(GOOD + b"\xc1")


def test_a_key_may_be_a_text_and_is_kept_as_bytes() -> None:
    body = msgpack.packb(["é", b"1", None, None])
    assert checked(body) == 1
    assert list(unpacked(body)) == [Record("é".encode(), b"1")]


@pytest.mark.parametrize(
    ("record", "why"),
    [
        (7, "must be .key, value"),
        ([None, b""], "must be .key, value"),
        ([None, b"", None, None, None], "must be .key, value"),
        ({"value": b""}, "must be .key, value"),
        ([7, b"", None, None], "key. must be"),
        ([b"k" * (KEY_BYTES_MAX + 1), b"", None, None], "key must have at most"),
        (["k" * (KEY_BYTES_MAX + 1), b"", None, None], "text has at most 65536"),
        ([None, "text", None, None], "`value` must be bytes"),
        ([None, b"", 7, None], "headers must be"),
        ([None, b"", [["a"]], None], "each of headers must be"),
        ([None, b"", [["a", "b"]], None], "each of headers must be"),
        ([None, b"", [[b"a", b"b"]], None], "each of headers must be"),
        ([None, b"", [["a", b""], ["a", b""]], None], "headers must have different names"),
        ([None, b"", [["", b""]], None], "the name of a header"),
        ([None, b"", [["a" * (NAME_BYTES_MAX + 1), b""]], None], "the name of a header"),
        (
            [None, b"", [[str(n), b""] for n in range(HEADERS_MAX + 1)], None],
            "array has at most 64",
        ),
        ([None, b"", {"a": b"b"}, None], r"headers must be a list of \[name, bytes\]"),
        ([None, b"", {1: b"b"}, None], "the name of a member is not a text"),
        ([None, b"", None, -1], "`time` must be"),
        ([None, b"", None, 1.5], "`time` must be"),
        ([None, b"", None, True], "`time` must be"),
        ([None, b"", None, (1 << 64) - 1], "`time` must be"),
        ([None, msgpack.Timestamp(1), None, None], "no extension type is taken"),
    ],
)
def test_a_malformed_record_is_refused_with_its_number(record: Any, why: str) -> None:
    with pytest.raises(ValueError, match=f"^record 2: .*{why}"):
        checked(GOOD + GOOD + msgpack.packb(record) + GOOD)


@pytest.mark.parametrize(
    "raw",
    [
        b"\xdd\xff\xff\xff\xff",  # A list of four billion.
        b"\xdb\xff\xff\xff\xff",  # A text of four gigabytes.
        b"\x91" * 5000,  # Lists in lists.
        b"\x94\xa1\xff\xc4\x00\xc0\xc0",  # A key that is no UTF-8.
        b"\xc1",  # No msgpack.
    ],
)
def test_bytes_that_promise_too_much_are_refused(raw: bytes) -> None:
    with pytest.raises(ValueError, match=r"^record 1: "):
        checked(GOOD + raw)


def test_a_record_of_json_is_packed() -> None:
    posted = from_json({"key": "é", "value": {"a": [1, None]}, "headers": {"h": "ü"}})
    assert (posted.key, posted.partition) == ("é".encode(), None)
    headers = (("h", "ü".encode()),)
    assert list(unpacked(posted.packed)) == [Record("é".encode(), b'{"a":[1,null]}', headers)]
    assert checked(posted.packed) == 1
    assert from_json({"value": None, "partition": 3}).partition == 3


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ([], "a JSON object"),
        ({}, "value. must be given"),
        ({"value": 1, "tombstone": True}, '`"tombstone": true` in its place'),
        ({"value": 1, "tombstone": False}, '`"tombstone": true` in its place'),
        ({"tombstone": 1}, '`"tombstone": true` in its place'),
        ({"value": 1, "valu": 2}, "the member 'valu'"),
        ({"value": 1, "key": 7}, "key. must be"),
        ({"value": 1, "key": "k" * (KEY_BYTES_MAX + 1)}, "key must have at most"),
        ({"value": 1, "partition": -1}, "partition. must be"),
        ({"value": 1, "partition": True}, "partition. must be"),
        ({"value": 1, "headers": ["a"]}, "headers. must be"),
        ({"value": 1, "headers": {"a": 1}}, "headers. must be"),
        ({"value": 1, "headers": {"": ""}}, "the name of a header"),
        (
            {"value": 1, "headers": {str(n): "" for n in range(HEADERS_MAX + 1)}},
            "at most 64; got 65",
        ),
    ],
)
def test_a_malformed_json_record_is_refused(value: object, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        from_json(value)


def test_lines_are_records_and_a_broken_one_is_named() -> None:
    body = b'{"value":1}\n\n{"key":"k","value":"\xc3\xa9"}\r\n'
    assert [posted.key for posted in from_lines(body)] == [None, b"k"]
    assert from_lines(b"") == []
    for line in (b"{", b'{"value":1,"value":2}', b"[]", b'{"value":\xff}'):
        with pytest.raises(ValueError, match=r"^line 5: "):
            from_lines(body + b"\n" + line + b"\n" + body)


def as_shown(record: Record, *, is_json: bool = False) -> Any:
    return json.load(json.dump(shown(5, record, 99, is_json=is_json)))


@pytest.mark.parametrize("is_json", [True, False])
def test_a_record_is_shown_as_it_was_posted(is_json: bool) -> None:
    posted = from_json({"key": "é", "value": {"a": 1.0}, "headers": {"h": "ü"}})
    [record] = unpacked(posted.packed)
    assert as_shown(record, is_json=is_json) == {
        "offset": 5,
        "key": "é",
        "value": {"a": 1.0},
        "headers": {"h": "ü"},
        "timestampMicros": 99,
    }


def test_bytes_that_json_cannot_hold_are_shown_in_base64() -> None:
    record = Record(b"\xff", b"\xfe", (("a", b"\xfd"), ("b", b"x")), client_us=7)
    assert as_shown(record) == {
        "offset": 5,
        "keyBase64": "/w==",
        "valueBase64": "/g==",
        "headers": {"b": "x"},
        "headersBase64": {"a": "/Q=="},
        "timestampMicros": 7,
    }
    assert as_shown(Record(None, b""))["key"] is None
    assert as_shown(Record(None, b""))["valueBase64"] == ""


def test_a_tombstone_is_posted_and_shown_without_a_value() -> None:
    posted = from_json({"key": "k", "tombstone": True})
    [record] = unpacked(posted.packed)
    assert record == Record(b"k", None)
    for is_json in (True, False):
        shape = {"offset": 5, "key": "k", "tombstone": True, "headers": {}, "timestampMicros": 99}
        assert as_shown(record, is_json=is_json) == shape
    [null] = unpacked(from_json({"key": "k", "value": None}).packed)
    assert as_shown(null)["value"] is None


def test_headers_that_repeat_or_are_null_are_shown_whole() -> None:
    contents = (("a", b"1"), ("b", None), ("a", None), ("a", b""), ("c", b"\xff"), ("c", None))
    shape = as_shown(Record(None, b"1", contents))
    assert shape["headers"] == {"a": ["1", None, ""], "b": None}
    assert shape["headersBase64"] == {"c": ["/w==", None]}
