"""Strict JSON: refusals, which the fast path shares with the slow one."""

import json as standard
import math
import time
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docstore.errors import BadRequest
from docstore.model import json

CHARACTERS = st.characters(exclude_categories=("Cs",), exclude_characters="\0")
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(CHARACTERS, max_size=20)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(CHARACTERS, max_size=5), inner)
    ),
    max_leaves=12,
)

REFUSED = {
    "nothing": b"",
    "only spaces": b" \n",
    "cut off": b'{"a": 1',
    "trailing data": b'{"a":1} {"b":2}',
    "trailing comma": b'{"a":1,}',
    "byte order mark": b'\xef\xbb\xbf{"a":1}',
    "single quotes": b"{'a':1}",
    "comment": b'{"a":1/*x*/}',
    "depth 65": b"[" * 65 + b"]" * 65,
    "depth 65 of objects": b'{"a":' * 65 + b"1" + b"}" * 65,
    "depth 100000": b"[" * 100_000,
    "NaN": b'{"a":NaN}',
    "Infinity": b'{"a":Infinity}',
    "-Infinity": b'{"a":-Infinity}',
    "1e999": b'{"a":1e999}',
    "-1e999": b'{"a": -1e999}',
    "10,000 digits": b'{"a":' + b"1" * 10_000 + b"}",
    "2**63": b'{"a":9223372036854775808}',
    "-2**63-1": b'{"a":-9223372036854775809}',
    "leading zero": b'{"a":01}',
    "plus sign": b'{"a":+1}',
    "bare point": b'{"a":1.}',
    "same key twice": b'{"a":1,"a":1}',
    "same key twice, spaced": b'{"a": 1, "a": 2}',
    "same key twice, escaped": b'{"a":1,"\\u0061":2}',
    "same key twice, deep": b'{"x":[{"a":1,"a":2}]}',
    "same key twice, a colon escaped": b'{"a":1,"a":"\\u003a"}',
    "same key twice, a colon escaped in capitals": b'{"a":1, "a":"\\u003A"}',
    "same key twice, a colon in it": b'{"a:b":1,"b":":","a:b":2}',
    "2**63 in spaces": b'{"a": [ 9223372036854775808 ]}',
    "2**63 behind a fraction": b'{"a": 0.1234567890123456789, "b": 9223372036854775808}',
    "-2**64": b'{"a": -18446744073709551616}',
    "depth 65 beside quoted brackets": b'{"a": "]]", "b": ' + b"[" * 64 + b"]" * 64 + b"}",
    "lone surrogate": b'{"a":"\\ud800"}',
    "lone surrogate as key": b'{"\\udfff":1}',
    "swapped surrogates": b'{"a":"\\udc00\\ud800"}',
    "invalid UTF-8": b'{"a":"\xff"}',
    "overlong UTF-8": b'{"a":"\xc0\xaf"}',
    "surrogate in UTF-8": b'{"a":"\xed\xa0\x80"}',
    "UTF-16": '{"a":1}'.encode("utf-16"),
    "UTF-16 without a mark": '{"a":1}'.encode("utf-16-le"),
    "UTF-32": '{"a":1}'.encode("utf-32"),
    "control character in a string": b'{"a":"\x01"}',
    "U+0000": b'{"a":"a\\u0000b"}',
    "U+0000 in spaces": b'{"a": ["\\\\\\u0000"]}',
    "U+0000 in a key": b'{"a\\u0000b":1}',
    "NUL": b'{"a":1}\x00',
    "other white space": b'\x0b{"a":1}',
    "unknown escape": b'{"a":"\\x41"}',
}


@pytest.mark.parametrize("raw", REFUSED.values(), ids=REFUSED.keys())
def test_bad_json_is_refused_quickly(raw: bytes) -> None:
    began = time.process_time()
    with pytest.raises(BadRequest):
        json.parse(raw)
    assert time.process_time() - began < 0.5


