"""Strict JSON: one value, one meaning, or a refusal that says where.

Refused are duplicate keys, NaN and infinities, integers beyond 64 bits, lone surrogates, other
encodings than UTF-8, a byte order mark, nesting over 64, and anything after the value.

Most documents take the fast path: orjson parses, and when its own compact form of the value is
the very same bytes, but for a space behind colons and commas, no key can have been there twice.
Whatever is spaced or escaped differently is parsed again by the standard library with hooks.
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

NotWritable = orjson.JSONEncodeError
"""Raised by `dump` for what is nested far too deep."""

_LONG_NUMBER = re.compile(rb"\d{19}")
_SURROGATE = re.compile("[\ud800-\udfff]")
_FLOAT = re.compile(rb"[:,[]-?\d+[.e]")
"""Found in some texts as well, which costs time only; but not in those of hexadecimal digits."""
_STRING_OR_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*+"?|[][{}]', re.DOTALL)


def parse(raw: bytes) -> Any:
    """Return the value of `raw`. Raises BadRequest with the offset of what is wrong."""
    try:
        value = orjson.loads(raw)
        compact = orjson.dumps(value)
        if compact in (raw, _narrowed(raw)) and _is_plain(raw, value):
            return value
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        pass  # The slow path says what is wrong, or finds that nothing is.
    return _parse_slowly(raw)


def parse_object(raw: bytes) -> dict[str, Any]:
    """Return the object of `raw`. Raises BadRequest, also when it is another kind of value."""
    value = parse(raw)
    if not isinstance(value, dict):
        raise BadRequest("a JSON object is expected")
    return value


def dump(value: Any) -> bytes:
    """Return the compact form of a value that was parsed."""
    # Copied, because what comes from orjson keeps its buffer of 4 KiB, and documents are kept.
    return memoryview(orjson.dumps(value)).tobytes()


def load(trusted: bytes) -> Any:
    """Return the value of bytes that this process wrote or has checked before."""
    return orjson.loads(trusted)


def canonical(value: Any) -> bytes:
    """Return the form that equal values share: sorted keys, one form for each number."""
    compact = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    if _FLOAT.search(compact) is None and type(value) is not float:
        return compact
    return orjson.dumps(_whole(value), option=orjson.OPT_SORT_KEYS)


def signature(value: Any) -> bytes:
    """Return 16 bytes that are equal for equal content."""
    return hashlib.blake2b(canonical(value), digest_size=16).digest()


def depth(value: Any) -> int:
    """Return how deep arrays and objects are nested in a value: 0 for a number, 1 for []."""
    levels, level = 0, [value] if type(value) in _NESTS else []
    while level:
        levels += 1
        level = [
            member
            for each in level
            for member in (each.values() if type(each) is dict else each)
            if type(member) in _NESTS
        ]
    return levels


_NESTS = frozenset({dict, list})


def _narrowed(raw: bytes) -> bytes:
    """Return a text without the spaces that Python's own encoder puts behind colons and commas.

    Only spaces go, so that strings still begin and end where they did, and equal keys stay equal:
    two of them in one object are two in what is left.
    """
    return raw.replace(b'": ', b'":').replace(b', "', b',"')


def _is_plain(raw: bytes, value: Any) -> bool:
    """Say whether no number may be too long and nothing is nested too deep."""
    if _LONG_NUMBER.search(raw) is not None:
        return False
    return raw.count(b"{") + raw.count(b"[") <= DEPTH_MAX or depth(value) <= DEPTH_MAX


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
    if text.count("{") + text.count("[") <= DEPTH_MAX:
        return
    level = 0
    for found in _STRING_OR_BRACKET.finditer(text):
        if found[0] in "{[":
            level += 1
            if level > DEPTH_MAX:
                raise BadRequest(f"nested deeper than {DEPTH_MAX} at offset {found.start()}")
        elif found[0] in "}]":
            level -= 1


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


def _whole(value: Any) -> Any:
    """Return the value with floats that are whole numbers as integers: 1.0 is 1."""
    if isinstance(value, dict):
        return {key: _whole(member) for key, member in value.items()}
    if isinstance(value, list):
        return [_whole(member) for member in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**63:
        return int(value)
    return value
