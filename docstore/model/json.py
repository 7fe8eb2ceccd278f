"""Strict JSON: one value, one meaning, or a refusal that says where.

Refused are duplicate keys, NaN and infinities, integers beyond 64 bits, lone surrogates, U+0000,
other encodings than UTF-8, a byte order mark, nesting over 64, and anything after the value.

U+0000 ends a text for SQLite: conditions and orders would not see what a GET shows.

orjson parses, and drops the first of two equal keys without a word. A dropped one takes its colon
along, so there are as many colons in the text as in orjson's own compact form of the value if, and
only if, each key was there once. What this cannot tell, and what is wrong, is parsed again by the
standard library with hooks, ten times as slowly: it says where, or finds that nothing is wrong.
Everything before that is a pass or two over the bytes that runs at memory's speed. A text that is
orjson's compact form already, as programs in a hurry write it, needs but one comparison.
"""

import json as standard
import math
import re
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, NoReturn

import orjson

from docstore.errors import BadRequest

DEPTH_MAX = 64
INTEGER_MAX = 2**63 - 1
_LARGEST = b"%d" % INTEGER_MAX
_NINETEEN_DIGITS = b"0" * len(_LARGEST)

NotWritable = orjson.JSONEncodeError
"""Raised by `dump` for what is nested far too deep."""

Fragment = orjson.Fragment
"""Bytes that are JSON already, in the place of a value for `dump`, which trusts them."""

_POINT, _PLUS, _BACKSLASH = b".+\\"
"""As numbers, which is how bytes are searched for one the soonest."""
_FRACTION = b"." + b"0" * 16
"""Shape of a float with all its digits, with every digit replaced by zero."""
_DIGITS_AS_ZEROS = bytes.maketrans(b"123456789", b"000000000")
_LONG_RUN = re.compile(rb"(?<![.0-9])[0-9]{19,}")
"""Digits that may be an integer beyond 64 bits; those behind a point are not."""
_BRACES_AS_BRACKETS = bytes.maketrans(b"{}", b"[]")
_NEITHER_BRACKET_NOR_QUOTE = bytes(set(range(256)) - set(b'{}[]"'))
_QUOTED = re.compile(rb'"[^"]*"')
NO_CHARACTER = re.compile("[\x00\ud800-\udfff]")
"""Characters that no text of a document holds."""
_NUL_ESCAPED = b"\\u0000"
_WHOLE_FLOAT = re.compile(rb"[:,[]-?[0-9]+(?:\.0|(?:\.[0-9]+)?e\+1[678])[],}]")
"""A float of at most 64 bits that is a whole number, as orjson writes it. Found in some texts as
well, which costs time only."""
_STRING_OR_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*+"?|[][{}]', re.DOTALL)


def parse(raw: bytes, depth_max: int = DEPTH_MAX) -> Any:
    """Return the value of `raw`. Raises BadRequest with the offset of what is wrong.

    depth_max: one more than `DEPTH_MAX` for what is around a document.
    """
    try:
        value = orjson.loads(raw)
        compact, has_long = _compact_form(value)
        # A text that is the compact form has each key once, and all its numbers were kept.
        is_sound = (raw == compact and not has_long) or (
            _has_no_key_twice(raw, compact) and _has_no_long_integer(raw)
        )
        is_sound = is_sound and _NUL_ESCAPED not in raw
        if is_sound and _is_within_depth(compact, depth_max):
            return value
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        pass  # The slow path says what is wrong, or finds that nothing is.
    return _parse_slowly(raw, depth_max)


def parse_object(raw: bytes) -> dict[str, Any]:
    """Return the object of `raw`. Raises BadRequest, also when it is another kind of value."""
    value = parse(raw)
    if not isinstance(value, dict):
        raise BadRequest("a JSON object is expected")
    return value


def dump(value: Any) -> bytes:
    """Return the compact form of a value that was parsed."""
    # Copied, because what comes from orjson keeps its buffer of 4 KiB, and documents are kept.
    return b"%b" % orjson.dumps(value)


def check(value: Any, room: int = DEPTH_MAX) -> None:
    """Raise BadRequest for what Python or msgpack can say, and strict JSON cannot."""
    if isinstance(value, dict):
        if not room or not all(isinstance(key, str) for key in value):
            raise BadRequest("keys are strings, and nesting has an end")
        for key, member in value.items():
            _check_text(key)
            check(member, room - 1)
    elif isinstance(value, str):
        _check_text(value)
    elif isinstance(value, list):
        if not room:
            raise BadRequest(f"nested deeper than {DEPTH_MAX}")
        for member in value:
            check(member, room - 1)
    elif isinstance(value, int):
        if not -INTEGER_MAX - 1 <= value <= INTEGER_MAX:
            raise BadRequest("an integer of more than 64 bits")
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise BadRequest("a number that is not finite")
    elif value is not None:
        raise BadRequest(f"JSON has no {type(value).__name__}")


def load(trusted: bytes) -> Any:
    """Return the value of bytes that this process wrote or has checked before."""
    return orjson.loads(trusted)


def canonical(value: Any) -> bytes:
    """Return the form that equal values share: sorted keys, one form for each number."""
    compact = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    if type(value) is not float and not _has_whole_float(compact):
        return compact
    return orjson.dumps(_whole(value), option=orjson.OPT_SORT_KEYS)