@pytest.mark.parametrize("raw", [b'{"a":1,}', b'{"a":1} x', b'{"a":"\xff"}', b"[" * 65 + b"]" * 65])
def test_a_refusal_names_the_position(raw: bytes) -> None:
    with pytest.raises(BadRequest, match=r"(offset|byte) \d+"):
        json.parse(raw)


@given(VALUES, st.sampled_from([(",", ":"), (", ", ": "), (" ,\n", " : ")]), st.booleans())
def test_every_spelling_of_a_value_is_read_as_that_value(
    value: Any, separators: tuple[str, str], ascii_only: bool
) -> None:
    raw = standard.dumps(value, separators=separators, ensure_ascii=ascii_only).encode()
    assert same(json.parse(raw), value)
    assert same(json.parse(json.dump(value)), value)


@given(VALUES)
def test_the_fast_parser_accepts_no_more_than_the_slow_one(value: Any) -> None:
    raw = json.dump(value)
    assert same(json.parse(raw), json._parse_slowly(raw))


@given(st.binary(max_size=40) | st.text('[]{}",:0123456789-+.eE \\uadnltrf', max_size=40))
def test_noise_is_read_alike_by_both_paths_or_refused(noise: bytes | str) -> None:
    raw = noise if isinstance(noise, bytes) else noise.encode()
    outcomes = []
    for read in (json.parse, json._parse_slowly):
        try:
            outcomes.append(repr(read(raw)))
        except BadRequest:
            outcomes.append("refused")
    assert outcomes[0] == outcomes[1]


def same(one: Any, other: Any) -> bool:
    """Say whether two values are the same, types and signs of zero included."""
    return repr(one) == repr(other)


KEYS = st.sampled_from(["a", "b", ", ", '": ', ', "', "a, ", 'a": ', "\\", '\\": ', "é"])
PAIRS = st.recursive(
    st.sampled_from(["1", "-2.5", "null", '"x, "', '"\\", "', '"\\": "', '", "']),
    lambda inner: st.lists(st.tuples(KEYS, inner), max_size=4),
    max_leaves=8,
)
"""Objects as lists of pairs, in which a key may be there twice."""


def spelled(value: Any, comma: str, colon: str) -> str:
    """Return the JSON text of PAIRS."""
    if isinstance(value, str):
        return value
    members = (f"{standard.dumps(key)}{colon}{spelled(member, comma, colon)}"
               for key, member in value)  # fmt: skip
    return "{" + comma.join(members) + "}"


def has_twice(value: Any) -> bool:
    if isinstance(value, str):
        return False
    keys = [key for key, _ in value]
    return len(set(keys)) < len(keys) or any(has_twice(member) for _, member in value)


@given(PAIRS, st.sampled_from([",", ", "]), st.sampled_from([":", ": "]))
def test_a_repeated_key_is_refused_with_any_spacing(pairs: Any, comma: str, colon: str) -> None:
    raw = spelled(pairs, comma, colon).encode()
    if has_twice(pairs):
        with pytest.raises(BadRequest):
            json.parse(raw)
    else:
        assert json.parse(raw) == standard.loads(raw)


def test_64_levels_are_allowed_also_beside_many_brackets() -> None:
    deep = b"[" * 64 + b"]" * 64
    assert json.depth(deep) == 64
    assert json.parse(b"[" + b"[]," * 500 + b"[]]")
    assert json.parse(b"[" + b"[], " * 500 + b"[]]")
    assert json.parse(b'{"a": "' + b"[" * 500 + b'"}')


