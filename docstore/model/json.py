"""Strict JSON: a text has one meaning, or is rejected with the offset of the error.

Duplicate keys, NaN and infinities, integers beyond 64 bits, lone surrogates, U+0000, encodings
other than UTF-8, a byte order mark, nesting over 64, and anything after the value are rejected.
U+0000 ends a text for SQLite, so that conditions and orders would not see the rest.

orjson parses, but silently drops the first of two equal keys. The dropped key's colon is missing in
orjson's compact form of the value, so the text has as many colons as that form if, and only if, no
key is duplicate. If this check fails or cannot decide, the standard library parses the text again
with hooks, ten times as slowly, and reports an error that it finds. The checks are one or two
passes over the bytes at memory speed; a text in orjson's compact form needs one comparison.
"""

import json as standard
import math
import re
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, NoReturn

import orjson

from docstore.errors import BadRequest
from docstore.model.settings import quoted

DEPTH_MAX = 64
INTEGER_MAX = 2**63 - 1
_LARGEST = b"%d" % INTEGER_MAX
_NINETEEN_DIGITS = b"0" * len(_LARGEST)

NotWritable = orjson.JSONEncodeError
"""Error of `dump` for values that are nested far too deeply."""

Fragment = orjson.Fragment
"""Bytes of JSON in the place of a value for `dump`, which does not check them."""

_POINT, _PLUS, _BACKSLASH = b".+\\"
"""Character codes, because searching bytes for a code is fastest."""
_FRACTION = b"." + b"0" * 16
"""A float of full precision, once each digit is replaced by zero."""
_DIGITS_AS_ZEROS = bytes.maketrans(b"123456789", b"000000000")
_LONG_RUN = re.compile(rb"(?<![.0-9])[0-9]{19,}")
"""A run of digits that may be an integer beyond 64 bits; digits after a point cannot be."""
_BRACES_AS_BRACKETS = bytes.maketrans(b"{}", b"[]")
_NEITHER_BRACKET_NOR_QUOTE = bytes(set(range(256)) - set(b'{}[]"'))
_QUOTED = re.compile(rb'"[^"]*"')
NO_CHARACTER = re.compile("[\x00\ud800-\udfff]")
"""Characters that texts of documents must not hold."""
_NUL_ESCAPED = b"\\u0000"
_WHOLE_FLOAT = re.compile(rb"[:,[]-?[0-9]+(?:\.0|(?:\.[0-9]+)?e\+1[678])[],}]")
"""A whole float of at most 64 bits, as orjson writes it. Matches inside texts cost only time."""
_STRING_OR_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*+"?|[][{}]', re.DOTALL)


def parse(raw: bytes, depth_max: int = DEPTH_MAX) -> Any:
    """Parse a value. Raises BadRequest with the offset of the error.

    depth_max: greater than `DEPTH_MAX` for a value that contains documents.
    """
    try:
        value = orjson.loads(raw)
        compact, has_long = _compact_form(value)
        # A text in compact form has no duplicate key, and its numbers were kept.
        is_sound = (raw == compact and not has_long) or (
            _has_no_key_twice(raw, compact) and _has_no_long_integer(raw)
        )
        is_sound = is_sound and _NUL_ESCAPED not in raw
        if is_sound and _is_within_depth(compact, depth_max):
            return value
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        pass  # The slow path finds the error, if there is one.
    return _parse_slowly(raw, depth_max)


def parse_object(raw: bytes) -> dict[str, Any]:
    value = parse(raw)
    if not isinstance(value, dict):
        raise BadRequest(f"the JSON must be an object; got {quoted(value)}")
    return value


def dump(value: Any) -> bytes:
    """Return the compact form of a parsed value."""
    # A copy, as bytes from orjson keep their buffer of 4 KiB, and documents stay in memory.
    return b"%b" % orjson.dumps(value)


def check(value: Any, room: int = DEPTH_MAX) -> None:
    """Raise BadRequest for a value of Python or msgpack that strict JSON cannot hold."""
    if isinstance(value, dict):
        if not room or not all(isinstance(key, str) for key in value):
            raise BadRequest(
                f"a value must have only strings as keys, and nest at most {DEPTH_MAX} deep"
            )
        for key, member in value.items():
            _check_text(key)
            check(member, room - 1)
    elif isinstance(value, str):
        _check_text(value)
    elif isinstance(value, list):
        if not room:
            raise BadRequest(f"JSON must nest at most {DEPTH_MAX} deep")
        for member in value:
            check(member, room - 1)
    elif isinstance(value, int):
        if not -INTEGER_MAX - 1 <= value <= INTEGER_MAX:
            raise BadRequest(
                f"an integer must fit into 64 bits: send a string instead of {str(value)[:24]}"
            )
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise BadRequest(f"a number must be finite; got {value}")
    elif value is not None:
        raise BadRequest(
            f"a value must be one that JSON has; got a value of type {type(value).__name__}"
        )