def signature(value: Any) -> bytes:
    """Return 16 bytes that are equal for equal content."""
    return blake2b(canonical(value), digest_size=16).digest()


def depth(text: bytes) -> int:
    """Return how deep arrays and objects are nested in valid JSON: 0 for a number, 1 for []."""
    if b"\\" in text:
        text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    # Only the quotes of strings are left. Two side by side are the end of one string and the
    # beginning of the next, or all of one, and mean nothing.
    brackets = text.translate(_BRACES_AS_BRACKETS, _NEITHER_BRACKET_NOR_QUOTE).replace(b'""', b"")
    if b'"' in brackets:
        brackets = _QUOTED.sub(b"", brackets)
    levels = 0
    while brackets:
        brackets = brackets.replace(b"[]", b"")  # The innermost level, wherever it is.
        levels += 1
    return levels


def _compact_form(value: Any) -> tuple[bytes, bool]:
    """Return the compact form, and whether there are integers beyond 53 bits in it."""
    try:
        return orjson.dumps(value, option=orjson.OPT_STRICT_INTEGER), False
    except orjson.JSONEncodeError:
        return orjson.dumps(value), True


def _has_no_key_twice(raw: bytes, compact: bytes) -> bool:
    """Say whether each key is there once in its object; False also if that is not known."""
    # A colon that is escaped in the text is counted in the compact form only.
    is_escaped = _BACKSLASH in raw and (b"\\u003a" in raw or b"\\u003A" in raw)
    return not is_escaped and raw.count(b":") == compact.count(b":")


def _has_no_long_integer(raw: bytes) -> bool:
    """Say whether no integer is beyond 64 bits; False if not known."""
    digits = raw.translate(_DIGITS_AS_ZEROS)
    if _NINETEEN_DIGITS in digits and _NINETEEN_DIGITS in digits.replace(_FRACTION, b""):
        runs = _LONG_RUN.findall(raw)
        return not runs or (max(map(len, runs)) <= len(_LARGEST) and max(runs) <= _LARGEST)
    return True


def _is_within_depth(text: bytes, depth_max: int) -> bool:
    """Say whether arrays and objects are nested no deeper than that in valid JSON."""
    return text.count(b"{") + text.count(b"[") <= depth_max or depth(text) <= depth_max


def _has_whole_float(compact: bytes) -> bool:
    """Say whether there may be a float that is a whole number, inside an array or object."""
    # Each step is much quicker than the next one, and nearly always enough.
    if _POINT not in compact and _PLUS not in compact:
        return False
    may_be = b".0," in compact or b".0}" in compact or b".0]" in compact or b"e+1" in compact
    return may_be and _WHOLE_FLOAT.search(compact) is not None


def _parse_slowly(raw: bytes, depth_max: int = DEPTH_MAX) -> Any:
    if not raw.strip():
        raise BadRequest("an empty body is not JSON")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadRequest(f"not UTF-8 at byte {error.start}") from None
    _check_depth(text, depth_max)
    try:
        value = _DECODER.decode(text)
    except standard.JSONDecodeError as error:
        raise BadRequest(f"not JSON at offset {error.pos}: {error.msg}") from None
    except RecursionError:
        raise BadRequest(f"nested deeper than {depth_max}") from None
    _check_texts(value)
    return value


def _check_depth(text: str, depth_max: int) -> None:
    if text.count("{") + text.count("[") <= depth_max:
        return
    level = 0
    for found in _STRING_OR_BRACKET.finditer(text):
        if found[0] in "{[":
            level += 1
            if level > depth_max:
                raise BadRequest(f"nested deeper than {depth_max} at offset {found.start()}")
        elif found[0] in "}]":
            level -= 1


def _check_texts(value: Any) -> None:
    if isinstance(value, str):
        _check_text(value)
    elif isinstance(value, dict):
        for key, member in value.items():
            _check_text(key)
            _check_texts(member)
    elif isinstance(value, list):
        for member in value:
            _check_texts(member)


def _check_text(text: str) -> None:
    found = NO_CHARACTER.search(text)
    if found is None:
        return
    if found[0] == "\x00":
        raise BadRequest(
            f"the text {text[:40]!r} holds U+0000, behind which no condition or order could see:"
            " leave it out, or encode the text, in base64 for instance"
        )
    raise BadRequest("a lone surrogate is not a character")


def _pairs(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise BadRequest(f"the key {twice[:80]!r} is there twice")
    return result


def _integer(text: str) -> int:
    if len(text) > 20 or not -INTEGER_MAX - 1 <= int(text) <= INTEGER_MAX:
        raise BadRequest(f"an integer of more than 64 bits: {text[:24]}")
    return int(text)


def _float(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise BadRequest(f"a number that is too large: {text[:24]}")
    return number


def _constant(name: str) -> NoReturn:
    raise BadRequest(f"{name} is not JSON")


_DECODER = standard.JSONDecoder(
    object_pairs_hook=_pairs,
    parse_int=_integer,
    parse_float=_float,
    parse_constant=_constant,
)


def _whole(value: Any) -> Any:
    """Return the value with floats that are whole numbers as integers: 1.0 is 1."""
    if isinstance(value, dict):
        return {key: _whole(member) for key, member in value.items()}
    if isinstance(value, list):
        return [_whole(member) for member in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**63:
        return int(value)
    return value