ORDINARY = {
    "Python's spaces": standard.dumps([{"a": 1}, {"b": [True, {"c": None}]}]).encode(),
    "indented": standard.dumps({"a": [{"b": 1.5}], "c": {}}, indent=2).encode(),
    "not ASCII, escaped": standard.dumps({"wört": "\u2028 😀 <a>"}).encode(),
    "slashes escaped": b'{"url":"http:\\/\\/x"}',
    "other floats": b"[1E5, 1e-05, 100.0, 0.00012345678901234567, -0]",
    "nanoseconds": b'{"at":1700000000123456789,"least":-9223372036854775807}',
    "the largest integer": b'{"a": 9223372036854775807}',
    "U+0001 and U+0010, escaped": b'{"a":"\\u0001\\u0010"}',
    "nested, many brackets": b'{"a": [' + b'{"b": "[{"}, ' * 100 + b"[[1]]]}",
}


@pytest.mark.parametrize("raw", ORDINARY.values(), ids=ORDINARY.keys())
def test_ordinary_spellings_are_read_once(raw: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = json._parse_slowly(raw)
    monkeypatch.setattr(json, "_parse_slowly", None)  # Ten times as long, with the loop stopped.
    assert same(json.parse(raw), expected)


@given(VALUES)
def test_depth_is_that_of_arrays_and_objects_and_not_of_texts(value: Any) -> None:
    def levels(value: Any) -> int:
        if not isinstance(value, list | dict):
            return 0
        members = value.values() if isinstance(value, dict) else value
        return 1 + max((levels(member) for member in members), default=0)

    nested = [value, {'["\\': [value]}, ['\\"]]', "[{"]]
    assert json.depth(json.dump(value)) == levels(value)
    assert json.depth(json.dump(nested)) == levels(nested)


@pytest.mark.parametrize("number", [0.0, -0.0, 3.0, 1e15, 1e16, 1.5e17, -9.2e18])
def test_a_float_that_is_a_whole_number_is_that_number(number: float) -> None:
    for one, other in ((number, int(number)), ([number], [int(number)])):
        assert json.canonical(one) == json.canonical(other)
        assert json.canonical({"a": one, "b": ".0,"}) == json.canonical({"a": other, "b": ".0,"})
    assert json.canonical([1e19, 0.5, 1e-7]) == b"[1e+19,0.5,1e-7]"


def test_a_large_document_in_another_spelling_is_read_in_time() -> None:
    raw = b'{"a": [' + b'"x]{\\"y", ' * 100_000 + b"1]}"
    began = time.process_time()
    json.parse(raw)
    assert time.process_time() - began < 1.0


def test_an_escaped_backslash_before_u0000_is_a_backslash() -> None:
    assert json.parse(b'{"a":"\\\\u0000"}') == {"a": "\\u0000"}


def test_check_refuses_nul_and_surrogates_anywhere_in_a_value() -> None:
    for text in ("a\0b", "\ud800"):
        for value in (text, [text], {text: 1}, {"a": {"b": text}}):
            with pytest.raises(BadRequest, match=r"U\+0000|surrogate"):
                json.check(value)


def test_only_an_object_is_an_object() -> None:
    for raw in (b"[]", b'"a"', b"1", b"null", b"true"):
        with pytest.raises(BadRequest, match="object"):
            json.parse_object(raw)


@given(VALUES)
def test_equal_values_have_equal_signatures(value: Any) -> None:
    shuffled = reordered(value)
    assert json.canonical(shuffled) == json.canonical(value)
    assert json.signature(shuffled) == json.signature(value)
    assert len(json.signature(value)) == 16


def reordered(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: reordered(member) for key, member in reversed(value.items())}
    if isinstance(value, list):
        return [reordered(member) for member in value]
    if isinstance(value, float) and value.is_integer() and math.fabs(value) < 2**63:
        return int(value)
    return value


def test_different_values_have_different_signatures() -> None:
    values = [{}, {"a": 1}, {"a": 2}, {"a": "1"}, {"a": True}, {"a": None}, {"a": [1]}, {"a": 1.5}]
    assert len({json.signature(value) for value in values}) == len(values)


def test_a_small_document_takes_little_memory() -> None:
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        kept = [json.dump({"n": number}) for number in range(100)]
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (after - before) / len(kept) < 200
