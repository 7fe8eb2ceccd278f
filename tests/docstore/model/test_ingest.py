"""Files as rows: each row comes out unchanged, or is named with its line."""

import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docstore.model.ingest import SourceRow, is_array, of_array, of_lines, of_table

ROW = st.dictionaries(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=4),
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-(2**63), 2**63 - 1)
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=4),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab"), inner),
        max_leaves=6,
    ),
    max_size=4,
)


def lines(raw: bytes) -> list[SourceRow]:
    return list(of_lines(io.BytesIO(raw)))


@given(st.lists(ROW, max_size=4), st.sampled_from([None, 1]), st.booleans(), st.booleans())
def test_records_of_a_file_are_read_back(
    rows: list[dict[str, Any]], indent: int | None, is_ascii: bool, is_marked: bool
) -> None:
    mark = b"\xef\xbb\xbf" if is_marked else b""
    array = mark + json.dumps(rows, indent=indent, ensure_ascii=is_ascii).encode()
    found = list(of_array(array))
    assert [record.value for record in found] == rows
    assert [json.loads(record.raw) for record in found] == rows
    assert is_array(array)
    text = "\r\n".join(json.dumps(row, ensure_ascii=is_ascii) for row in rows)
    found = lines(mark + text.encode())
    assert [record.value for record in found] == rows
    assert [record.line for record in found] == list(range(1, len(rows) + 1))


@pytest.mark.parametrize(
    ("raw", "line", "wrong", "is_end"),
    [
        (b'[{"a":1},\n{"a":}]', 2, "Expecting value", True),
        (b'[{"a":1}\n\n{"a":2}]', 3, "a comma or ]", True),
        (b'[{"a":1},\n]', 2, "Expecting value", True),
        (b'[{"a":1}]\n[]', 2, "end after the array", True),
        (b'[{"a":1},\n', 2, "Expecting value", True),
        (b'[{"a":1}, ' + b"[" * 100_000, 1, "recursion", True),
        (b'[{"a":1},\n3, {"a":1}]', 2, "must be an object; got 3", False),
        (b'[{"a":1},\n\n{"a":1e999}, {"a":1}]', 3, "below 1.8e308", False),
        (b'[{"a":1},\n{"a":"\\ud800"}, {"a":1}]', 2, "surrogate", False),
        (b'[{"a":1},\n{"a":' + b"9" * 5000 + b'}, {"a":1}]', 2, "64 bits", False),
    ],
)
def test_an_error_in_an_array_is_named_with_its_line(
    raw: bytes, line: int, wrong: str, is_end: bool
) -> None:
    found = list(of_array(raw))
    assert [record.value for record in found if not record.wrong] == [{"a": 1}] * (2 - is_end)
    bad = next(record for record in found if record.wrong)
    assert (bad.line, bad.is_end) == (line, is_end)
    assert wrong in bad.wrong


def test_a_line_that_is_not_utf_8_is_named() -> None:
    assert [(each.line, each.wrong) for each in of_array(b'[{"a":1},\n"\xff"]')] == [
        (2, "not UTF-8")
    ]
    table = list(of_table(io.BytesIO(b"a\n1\n\xff\n")))
    assert [(each.line, each.wrong) for each in table] == [(2, ""), (3, "not UTF-8")]


def test_a_malformed_line_does_not_affect_others() -> None:
    found = lines(b'{"a":1}\n\n{"a":\n{"a":2} {"a":3}\n\xff\n[]\n{"a":4}')
    assert [(each.line, each.value) for each in found if not each.wrong] == [
        (1, {"a": 1}),
        (7, {"a": 4}),
    ]
    assert [each.line for each in found if each.wrong] == [3, 4, 5, 6]
    assert not any(each.is_end for each in found)


def test_the_values_of_a_table_are_texts() -> None:
    raw = '\ufeffzip,note,"a ""b"""\n00501,,1.10\n\n"1\r\n2",NULL,"é, "\n'.encode()
    found = list(of_table(io.BytesIO(raw)))
    assert [record.value for record in found] == [
        {"zip": "00501", "note": "", 'a "b"': "1.10"},
        {"zip": "1\r\n2", "note": "NULL", 'a "b"': "é, "},
    ]
    assert [record.line for record in found] == [2, 4]


def test_a_row_of_another_length_is_wrong_alone_and_an_open_quote_ends_the_table() -> None:
    found = list(of_table(io.BytesIO(b'a,b\n1\n2,3,4\n5,6\n"7,8\n9,10\n')))
    assert [(each.line, bool(each.wrong), each.is_end) for each in found] == [
        (2, True, False), (3, True, False), (4, False, False), (5, True, True),
    ]  # fmt: skip
