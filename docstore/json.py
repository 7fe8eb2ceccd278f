"""Strict JSON: one value, one meaning, or a refusal that says where.

Refused are duplicate keys, NaN and infinities, integers beyond 64 bits, lone surrogates, other
encodings than UTF-8, a byte order mark, nesting over 64, and anything after the value.

Most documents take the fast path: orjson parses, and when its own compact form of the value is
the very same bytes, no key can have been there twice. Whatever is spaced or escaped differently
is parsed again by the standard library with hooks.
"""

import hashlib
import json as standard
import re
from collections.abc import Sequence
from typing import Any, NoReturn

import orjson

from docstore.errors import BadRequest

DEPTH_MAX = 64
INTEGER_MAX = 2**63 - 1

_LONG_NUMBER = re.compile(rb"\d{19}")
_SURROGATE = re.compile("[\ud800-\udfff]")


def parse(raw: bytes) -> Any:
    """Return the value of `raw`. Raises BadRequest with the offset of what is wrong."""
    try:
        value = orjson.loads(raw)
        if orjson.dumps(value) == raw and _is_plain(raw):
            return value
    except (orjson.JSONDecodeError, TypeError):
        pass
    return _parse_slowly(raw)


def parse_object(raw: bytes) -> dict[str, Any]:
    """Return the object of `raw`. Raises BadRequest, also when it is another kind of value."""
    value = parse(raw)
    if not isinstance(value, dict):
        raise BadRequest("a JSON object is expected")
    return value


def dump(value: Any) -> bytes:
    """Return the compact form of a value that was parsed."""
    return orjson.dumps(value)


def canonical(value: Any) -> bytes:
    """Return the form that equal values share: sorted keys, one form for each number."""
    return orjson.dumps(_whole(value) if _has_float(value) else value, option=orjson.OPT_SORT_KEYS)


def signature(value: Any) -> bytes:
    """Return 16 bytes that are equal for equal content."""
    return hashlib.blake2b(canonical(value), digest_size=16).digest()


def _is_plain(raw: bytes) -> bool:
    """Say whether the cheap guards hold: no number that may be too long, no deep nesting."""
    shallow = raw.count(b"{") + raw.count(b"[") <= DEPTH_MAX
    return shallow and _LONG_NUMBER.search(raw) is None


def _parse_slowly(raw: bytes) -> Any:
    if not raw.strip():
        raise BadRequest("an empty body is not JSON")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadRequest(f"not UTF-8 at byte {error.start}") from None
    _check_depth(text)
    try:
        value = _DECODER.decode(text)
    except standard.JSONDecodeError as error:
        raise BadRequest(f"not JSON at offset {error.pos}: {error.msg}") from None
    except RecursionError:
        raise BadRequest(f"nested deeper than {DEPTH_MAX}") from None
    _check_surrogates(value)
    return value


def _check_depth(text: str) -> None:
    depth, in_string, escaped = 0, False, False
    for offset, character in enumerate(text):
        if in_string:
            if escaped:
                escaped = False
            elif character == "\\":
                escaped = True
            elif character == '"':
                in_string = False
        elif character == '"':
            in_string = True
        elif character in "{[":
            depth += 1
            if depth > DEPTH_MAX:
                raise BadRequest(f"nested deeper than {DEPTH_MAX} at offset {offset}")
        elif character in "}]":
            depth -= 1


def _check_surrogates(value: Any) -> None:
    if isinstance(value, str):
        if _SURROGATE.search(value):
            raise BadRequest("a lone surrogate is not a character")
    elif isinstance(value, dict):
        for key, member in value.items():
            _check_surrogates(key)
            _check_surrogates(member)
    elif isinstance(value, list):
        for member in value:
            _check_surrogates(member)


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


def _has_float(value: Any) -> bool:
    if isinstance(value, dict):
        return any(_has_float(member) for member in value.values())
    if isinstance(value, list):
        return any(_has_float(member) for member in value)
    return isinstance(value, float)


def _whole(value: Any) -> Any:
    """Return the value with floats that are whole numbers as integers: 1.0 is 1."""
    if isinstance(value, dict):
        return {key: _whole(member) for key, member in value.items()}
    if isinstance(value, list):
        return [_whole(member) for member in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return value