def load(trusted: bytes) -> Any:
    """Parse bytes that this process wrote or checked before."""
    return orjson.loads(trusted)


def canonical(value: Any) -> bytes:
    """Return the same bytes for equal values: sorted keys, one form for each number."""
    compact = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    if type(value) is not float and not _has_whole_float(compact):
        return compact
    return orjson.dumps(_whole(value), option=orjson.OPT_SORT_KEYS)


def signature(value: Any) -> bytes:
    """Return a hash of 16 bytes that is equal for equal values."""
    return blake2b(canonical(value), digest_size=16).digest()


def depth(text: bytes) -> int:
    """Return the depth of nesting of valid JSON: 0 for a number, 1 for []."""
    if b"\\" in text:
        text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    # Only the quotes of strings are left. Two adjacent ones end a string and begin the next, or are
    # a whole string, and can be dropped.
    brackets = text.translate(_BRACES_AS_BRACKETS, _NEITHER_BRACKET_NOR_QUOTE).replace(b'""', b"")
    if b'"' in brackets:
        brackets = _QUOTED.sub(b"", brackets)
    levels = 0
    while brackets:
        brackets = brackets.replace(b"[]", b"")  # The innermost levels.
        levels += 1
    return levels


def _compact_form(value: Any) -> tuple[bytes, bool]:
    try:
        return orjson.dumps(value, option=orjson.OPT_STRICT_INTEGER), False
    except orjson.JSONEncodeError:
        return orjson.dumps(value), True


def _has_no_key_twice(raw: bytes, compact: bytes) -> bool:
    """Say whether no key is duplicate; False if unknown."""
    # A colon that is escaped in the text is counted in the compact form only.
    is_escaped = _BACKSLASH in raw and (b"\\u003a" in raw or b"\\u003A" in raw)
    return not is_escaped and raw.count(b":") == compact.count(b":")


def _has_no_long_integer(raw: bytes) -> bool:
    """Say whether no integer is beyond 64 bits; False if unknown."""
    digits = raw.translate(_DIGITS_AS_ZEROS)
    if _NINETEEN_DIGITS in digits and _NINETEEN_DIGITS in digits.replace(_FRACTION, b""):
        runs = _LONG_RUN.findall(raw)
        return not runs or (max(map(len, runs)) <= len(_LARGEST) and max(runs) <= _LARGEST)
    return True


def _is_within_depth(text: bytes, depth_max: int) -> bool:
    return text.count(b"{") + text.count(b"[") <= depth_max or depth(text) <= depth_max


def _has_whole_float(compact: bytes) -> bool:
    # In order of cost: the first check nearly always decides.
    if _POINT not in compact and _PLUS not in compact:
        return False
    may_be = b".0," in compact or b".0}" in compact or b".0]" in compact or b"e+1" in compact
    return may_be and _WHOLE_FLOAT.search(compact) is not None


def _parse_slowly(raw: bytes, depth_max: int = DEPTH_MAX) -> Any:
    if not raw.strip():
        raise BadRequest("JSON must not be empty")
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
        raise BadRequest(f"JSON must nest at most {depth_max} deep") from None
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
                raise BadRequest(
                    f"JSON must nest at most {depth_max} deep; deeper at offset {found.start()}"
                )
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
            f"a string must not contain U+0000, which ends it in conditions; got {text[:40]!r}:"
            " leave the character out, or encode the string, such as in base64"
        )
    raise BadRequest(f"a string must not contain a lone surrogate; got {text[:40]!r}")


def _pairs(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise BadRequest(f"the key {twice[:80]!r} is there twice")
    return result


def _integer(text: str) -> int:
    if len(text) > 20 or not -INTEGER_MAX - 1 <= int(text) <= INTEGER_MAX:
        raise BadRequest(f"an integer must fit into 64 bits: send a string instead of {text[:24]}")
    return int(text)


def _float(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise BadRequest(f"a number must be below 1.8e308; got {text[:24]}")
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
    if isinstance(value, dict):
        return {key: _whole(member) for key, member in value.items()}
    if isinstance(value, list):
        return [_whole(member) for member in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**63:
        return int(value)
    return value
