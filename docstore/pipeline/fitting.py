"""Check one document against a schema, member by member: the inverse of `values.py`.

`bodies.py` lets Arrow parse whole batches; a document that Arrow refuses comes here. This file
accepts what Arrow accepts, and maps, NaN and the infinities, and names the member that does not
fit.
"""

import base64
import json
import math
import re
from collections.abc import Sequence
from decimal import Context, Decimal
from typing import Any, NoReturn

import orjson
import pyarrow as pa

NOT_FINITE = {word: float(word) for word in ("NaN", "Infinity", "-Infinity")}
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_ROOM = Context(prec=80)


class SchemaMismatch(Exception):
    """A document does not fit the schema."""


def fitted(body: str | None, fields: Sequence[pa.Field], *, any_is_text: bool = False) -> list[Any]:
    """Return the value of each member for Arrow, None for null. Raises SchemaMismatch.

    any_is_text: a string takes any value, as its JSON.
    """
    if body is None:
        return [None] * len(fields)
    document = json.loads(body, parse_float=Decimal)
    if any_is_text:
        document = _with_texts(document, pa.struct(list(fields)))
    return [_value(document.get(field.name), field.type, field.name) for field in fields]


def _with_texts(value: Any, kind: pa.DataType) -> Any:
    """Replace a value by its JSON wherever the type has a string."""
    if value is None or isinstance(value, str):
        return value
    if _is_text(kind):
        return orjson.dumps(value, default=float).decode()
    if isinstance(value, dict) and pa.types.is_struct(kind):
        return {each.name: _with_texts(value.get(each.name), each.type) for each in kind}
    if isinstance(value, dict) and pa.types.is_map(kind):
        return {key: _with_texts(member, kind.item_type) for key, member in value.items()}
    if isinstance(value, list) and pa.types.is_list(kind):
        return [_with_texts(each, kind.value_type) for each in value]
    return value


def instant(text: str, kind: pa.DataType) -> int:
    """Return a time as a count of units since 1970, in UTC without a zone. Raises ArrowInvalid."""
    try:
        return int(pa.scalar(text).cast(kind).value)
    except pa.ArrowInvalid:
        if kind.tz is None:
            raise
        return int(pa.scalar(text).cast(pa.timestamp(kind.unit)).value)


def _value(value: Any, kind: pa.DataType, name: str) -> Any:
    if value is None:
        return None
    if isinstance(value, dict):
        return _members(value, kind, name)
    if isinstance(value, list):
        if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
            _refuse(value, kind, name)
        return [_value(each, kind.value_type, f"{name}[]") for each in value]
    try:
        found = _text(value, kind) if isinstance(value, str) else _number(value, kind)
    except (ValueError, OverflowError):  # ArrowInvalid is a ValueError.
        found = None
    if found is None:
        _refuse(value, kind, name)
    return found


def _members(value: dict[str, Any], kind: pa.DataType, name: str) -> Any:
    if pa.types.is_struct(kind):
        return {each.name: _value(value.get(each.name), each.type, f"{name}.{each.name}")
                for each in kind}  # fmt: skip
    if not pa.types.is_map(kind):
        _refuse(value, kind, name)
    return [
        (_key(key, kind.key_type, name), _value(member, kind.item_type, f"{name}[{key!r}]"))
        for key, member in value.items()
    ]


def _key(text: str, kind: pa.DataType, name: str) -> Any:
    """Parse the name of a member as the key of a map."""
    if _is_text(kind) or pa.types.is_temporal(kind):
        return _value(text, kind, name)
    try:
        value = json.loads(text, parse_float=Decimal)
    except ValueError:
        _refuse(text, kind, name)
    return _value(value, kind, name)


def _text(text: str, kind: pa.DataType) -> Any:
    """Parse a text as a value of a type; None if it is not one. Raises ValueError."""
    if _is_text(kind):
        return text
    if pa.types.is_timestamp(kind):
        return instant(text, kind)
    if pa.types.is_decimal(kind):
        return _decimal(Decimal(text), kind) if _NUMBER.fullmatch(text) else None
    if pa.types.is_date(kind):
        return pa.scalar(text).cast(kind).as_py()
    if pa.types.is_floating(kind):
        return NOT_FINITE.get(text)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return base64.b64decode(text, validate=True)
    return None


def _number(value: bool | int | Decimal, kind: pa.DataType) -> Any:
    """Convert a number or a boolean to a type, None if it does not fit."""
    if isinstance(value, bool) or pa.types.is_boolean(kind):
        return value if isinstance(value, bool) and pa.types.is_boolean(kind) else None
    if pa.types.is_decimal(kind):
        return _decimal(Decimal(value), kind)
    if pa.types.is_integer(kind):
        half = 1 << (kind.bit_width - 1)
        return value if isinstance(value, int) and -half <= value < half else None
    if pa.types.is_floating(kind):
        number = pa.scalar(float(value)).cast(kind).as_py()
        return number if math.isfinite(number) else None
    return None


def _decimal(value: Decimal, kind: pa.DataType) -> Decimal | None:
    """Return a number if the type can hold all its digits, else None."""
    if value and value.adjusted() >= kind.precision - kind.scale:
        return None
    exact = value.quantize(Decimal((0, (1,), -kind.scale)), context=_ROOM)
    return exact if exact == value else None


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _refuse(value: Any, kind: pa.DataType, name: str) -> NoReturn:
    raise SchemaMismatch(
        f"{name} must be a valid {kind}; got {json.dumps(value, default=str)[:100]}"
    )
